//! Which series match a query: in the name of the query, and on the CPU pool when regular expressions
//! decide, since these take as long as their authors like, or when heads hold many series.

use std::sync::Arc;

use roaring::RoaringBitmap;
use sandur_model::{Matcher, TenantId};
use sandur_query::{Error, QueryContext};

use crate::head::Head;
use crate::logs::block::OpenLogs;

/// Steps of regular expressions that are quicker done than handed to the CPU pool.
const FEW_STEPS: usize = 100_000;
/// Series of samples in heads that are looked through where the query is: to sort more takes a while.
const FEW_SERIES: usize = 10_000;

/// The most steps that the matchers take on values of so many bytes for each name.
fn steps(matchers: &[Matcher], bytes_of: impl Fn(&str) -> usize) -> usize {
    let steps = |matcher: &Matcher| match matcher.steps_per_byte() {
        0 => 0,
        steps => steps.saturating_mul(bytes_of(matcher.name())),
    };
    matchers.iter().map(steps).fold(0, usize::saturating_add)
}

/// The matching streams of a block; the inner error says how the block is damaged.
pub(crate) async fn in_block(
    context: &QueryContext,
    block: &Arc<OpenLogs>,
    matchers: &[Matcher],
) -> Result<Result<RoaringBitmap, sandur_format::Error>, Error> {
    if steps(matchers, |name| block.footer.value_bytes(name)) <= FEW_STEPS {
        return context.compute_here(|| Ok(block.footer.select(matchers)));
    }
    let (block, matchers) = (Arc::clone(block), matchers.to_vec());
    context.compute(move || Ok(block.footer.select(&matchers))).await
}

/// What `look` finds in each of the heads.
pub(crate) async fn in_heads<T: Send + 'static>(
    context: &QueryContext,
    heads: &[Arc<Head>],
    matchers: &[Matcher],
    look: impl Fn(usize, &Head, &TenantId, &[Matcher]) -> T + Send + 'static,
) -> Result<Vec<T>, Error> {
    let tenant = context.tenant();
    let series: usize = heads.iter().map(|head| head.samples().series(tenant)).sum();
    if series <= FEW_SERIES && matchers.iter().all(|matcher| matcher.steps_per_byte() == 0) {
        return Ok(heads.iter().enumerate().map(|(n, head)| look(n, head, tenant, matchers)).collect());
    }
    let (heads, matchers, tenant) = (heads.to_vec(), matchers.to_vec(), context.tenant().clone());
    let job =
        move || Ok(heads.iter().enumerate().map(|(n, head)| look(n, head, &tenant, &matchers)).collect());
    context.compute(job).await
}

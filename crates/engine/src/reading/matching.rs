//! Matches series of a query. Cheap matching runs inline. It runs on the CPU pool when regular
//! expressions decide, whose cost users control, or when heads hold many series.

use std::sync::Arc;

use roaring::RoaringBitmap;
use sandur_model::{Matcher, TenantId};
use sandur_query::{Error, QueryContext};

use crate::head::Head;
use crate::logs::block::OpenLogs;

/// Up to this many steps of regular expressions run inline, because a job on the CPU pool costs more.
const FEW_STEPS: usize = 100_000;
/// Up to this many series of samples in heads are searched inline; sorting more takes too long.
const FEW_SERIES: usize = 10_000;

/// An upper bound of the matchers' steps; `bytes_of` returns the bytes of values of a label name.
fn steps(matchers: &[Matcher], bytes_of: impl Fn(&str) -> usize) -> usize {
    let steps = |matcher: &Matcher| match matcher.steps_per_byte() {
        0 => 0,
        steps => steps.saturating_mul(bytes_of(matcher.name())),
    };
    matchers.iter().map(steps).fold(0, usize::saturating_add)
}

/// Returns the matching streams of a block that are in the part of the query. The inner error says how the
/// block is damaged.
pub(crate) async fn in_block(
    context: &QueryContext,
    block: &Arc<OpenLogs>,
    matchers: &[Matcher],
) -> Result<Result<RoaringBitmap, sandur_format::Error>, Error> {
    let part = context.part();
    let select = move |block: &OpenLogs, matchers: &[Matcher]| {
        let mut streams = block.footer.select(matchers)?;
        if !part.is_whole() {
            streams = streams.into_iter().filter(|ordinal| part.has(block.series_id(*ordinal))).collect();
        }
        Ok(streams)
    };
    if steps(matchers, |name| block.footer.value_bytes(name)) <= FEW_STEPS {
        return context.compute_here(|| Ok(select(block, matchers)));
    }
    let (block, matchers) = (Arc::clone(block), matchers.to_vec());
    context.compute(move || Ok(select(&block, &matchers))).await
}

/// Returns the result of `look` for each of the heads.
pub(crate) async fn in_heads<T: Send + 'static>(
    context: &QueryContext,
    heads: &[Arc<Head>],
    matchers: &[Matcher],
    look: impl Fn(usize, &Head, &TenantId, &[Matcher]) -> T + Send + 'static,
) -> Result<Vec<T>, Error> {
    let all = |head: &Head| head.samples().series(context.tenant());
    in_heads_examining(context, heads, matchers, (all, look)).await
}

/// Does the same for a `look` that examines at most as many series, or nodes of paths, as `examined` says.
pub(crate) async fn in_heads_examining<T: Send + 'static>(
    context: &QueryContext,
    heads: &[Arc<Head>],
    matchers: &[Matcher],
    (examined, look): (
        impl Fn(&Head) -> usize,
        impl Fn(usize, &Head, &TenantId, &[Matcher]) -> T + Send + 'static,
    ),
) -> Result<Vec<T>, Error> {
    let tenant = context.tenant();
    let series = heads.iter().map(|head| examined(head)).fold(0, usize::saturating_add);
    if series <= FEW_SERIES && matchers.iter().all(|matcher| matcher.steps_per_byte() == 0) {
        return Ok(heads.iter().enumerate().map(|(n, head)| look(n, head, tenant, matchers)).collect());
    }
    let (heads, matchers, tenant) = (heads.to_vec(), matchers.to_vec(), context.tenant().clone());
    let job =
        move || Ok(heads.iter().enumerate().map(|(n, head)| look(n, head, &tenant, &matchers)).collect());
    context.compute(job).await
}

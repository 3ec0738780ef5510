//! Which streams match a query: in the name of the query, and on the CPU pool when regular expressions
//! decide, since these take as long as their authors like.

use std::sync::Arc;

use roaring::RoaringBitmap;
use sandur_model::{MatchOp, Matcher, TenantId};
use sandur_query::{Error, QueryContext};

use super::block::OpenBlock;
use crate::head::Head;

fn searches(matchers: &[Matcher]) -> bool {
    matchers.iter().any(|matcher| matches!(matcher.op(), MatchOp::Regex | MatchOp::NotRegex))
}

/// The streams of a block; the inner error says how the block is damaged.
pub(super) async fn in_block(
    context: &QueryContext,
    block: &Arc<OpenBlock>,
    matchers: &[Matcher],
) -> Result<Result<RoaringBitmap, sandur_format::Error>, Error> {
    if !searches(matchers) {
        return Ok(block.footer.select(matchers));
    }
    let (block, matchers) = (Arc::clone(block), matchers.to_vec());
    context.compute(move || Ok(block.footer.select(&matchers))).await
}

/// What `look` finds in each of the heads.
pub(super) async fn in_heads<T: Send + 'static>(
    context: &QueryContext,
    heads: &[Arc<Head>],
    matchers: &[Matcher],
    look: impl Fn(usize, &Head, &TenantId, &[Matcher]) -> T + Send + 'static,
) -> Result<Vec<T>, Error> {
    if !searches(matchers) {
        let tenant = context.tenant();
        return Ok(heads.iter().enumerate().map(|(n, head)| look(n, head, tenant, matchers)).collect());
    }
    let (heads, matchers, tenant) = (heads.to_vec(), matchers.to_vec(), context.tenant().clone());
    let job =
        move || Ok(heads.iter().enumerate().map(|(n, head)| look(n, head, &tenant, &matchers)).collect());
    context.compute(job).await
}

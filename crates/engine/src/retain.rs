//! Retention: blocks whose rows are all older than their tenant keeps them leave the catalog.
//!
//! Only whole blocks are removed, so rows may outlive their time by the length of a window. Objects are
//! deleted later, by garbage collection, after the removal was announced.

use sandur_base::{Env, Id};
use sandur_catalog::Catalog;
use sandur_format::catalog_entry::{BlockMeta, Edit, Precondition};

use crate::error::{Error, refused};
use crate::options::RetentionOf;
use crate::view::Views;

/// Blocks that one commit removes at most.
const REMOVALS_MAX: usize = 256;

/// Removes what is too old, on behalf of `incarnation`; gives the number of blocks.
pub(crate) async fn remove_expired(
    env: &Env,
    catalog: &Catalog,
    views: &Views,
    retention_of: &RetentionOf,
    incarnation: Id,
) -> Result<usize, Error> {
    let now_ns = env.now_ns();
    let snapshot = catalog.snapshot();
    let mut expired: Vec<Id> =
        snapshot.all_blocks().filter(|b| is_expired(b, now_ns, retention_of)).map(|b| b.id).collect();
    expired.truncate(REMOVALS_MAX);
    if expired.is_empty() {
        return Ok(0);
    }
    let at_ms = now_ns / 1_000_000;
    let edits = expired.iter().map(|id| Edit::RemoveBlock { id: *id, at_ms }).collect();
    let preconditions = vec![Precondition::BlocksPresent(expired.clone())];
    let committed = catalog.commit(incarnation, edits, preconditions).await;
    views.publish(committed.map_err(|error| refused("a removal of old blocks", &error))?);
    tracing::info!(blocks = expired.len(), "removed blocks past their retention");
    Ok(expired.len())
}

fn is_expired(block: &BlockMeta, now_ns: i64, retention_of: &RetentionOf) -> bool {
    let keep_ns = retention_of(&block.dataset);
    keep_ns > 0 && block.max_ts < now_ns.saturating_sub(keep_ns)
}

//! Removes blocks whose rows are all past every period that they may have.
//!
//! Garbage collection deletes the objects later, after the removal was announced.

use sandur_base::Id;
use sandur_catalog::Snapshot;
use sandur_format::catalog_entry::{Edit, Precondition};
use sandur_model::TimeRange;

use super::due::Expiries;
use crate::error::{Error, refused};
use crate::node::Node;
use crate::place::{Duty, NodePlace};
use crate::policy::expired::{ExpiredRows, Reason};

/// The most blocks that one commit removes.
const REMOVALS_MAX: usize = 256;

/// Removes blocks of this node's windows past their retention, on behalf of `incarnation`. Returns their
/// number.
pub(crate) async fn remove_expired(node: &Node, (due, incarnation): (&Expiries, Id)) -> Result<usize, Error> {
    let Node { env, catalog, views, metrics, place, .. } = node;
    let (expired, rows) = expired(&catalog.snapshot(), due, place);
    if expired.is_empty() {
        return Ok(0);
    }
    let at_ms = env.now_ns() / 1_000_000;
    let edits = expired.iter().map(|id| Edit::RemoveBlock { id: *id, at_ms }).collect();
    let preconditions = vec![Precondition::BlocksPresent(expired.clone())];
    let committed = catalog.commit(incarnation, edits, preconditions).await;
    views.publish(committed.map_err(|error| refused("a removal of old blocks", &error))?);
    metrics.note_expired(&rows);
    metrics.note_retention("removed", expired.len() as u64);
    tracing::info!(blocks = expired.len(), rows = rows.total(), "removed blocks past their retention");
    Ok(expired.len())
}

/// The blocks of this node's windows past their retention, at most [`REMOVALS_MAX`], and their rows.
fn expired(snapshot: &Snapshot, due: &Expiries, place: &NodePlace) -> (Vec<Id>, ExpiredRows) {
    let (mut expired, mut rows) = (Vec::new(), ExpiredRows::default());
    for dataset in snapshot.datasets() {
        let Some(expiry) = due.get(dataset) else { continue };
        let reason = if expiry.retention().is_uniform() { Reason::Tenant } else { Reason::Block };
        for block in snapshot.blocks(dataset, TimeRange::ALL).filter(|block| expiry.ends_block(block)) {
            if expired.len() == REMOVALS_MAX {
                return (expired, rows);
            }
            if !place.owns(Duty::Removal, dataset, block.window) {
                continue;
            }
            expired.push(block.id);
            rows.add(reason, block.rows);
        }
    }
    (expired, rows)
}

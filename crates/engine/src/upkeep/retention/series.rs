//! Rewrites blocks without series that are past their period.
//!
//! Blocks that still wait for a merge are left to that merge. A block is examined once for each set of
//! periods that are over for it. This is remembered in memory only, so after a restart it is examined
//! once more. Examining reads the index. A block of which less than a tenth is past its period stays
//! until more is. Each window is the work of its owner, and blocks are processed one at a time.

use std::collections::{BTreeMap, HashMap};
use std::ops::{Bound, RangeBounds};
use std::sync::Arc;
use std::time::Duration;

use sandur_base::Id;
use sandur_catalog::Snapshot;
use sandur_format::catalog_entry::BlockMeta;
use sandur_model::{Dataset, TimeRange};

use super::due::Expiries;
use crate::place::Duty;
use crate::policy::retention::{ExpiredPeriods, Expiry};
use crate::upkeep::compaction::compactor::Compactor;
use crate::upkeep::compaction::outcome::Expired;
use crate::upkeep::context::UpkeepContext;

/// A round begins no further block after this time, because merges and garbage collection wait for it.
const ROUND_MAX: Duration = Duration::from_secs(60);
/// How long a block is skipped that could not be examined or rewritten.
const FAILED_PAUSE: Duration = Duration::from_secs(600);

/// Removes series from blocks when their period is over.
pub(crate) struct SeriesRetention {
    context: Arc<UpkeepContext>,
    /// For existing blocks, the set of periods for which they were examined.
    examined: HashMap<Id, ExpiredPeriods>,
    /// Blocks that could not be processed, and when they are tried again.
    failed: BTreeMap<Id, Duration>,
    /// Where the next round begins, so that no tenant must wait for all work of another one.
    next: Bound<Dataset>,
}

impl SeriesRetention {
    pub(crate) fn new(context: &Arc<UpkeepContext>) -> Self {
        let (examined, failed) = (HashMap::new(), BTreeMap::new());
        Self { context: Arc::clone(context), examined, failed, next: Bound::Unbounded }
    }

    /// Does due work for a limited time. A failure for one block does not block others.
    pub(crate) async fn round(&mut self, compactor: &Compactor, due: &Expiries) {
        let env = self.context.node.env.clone();
        let began = env.monotonic();
        let snapshot = self.context.node.catalog.snapshot();
        self.examined.retain(|id, _| snapshot.block(*id).is_some());
        self.failed.retain(|id, until| *until > began && snapshot.block(*id).is_some());
        let signal = self.context.node.shutdown.signal();
        let candidates = self.candidates(&snapshot, due);
        let first = candidates.first().map(|(block, ..)| block.dataset.clone());
        for (block, set, expiry) in candidates {
            if signal.is_triggered() || env.monotonic().saturating_sub(began) >= ROUND_MAX {
                let had_its_turn = first.as_ref() == Some(&block.dataset);
                let bound = if had_its_turn { Bound::Excluded } else { Bound::Included };
                self.next = bound(block.dataset.clone());
                return;
            }
            // A merge or a delete may have replaced it meanwhile.
            let now = self.context.node.catalog.snapshot();
            let Some(block) = now.block(block.id).cloned() else { continue };
            let own = self.context.node.place.owns(Duty::Removal, &block.dataset, block.window);
            if own && !compactor.awaits_merge(&now, &block) {
                self.work_on(compactor, &now, (block, set, expiry)).await;
            }
        }
        self.next = Bound::Unbounded;
    }

    /// Blocks that were not examined for the periods that are over for them, beginning with the dataset
    /// in `next`.
    fn candidates(
        &self,
        snapshot: &Snapshot,
        due: &Expiries,
    ) -> Vec<(Arc<BlockMeta>, ExpiredPeriods, Arc<Expiry>)> {
        let mut found = Vec::new();
        for dataset in snapshot.datasets() {
            let Some(expiry) = due.get(dataset).filter(|due| !due.retention().is_uniform()) else { continue };
            for block in snapshot.blocks(dataset, TimeRange::ALL) {
                let Some(set) = expiry.set_of(block) else { continue };
                if self.examined.get(&block.id) != Some(&set) && !self.failed.contains_key(&block.id) {
                    found.push((Arc::clone(block), set, Arc::clone(expiry)));
                }
            }
        }
        let comes_first = (self.next.as_ref(), Bound::Unbounded);
        let waits = |block: &BlockMeta| !RangeBounds::<Dataset>::contains(&comes_first, &block.dataset);
        let later = found.partition_point(|(block, ..)| waits(block));
        found.rotate_left(later);
        found
    }

    async fn work_on(
        &mut self,
        compactor: &Compactor,
        snapshot: &Snapshot,
        (block, set, expiry): (Arc<BlockMeta>, ExpiredPeriods, Arc<Expiry>),
    ) {
        let metrics = &self.context.node.metrics;
        let expired = compactor.expire(self.context.incarnation(), snapshot, &block, &expiry).await;
        match expired {
            Ok(Expired::Stays) => {
                metrics.note_retention("kept", 1);
                self.examined.insert(block.id, set);
            }
            Ok(Expired::Rewritten { rows, into }) => {
                self.examined.insert(into, set);
                metrics.note_retention("rewritten", 1);
                metrics.note_expired(&rows);
                let (path, rows, of) = (block.path(), rows.total(), block.rows);
                tracing::info!(path, rows, of, "rewrote a block without rows past their retention");
            }
            Ok(Expired::Removed { rows }) => {
                metrics.note_retention("removed", 1);
                metrics.note_expired(&rows);
                let (path, rows) = (block.path(), rows.total());
                tracing::info!(path, rows, "removed a block of which every series is past its retention");
            }
            Ok(Expired::Damaged) => self.pause(block.id),
            Err(error) => {
                metrics.retention_failures.inc();
                tracing::warn!(path = block.path(), %error, "rows past their retention stay in a block");
                self.pause(block.id);
            }
        }
    }

    fn pause(&mut self, block: Id) {
        self.failed.insert(block, self.context.node.env.monotonic() + FAILED_PAUSE);
    }
}

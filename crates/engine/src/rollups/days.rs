//! Days whose points are due to become rollups.
//!
//! A day that still waits for a merge, or for a delete request, is left to it. It is looked at once for each
//! set of blocks, rules and ages that are over for it, which is remembered in memory: after a restart it is
//! looked at once more. A look reads the indexes of its blocks. Each day is the work of the owner of its
//! window, and one day is worked on at a time.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use sandur_catalog::{DeleteRecord, Snapshot};
use sandur_format::catalog_entry::BlockMeta;
use sandur_model::{Dataset, Signal, TimeRange};
use xxhash_rust::xxh3::Xxh3;

use super::{DayRollup, RollupSteps};
use crate::compact::{Compactor, Rolled, is_owner};
use crate::retention::RetentionClock;
use crate::shared::Shared;
use crate::windows::day_of;

/// A round begins no other day after this time: merges and garbage wait meanwhile.
const ROUND_MAX: Duration = Duration::from_secs(60);
/// How long a day is left alone that could not be looked at or rolled.
const FAILED_PAUSE: Duration = Duration::from_secs(600);

/// A day of a dataset, by its begin.
type Day = (Dataset, i64);

/// Makes rollups of days when their time has come.
pub(crate) struct RollupDays {
    shared: Arc<Shared>,
    clock: RetentionClock,
    /// The version of the rules, and since when they stand.
    since: Option<(u64, Duration)>,
    /// What each day was like when it was looked at.
    looked_at: HashMap<Day, u64>,
    /// Days that could not be worked on, and when they are tried again.
    failed: BTreeMap<Day, Duration>,
    /// Where the next round begins, so that no tenant waits for all work of another.
    next: Option<Day>,
}

/// A day that is due.
struct Due {
    day: Day,
    rollup: Arc<DayRollup>,
}

impl RollupDays {
    pub(crate) fn new(shared: &Arc<Shared>) -> Self {
        let (looked_at, failed) = (HashMap::new(), BTreeMap::new());
        let clock = RetentionClock::new();
        Self { shared: Arc::clone(shared), clock, since: None, looked_at, failed, next: None }
    }

    /// Does what is due, for a while. What fails for one day keeps no other one waiting.
    pub(crate) async fn round(&mut self, compactor: &Compactor) {
        let (env, signal) = (self.shared.env.clone(), self.shared.shutdown.signal());
        let began = env.monotonic();
        // The clock is followed without rules as well: what passed before they came is time.
        let now_ns = self.clock.now_ns(&env);
        let Some(steps) = self.steps(began) else { return };
        let snapshot = self.shared.catalog.snapshot();
        self.failed.retain(|_, until| *until > began);
        for Due { day, rollup } in self.due(&snapshot, &steps, now_ns) {
            if signal.is_triggered() || env.monotonic().saturating_sub(began) >= ROUND_MAX {
                self.next = Some(day);
                return;
            }
            self.work_on(compactor, day, &rollup).await;
        }
        self.next = None;
    }

    /// The rules, once they stood for a while.
    fn steps(&mut self, now: Duration) -> Option<Arc<dyn RollupSteps>> {
        let options = &self.shared.options.maintenance;
        let steps = options.rollups.as_ref().and_then(|rollups| rollups());
        let version = steps.as_ref().map(|steps| steps.version());
        let since = self.since.filter(|(known, _)| Some(*known) == version);
        self.since = since.or(version.map(|version| (version, now)));
        let (_, at) = self.since?;
        steps.filter(|_| now.saturating_sub(at) >= options.retention_change_delay)
    }

    /// Days that are not as they were when they were looked at, the next one first.
    fn due(&mut self, snapshot: &Snapshot, steps: &Arc<dyn RollupSteps>, now_ns: i64) -> Vec<Due> {
        let (mut due, mut present) = (Vec::new(), HashMap::new());
        for dataset in snapshot.datasets().filter(|dataset| dataset.signal == Signal::Metrics) {
            let starts =
                snapshot.blocks(dataset, TimeRange::ALL).map(|block| day_of(block.window.start).start);
            let mut starts: Vec<i64> = starts.collect();
            starts.sort_unstable();
            starts.dedup();
            for start in starts {
                let day = (dataset.clone(), start);
                let Some(rollup) = DayRollup::new(Arc::clone(steps), day_of(start), now_ns) else { continue };
                if let Some(known) = self.looked_at.remove(&day) {
                    present.insert(day.clone(), known);
                }
                let is_known = present.get(&day) == Some(&state(&blocks_of(snapshot, &day), &rollup));
                if !is_known && !self.failed.contains_key(&day) {
                    due.push(Due { day, rollup: Arc::new(rollup) });
                }
            }
        }
        self.looked_at = present;
        due.sort_by(|a, b| a.day.cmp(&b.day));
        let later = due.partition_point(|due| self.next.as_ref().is_some_and(|next| due.day < *next));
        due.rotate_left(later);
        due
    }

    async fn work_on(&mut self, compactor: &Compactor, day: Day, rollup: &Arc<DayRollup>) {
        // Merges, deletes and flushes may have changed it meanwhile.
        let now = self.shared.catalog.snapshot();
        let (blocks, own) = (blocks_of(&now, &day), self.shared.incarnation());
        let waits = |block: &Arc<BlockMeta>| compactor.awaits_merge(&now, block);
        let has_open =
            |record: &DeleteRecord| record.is_open() && touches(record.request.range(), rollup.day());
        let is_open = now.deletes(&day.0).any(has_open);
        if blocks.is_empty()
            || !is_owner(&now, &day.0, rollup.day(), own)
            || is_open
            || blocks.iter().any(waits)
        {
            return;
        }
        let metrics = &self.shared.metrics;
        let before = state(&blocks, rollup);
        match compactor.roll(own, &now, &blocks, rollup).await {
            Ok(Rolled::Rewritten { into, rows, less }) => {
                metrics.note_rollup("rewritten", blocks.len() as u64);
                let (tenant, blocks) = (&day.0.tenant, blocks.len());
                tracing::info!(%tenant, blocks, rows, less, "points of a day became rollups");
                // What it has become is as it should be.
                let after = self.shared.catalog.snapshot();
                let of = blocks_of(&after, &day);
                let is_alone = of.len() == 1 && of.iter().all(|block| block.id == into);
                self.looked_at.insert(day, if is_alone { state(&of, rollup) } else { before });
            }
            Ok(outcome @ (Rolled::Stays | Rolled::TooLarge)) => {
                let is_kept = matches!(outcome, Rolled::Stays);
                metrics.note_rollup(if is_kept { "kept" } else { "too_large" }, blocks.len() as u64);
                self.looked_at.insert(day, before);
            }
            Ok(Rolled::Damaged) => self.pause(day),
            Err(error) => {
                metrics.rollup_failures.inc();
                tracing::warn!(tenant = %day.0.tenant, %error, "points of a day stay as they are");
                self.pause(day);
            }
        }
    }

    fn pause(&mut self, day: Day) {
        self.failed.insert(day, self.shared.env.monotonic() + FAILED_PAUSE);
    }
}

fn touches(one: TimeRange, other: TimeRange) -> bool {
    !one.intersect(&other).is_empty()
}

/// The blocks of a day in the order of writing.
fn blocks_of(snapshot: &Snapshot, (dataset, start): &Day) -> Vec<Arc<BlockMeta>> {
    let mut blocks: Vec<Arc<BlockMeta>> = snapshot.blocks(dataset, day_of(*start)).cloned().collect();
    blocks.sort_by_key(|block| block.order_of_writing());
    blocks
}

/// Differs when other blocks are there, other rules hold, or another age is over.
fn state(blocks: &[Arc<BlockMeta>], rollup: &DayRollup) -> u64 {
    let mut hash = Xxh3::new();
    blocks.iter().for_each(|block| hash.update(&block.id.to_bytes()));
    hash.update(&rollup.steps.version().to_le_bytes());
    hash.update(&(rollup.over() as u64).to_le_bytes());
    hash.digest()
}

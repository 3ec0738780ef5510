//! Days whose points are due to become rollups.
//!
//! A day is processed in [groups](super::groups) of blocks. A group that still waits for a merge or for
//! a delete request is skipped until then. A group is examined once for each combination of blocks,
//! rules and ages. This is remembered in memory only, so after a restart it is examined once more.
//! Examining reads the indexes of the blocks. Each group is the work of the owner of its window, and
//! groups are processed one at a time.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use sandur_catalog::{DeleteRecord, Snapshot};
use sandur_format::catalog_entry::BlockMeta;
use sandur_model::{Dataset, HOUR_NS, Signal, TimeRange};
use xxhash_rust::xxh3::Xxh3;

use super::groups::Group;
use crate::error::Error;
use crate::place::Duty;
use crate::policy::rollups::{DayRollup, RollupSteps};
use crate::upkeep::compaction::compactor::Compactor;
use crate::upkeep::compaction::outcome::Rolled;
use crate::upkeep::context::UpkeepContext;
use crate::upkeep::retention::clock::RetentionClock;
use crate::windows::{day_of, is_long};

/// A round begins no further group after this time, because merges and garbage collection wait for it.
const ROUND_MAX: Duration = Duration::from_secs(60);
/// How long a group is skipped that could not be examined or rolled.
const FAILED_PAUSE: Duration = Duration::from_secs(600);

/// A group of a dataset, identified by the begin of its window.
type Place = (Dataset, i64);

/// Makes rollups of days when they are due.
pub(crate) struct RollupDays {
    context: Arc<UpkeepContext>,
    clock: RetentionClock,
    /// The version of the rules, and since when they have been unchanged.
    since: Option<(u64, Duration)>,
    /// The [`state`] of each group when it was examined.
    examined: HashMap<Place, u64>,
    /// Days, by their begin, that did not fit into memory in one merge: their slots are rolled separately.
    apart: BTreeSet<Place>,
    /// Groups that could not be processed, and when they are tried again.
    failed: BTreeMap<Place, Duration>,
    /// Where the next round begins, so that no tenant must wait for all work of another one.
    next: Option<Place>,
}

/// A group that is due.
struct Due {
    place: Place,
    rollup: DayRollup,
}

impl RollupDays {
    pub(crate) fn new(context: &Arc<UpkeepContext>) -> Self {
        let (examined, apart, failed) = (HashMap::new(), BTreeSet::new(), BTreeMap::new());
        let clock = RetentionClock::new();
        Self { context: Arc::clone(context), clock, since: None, examined, apart, failed, next: None }
    }

    /// Does due work for a limited time. A failure for one group does not block others.
    pub(crate) async fn round(&mut self, compactor: &Compactor) {
        let (env, signal) = (self.context.node.env.clone(), self.context.node.shutdown.signal());
        let began = env.monotonic();
        // The clock is observed without rules as well, so that the time before the first rules counts.
        let now_ns = self.clock.now_ns(&env);
        let Some(steps) = self.steps(began) else { return };
        let snapshot = self.context.node.catalog.snapshot();
        self.failed.retain(|_, until| *until > began);
        for Due { place, rollup } in self.due(compactor, &snapshot, &steps, now_ns) {
            if signal.is_triggered() || env.monotonic().saturating_sub(began) >= ROUND_MAX {
                self.next = Some(place);
                return;
            }
            self.work_on(compactor, place, rollup).await;
        }
        self.next = None;
    }

    /// The rules, once they have been unchanged for the configured delay.
    fn steps(&mut self, now: Duration) -> Option<Arc<dyn RollupSteps>> {
        let options = &self.context.options;
        let steps = options.rollups.as_ref().and_then(|rollups| rollups());
        let version = steps.as_ref().map(|steps| steps.version());
        let since = self.since.filter(|(known, _)| Some(*known) == version);
        self.since = since.or(version.map(|version| (version, now)));
        let (_, at) = self.since?;
        steps.filter(|_| now.saturating_sub(at) >= options.retention_change_delay)
    }

    /// Groups whose state differs from the examined one, beginning with the group in `next`.
    fn due(
        &mut self,
        compactor: &Compactor,
        snapshot: &Snapshot,
        steps: &Arc<dyn RollupSteps>,
        now_ns: i64,
    ) -> Vec<Due> {
        let (mut due, mut present) = (Vec::new(), HashMap::new());
        for dataset in snapshot.datasets().filter(|dataset| dataset.signal == Signal::Metrics) {
            let blocks = snapshot.blocks(dataset, TimeRange::ALL).filter(|block| !is_long(block.window));
            let starts = blocks.map(|block| day_of(block.window.start).start);
            let days: BTreeSet<i64> = starts.collect();
            for day in days.into_iter().map(day_of) {
                let Some(of_day) = DayRollup::new(Arc::clone(steps), day, now_ns) else { continue };
                for group in self.groups_of(compactor, snapshot, dataset, day) {
                    let place = (dataset.clone(), group.window.start);
                    let rollup = of_day.within(group.window);
                    if let Some(known) = self.examined.remove(&place) {
                        present.insert(place.clone(), known);
                    }
                    let is_known = present.get(&place) == Some(&state(&group.blocks, &rollup));
                    if !is_known && !self.failed.contains_key(&place) {
                        due.push(Due { place, rollup });
                    }
                }
            }
        }
        self.examined = present;
        self.apart.retain(|(dataset, start)| snapshot.blocks(dataset, day_of(*start)).next().is_some());
        due.sort_by(|a, b| a.place.cmp(&b.place));
        let later = due.partition_point(|due| self.next.as_ref().is_some_and(|next| due.place < *next));
        due.rotate_left(later);
        due
    }

    async fn work_on(&mut self, compactor: &Compactor, place: Place, rollup: DayRollup) {
        // Merges, deletes and flushes may have changed it meanwhile.
        let now = self.context.node.catalog.snapshot();
        let (dataset, own, window) = (&place.0, self.context.incarnation(), rollup.window());
        let Some(group) = self.group_of(compactor, &now, &place).filter(|group| group.window == window)
        else {
            return;
        };
        let has_open = |record: &DeleteRecord| record.is_open() && touches(record.request.range(), window);
        let is_open = now.deletes(dataset).any(has_open);
        let is_own = self.context.node.place.owns(Duty::Merge, dataset, window);
        if !is_own || is_open || compactor.group_awaits_merge(&now, &group.blocks) {
            return;
        }
        let rollup = Arc::new(rollup);
        let are_apart = self.apart.contains(&(dataset.clone(), day_of(window.start).start));
        let rolled = compactor.roll(own, &now, (&group, are_apart), &rollup).await;
        self.note(compactor, (place, &rollup), &group, rolled);
    }

    fn note(
        &mut self,
        compactor: &Compactor,
        (place, rollup): (Place, &DayRollup),
        Group { window, blocks, .. }: &Group,
        rolled: Result<Rolled, Error>,
    ) {
        let metrics = &self.context.node.metrics;
        let (before, count) = (state(blocks, rollup), blocks.len() as u64);
        let (tenant, from, hours) = (&place.0.tenant, window.start, window.length_ns() / HOUR_NS);
        match rolled {
            Ok(Rolled::Rewritten { into, rows, less }) => {
                metrics.note_rollup("rewritten", count);
                tracing::info!(%tenant, from, hours, blocks = count, rows, less, "points became rollups");
                // The resulting block needs no further work.
                let after = self.group_of(compactor, &self.context.node.catalog.snapshot(), &place);
                let is_alone = |group: &Group| group.blocks.len() == 1 && group.blocks[0].id == into;
                let alone = after.filter(is_alone);
                let known = alone.map_or(before, |group| state(&group.blocks, &rollup.within(group.window)));
                self.examined.insert(place, known);
            }
            Ok(outcome @ (Rolled::Stays | Rolled::TooLarge)) => {
                let is_kept = matches!(outcome, Rolled::Stays);
                metrics.note_rollup(if is_kept { "kept" } else { "too_large" }, count);
                self.examined.insert(place, before);
            }
            Ok(Rolled::Cut { blocks }) => {
                metrics.note_rollup("cut", blocks);
                tracing::info!(%tenant, from, hours, blocks, "blocks were cut into slots for rollups");
            }
            Ok(Rolled::Damaged) => self.pause(place),
            Err(Error::MergeTooLarge(_)) if *window == day_of(from) && blocks.len() > 1 => {
                // The next round tries the slots separately.
                if !self.apart.insert((place.0.clone(), from)) {
                    metrics.note_rollup("too_large", count);
                    self.examined.insert(place, before);
                }
            }
            Err(error @ Error::MergeTooLarge(_)) => {
                // Another attempt would be refused as well.
                metrics.note_rollup("too_large", count);
                tracing::warn!(%tenant, from, hours, blocks = count, %error, "points were not rolled up");
                self.examined.insert(place, before);
            }
            Err(error) => {
                metrics.rollup_failures.inc();
                tracing::warn!(%tenant, from, hours, %error, "points could not be rolled up yet");
                self.pause(place);
            }
        }
    }

    fn groups_of(
        &self,
        compactor: &Compactor,
        snapshot: &Snapshot,
        dataset: &Dataset,
        day: TimeRange,
    ) -> Vec<Group> {
        let are_apart = self.apart.contains(&(dataset.clone(), day.start));
        let (long, blocks): (Vec<_>, Vec<_>) =
            blocks_of(snapshot, dataset, day).into_iter().partition(|block| is_long(block.window));
        compactor.groups_of((day, are_apart), blocks, &long)
    }

    /// The group that begins at a place now.
    fn group_of(&self, compactor: &Compactor, now: &Snapshot, (dataset, start): &Place) -> Option<Group> {
        let groups = self.groups_of(compactor, now, dataset, day_of(*start));
        groups.into_iter().find(|group| group.window.start == *start)
    }

    fn pause(&mut self, place: Place) {
        self.failed.insert(place, self.context.node.env.monotonic() + FAILED_PAUSE);
    }
}

fn touches(one: TimeRange, other: TimeRange) -> bool {
    !one.intersect(&other).is_empty()
}

/// The blocks of a day in the order of writing.
fn blocks_of(snapshot: &Snapshot, dataset: &Dataset, day: TimeRange) -> Vec<Arc<BlockMeta>> {
    let mut blocks: Vec<Arc<BlockMeta>> = snapshot.blocks(dataset, day).cloned().collect();
    blocks.sort_by_key(|block| block.order_of_writing());
    blocks
}

/// A hash that differs when the blocks, the rules or the number of passed ages differ.
fn state(blocks: &[Arc<BlockMeta>], rollup: &DayRollup) -> u64 {
    let mut hash = Xxh3::new();
    blocks.iter().for_each(|block| hash.update(&block.id.to_bytes()));
    hash.update(&rollup.window().end.to_le_bytes());
    hash.update(&rollup.version().to_le_bytes());
    hash.update(&(rollup.over() as u64).to_le_bytes());
    hash.digest()
}

//! Removes the lines of delete requests from blocks.
//!
//! **Life of a request.** Once a request cannot be cancelled any more, it is *started* by a catalog
//! entry. The number of this entry is the mark that clean blocks carry. Unclean blocks of the request's
//! time are examined: a block without affected pages is marked clean unchanged, any other is rewritten
//! without the lines. Rows that were acknowledged before the start may still be in memory, here or in
//! another process. The request waits for their flush, whose blocks are unclean and are examined next.
//! Then the request is finished. The catalog refuses that if an unclean block was added meanwhile.
//!
//! **Who does it.** Each window is owned by one live writer, as in compaction. All work can be done
//! twice or abandoned at any point, because the catalog alone determines the remaining work. Failures
//! are retried in the next round.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use sandur_base::Id;
use sandur_catalog::{DeleteProgress, DeleteRecord, Snapshot};
use sandur_format::catalog_entry::{BlockMeta, Edit, Precondition, WalKind};
use sandur_model::{Dataset, DeletionMode, TimeRange};
use sandur_store::Intent;

use crate::error::{Error, refused};
use crate::place::Duty;
use crate::upkeep::compaction::compactor::Compactor;
use crate::upkeep::compaction::outcome::Cleaned;
use crate::upkeep::context::UpkeepContext;
use crate::view::floor_of;
use crate::writing::wal;

/// The most blocks that one commit marks clean.
const CLEAN_MAX: usize = 256;
/// A request is started only this long after the end of its cancellation period, so that start and
/// cancellation do not race: a minute, as in Loki.
const START_GRACE_MS: i64 = 60_000;

/// For each writer, the sequence number below which all rows must be in blocks.
type Targets = BTreeMap<Id, u64>;

/// Starts, processes and finishes delete requests.
pub(crate) struct DeleteProcessor {
    context: Arc<UpkeepContext>,
    /// What started requests wait for. Not stored: after a restart the requests wait for the rows known
    /// then.
    targets: BTreeMap<Id, Targets>,
}

impl DeleteProcessor {
    pub fn new(context: &Arc<UpkeepContext>) -> Self {
        Self { context: Arc::clone(context), targets: BTreeMap::new() }
    }

    /// Does the due work on requests of all tenants. Failures of one tenant do not affect others; they
    /// are logged and retried in the next round.
    pub async fn round(&mut self, compactor: &Compactor) {
        let snapshot = self.context.node.catalog.snapshot();
        let (mut pending, mut open) = (0, BTreeSet::new());
        for dataset in snapshot.datasets_with_deletes() {
            let tenant = &dataset.tenant;
            let records: Vec<DeleteRecord> =
                snapshot.deletes(dataset).filter(|record| record.is_open()).cloned().collect();
            pending += records.len();
            open.extend(records.iter().map(|record| record.request.id));
            if self.context.rulebook.mode_of(tenant) != DeletionMode::FilterAndDelete || records.is_empty() {
                continue;
            }
            if let Err(error) = self.dataset(compactor, dataset, records).await {
                tracing::warn!(%dataset, %error, "processing delete requests failed; it is tried again");
            }
        }
        self.context.node.metrics.deletes_pending.set(pending as i64);
        self.targets.retain(|id, _| open.contains(id));
    }

    /// Does the possible work on a dataset's requests. Continues after failures and returns the first one.
    async fn dataset(
        &mut self,
        compactor: &Compactor,
        dataset: &Dataset,
        records: Vec<DeleteRecord>,
    ) -> Result<(), Error> {
        let mut failed = None;
        for record in records.iter().filter(|r| r.progress == DeleteProgress::Received) {
            let own = self.context.node.place.owns(Duty::Removal, dataset, record.request.range());
            if own && self.is_due(record) {
                let edit = Edit::StartDelete { dataset: dataset.clone(), id: record.request.id };
                let started = self.commit("the start of a delete request", vec![edit], Vec::new()).await;
                if started.is_ok() {
                    tracing::info!(%dataset, id = %record.request.id, "started to process a delete request");
                }
                note(&mut failed, started);
            }
        }
        note(&mut failed, self.clean_blocks(compactor, dataset).await);
        let snapshot = self.context.node.catalog.snapshot();
        let started: Vec<DeleteRecord> =
            snapshot.deletes(dataset).filter(|r| r.started_at().is_some()).cloned().collect();
        for record in started {
            note(&mut failed, self.finish(dataset, &record).await);
        }
        failed.map_or(Ok(()), Err)
    }

    fn is_due(&self, record: &DeleteRecord) -> bool {
        let period_ms = i64::try_from(self.context.rulebook.cancel_period().as_millis()).unwrap_or(i64::MAX);
        // Without a cancellation period there is no race to avoid.
        let grace_ms = if period_ms == 0 { 0 } else { START_GRACE_MS };
        let due_ms = record.request.created_ms.saturating_add(period_ms).saturating_add(grace_ms);
        self.context.node.env.now_ns() / 1_000_000 >= due_ms
    }

    /// Makes every block that this process owns clean of the dataset's started requests.
    async fn clean_blocks(&self, compactor: &Compactor, dataset: &Dataset) -> Result<(), Error> {
        let snapshot = self.context.node.catalog.snapshot();
        let mut unclean: BTreeMap<Id, Arc<BlockMeta>> = BTreeMap::new();
        for record in snapshot.deletes(dataset) {
            unclean.extend(snapshot.unclean_blocks(record).map(|block| (block.id, Arc::clone(block))));
        }
        let (mut untouched, mut failed) = (Vec::new(), None);
        let signal = self.context.node.shutdown.signal();
        for block in unclean.into_values() {
            if signal.is_triggered() {
                break;
            }
            let incarnation = self.context.incarnation();
            let now = self.context.node.catalog.snapshot();
            if now.block(block.id).is_none()
                || !self.context.node.place.owns(Duty::Removal, dataset, block.window)
            {
                continue;
            }
            // A block that cannot be cleaned must not prevent the cleaning of others.
            match compactor.clean(incarnation, &now, &block).await {
                Ok(Cleaned::Untouched { through }) => untouched.push((block.id, through)),
                Ok(Cleaned::Rewritten) => drop(self.context.node.metrics.delete_rewrites.inc()),
                Ok(Cleaned::Skipped { why }) => {
                    tracing::warn!(path = block.path(), why, "deleted lines stay in a block");
                }
                Err(error) => {
                    self.context.node.metrics.delete_failures.inc();
                    tracing::warn!(path = block.path(), %error, "deleted lines are still in a block");
                    note(&mut failed, Err(error));
                }
            }
        }
        note(&mut failed, self.mark_clean(untouched).await);
        failed.map_or(Ok(()), Err)
    }

    async fn mark_clean(&self, untouched: Vec<(Id, u64)>) -> Result<(), Error> {
        for some in untouched.chunks(CLEAN_MAX) {
            let Some(through) = some.iter().map(|(_, through)| *through).min() else { continue };
            let ids: Vec<Id> = some.iter().map(|(id, _)| *id).collect();
            let edit = Edit::BlocksClean { ids, through };
            self.commit("a note on clean blocks", vec![edit], Vec::new()).await?;
        }
        Ok(())
    }

    /// Finishes a started request when none of its rows are left in blocks or memory.
    async fn finish(&mut self, dataset: &Dataset, record: &DeleteRecord) -> Result<(), Error> {
        let (request, incarnation) = (&record.request, self.context.incarnation());
        let snapshot = self.context.node.catalog.snapshot();
        if !self.context.node.place.owns(Duty::Removal, dataset, request.range()) {
            return Ok(());
        }
        if !self.targets.contains_key(&request.id) {
            let targets = self.current_ends(&snapshot).await?;
            self.targets.insert(request.id, targets);
        }
        let targets = &self.targets[&request.id];
        if snapshot.unclean_blocks(record).next().is_some() || self.is_in_memory(dataset, record, targets) {
            return Ok(());
        }
        let at_ms = self.context.node.env.now_ns() / 1_000_000;
        let edit = Edit::FinishDelete { dataset: dataset.clone(), id: request.id, at_ms };
        let alive = vec![Precondition::Live { incarnation }];
        self.commit("the end of a delete request", vec![edit], alive).await?;
        self.context.node.metrics.deletes_processed.inc();
        self.targets.remove(&request.id);
        tracing::info!(%dataset, id = %request.id, "a delete request is processed");
        Ok(())
    }

    /// For every writer, a number above those of all rows that it has acknowledged so far.
    async fn current_ends(&self, snapshot: &Snapshot) -> Result<Targets, Error> {
        let mut ends = Targets::new();
        for writer in snapshot.writers().values().filter(|writer| !writer.is_drained()) {
            let incarnation = writer.incarnation;
            let mut end = self.context.node.views.next_of(incarnation);
            if writer.wal == WalKind::Bucket && incarnation != self.context.incarnation() {
                // The followed state may be old; the listing is current.
                let prefix = format!("wal/{incarnation}/");
                let listed = self.context.node.store.list(&prefix, Intent::wal()).await?;
                let sequences = listed.iter().filter_map(|object| wal::sequence_of(&object.path));
                end = end.max(sequences.max().map_or(0, |last| last + 1));
            }
            ends.insert(incarnation, end);
        }
        Ok(ends)
    }

    /// Whether rows from before the start may be in memory in some process. A writer whose rows are
    /// known here up to its target blocks nothing if none of these rows are in the request's time.
    fn is_in_memory(&self, dataset: &Dataset, record: &DeleteRecord, targets: &Targets) -> bool {
        // First the known ends, then the view: rows below the known ends are in the view.
        let followed = |id: &Id, target: u64| self.context.node.views.next_of(*id) >= target;
        let known: Vec<bool> = targets.iter().map(|(id, target)| followed(id, *target)).collect();
        let view = self.context.node.views.current();
        let range: TimeRange = record.request.range();
        targets.iter().zip(known).any(|((incarnation, target), known)| {
            if floor_of(&view.snapshot, *incarnation) >= *target {
                return false;
            }
            let meant = |head: &Arc<crate::head::Head>| {
                let bounds = head.bounds(dataset);
                bounds.is_some_and(|(first, last)| range.touches(first, last))
            };
            !known || view.heads.iter().filter(|head| head.incarnation() == *incarnation).any(meant)
        })
    }

    async fn commit(
        &self,
        what: &'static str,
        edits: Vec<Edit>,
        preconditions: Vec<Precondition>,
    ) -> Result<(), Error> {
        let committed =
            self.context.node.catalog.commit(self.context.incarnation(), edits, preconditions).await;
        self.context.author.publish(committed.map_err(|error| refused(what, &error))?);
        Ok(())
    }
}

/// Keeps a failure if it is the first one.
fn note(first: &mut Option<Error>, outcome: Result<(), Error>) {
    if let Err(error) = outcome {
        first.get_or_insert(error);
    }
}

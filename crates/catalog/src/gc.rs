//! Garbage collection of data: deletes only what was announced in the log.
//!
//! * **Blocks.** `RemoveBlock` announces. After a grace period the log is read again; if the block is
//!   still removed, its object is deleted and `Deleted` is committed. After a crash in between the object
//!   is deleted once more, which is harmless: names are never used twice.
//! * **WAL.** The rows of objects below a writer's floor are in blocks. Objects above a sealed writer's
//!   fence are void. Both are deleted one run after the floor was seen, so that a query with a recent
//!   snapshot still finds them; a query with an older snapshot refreshes and looks again. The fence
//!   itself is never deleted: it stops a writer that was suspended.
//! * **Writers** that are sealed and whose rows are all in blocks are forgotten, with their heartbeat.
//!
//! The grace period protects queries that began before the removal. It starts when this process sees the
//! removal, and is measured by its own monotonic clock; clocks of machines are never compared. Only this
//! process reads a local directory, so blocks removed before it started are due at once.

use std::collections::BTreeMap;
use std::time::Duration;

use futures_util::StreamExt;
use sandur_base::Id;
use sandur_format::catalog_entry::{Edit, LogPosition, Precondition, WalKind, Writer};
use sandur_store::Intent;

use crate::catalog::Catalog;
use crate::error::{CommitError, Error};
use crate::names;
use crate::snapshot::Snapshot;

/// Most concurrent deletions.
const DELETES_IN_FLIGHT: usize = 8;

/// Options of garbage collection.
#[derive(Clone, Debug)]
pub struct GcOptions {
    /// How long a removed block stays readable, and how long an unreferenced one is observed before it is
    /// deleted. At least as long as the longest query. Default: 1 h.
    pub grace: Duration,
    /// Most objects of each kind that one run deletes. Default: 1,000.
    pub deletes_max: usize,
    /// Whether to only count and report. Default: no.
    pub dry_run: bool,
}

impl Default for GcOptions {
    fn default() -> Self {
        Self { grace: Duration::from_secs(3600), deletes_max: 1000, dry_run: false }
    }
}

/// An unreferenced block that was seen before.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sighted {
    /// When it was first seen, in monotonic time.
    pub since: Duration,
    /// The position in the log that its maker had read.
    pub seen: Option<LogPosition>,
}

/// The result of one run of [`Collector::collect`]; in a dry run, what it would do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GcReport {
    /// Block objects that were deleted.
    pub blocks: usize,
    /// Bytes of these blocks.
    pub block_bytes: u64,
    /// Removed blocks that are not due yet, or exceed the run's limit.
    pub blocks_waiting: usize,
    /// WAL objects that were deleted.
    pub wal_objects: usize,
    /// Sealed writers that were forgotten.
    pub writers: usize,
    /// Deletions that failed; the next run retries them.
    pub failed: usize,
}

/// Deletes data that the catalog no longer needs. Create one per process, at its start.
pub struct Collector {
    pub(crate) catalog: Catalog,
    pub(crate) options: GcOptions,
    /// When the object of a removed block may be deleted, in monotonic time.
    due: BTreeMap<Id, Duration>,
    /// Writers as of the previous run.
    before: BTreeMap<Id, Writer>,
    /// Unreferenced blocks that the previous run saw.
    pub(crate) sighted: BTreeMap<Id, Sighted>,
    /// Floor and fence of each writer up to which its WAL is cleaned.
    clean: BTreeMap<Id, (u64, Option<u64>)>,
}

impl Collector {
    /// Returns a collector that has seen no removals yet.
    pub fn new(catalog: Catalog, options: GcOptions) -> Self {
        let mut due = BTreeMap::new();
        if catalog.is_local() {
            let now = catalog.env().monotonic();
            due.extend(catalog.snapshot().removed().map(|removed| (removed.meta.id, now)));
        }
        Self {
            catalog,
            options,
            due,
            before: BTreeMap::new(),
            sighted: BTreeMap::new(),
            clean: BTreeMap::new(),
        }
    }

    /// Deletes all objects that are due, on behalf of the incarnation `author`.
    pub async fn collect(&mut self, author: Id) -> Result<GcReport, Error> {
        let mut report = GcReport::default();
        self.collect_blocks(author, &mut report).await?;
        self.collect_wal(author, &mut report).await?;
        if report != GcReport::default() {
            tracing::info!(?report, dry_run = self.options.dry_run, "collected garbage");
        }
        Ok(report)
    }

    async fn collect_blocks(&mut self, author: Id, report: &mut GcReport) -> Result<(), Error> {
        let snapshot = self.catalog.refresh().await?;
        let now = self.catalog.env().monotonic();
        self.due.retain(|id, _| snapshot.removed_block(*id).is_some());
        for removed in snapshot.removed() {
            self.due.entry(removed.meta.id).or_insert(now + self.options.grace);
        }
        let mut paths = Vec::new();
        for removed in snapshot.removed() {
            let id = removed.meta.id;
            if self.due.get(&id).is_some_and(|at| *at <= now) && paths.len() < self.options.deletes_max {
                report.block_bytes += removed.meta.size;
                paths.push((id, removed.meta.path()));
            } else {
                report.blocks_waiting += 1;
            }
        }
        let ids = self.delete(paths, report).await;
        report.blocks = ids.len();
        if ids.is_empty() || self.options.dry_run {
            return Ok(());
        }
        self.catalog.commit(author, vec![Edit::Deleted { ids }], Vec::new()).await?;
        Ok(())
    }

    async fn collect_wal(&mut self, author: Id, report: &mut GcReport) -> Result<(), Error> {
        let snapshot = self.catalog.snapshot();
        self.clean.retain(|id, _| snapshot.writer(*id).is_some());
        let before = std::mem::replace(&mut self.before, snapshot.writers().clone());
        for writer in before.values().filter(|w| snapshot.writer(w.incarnation).is_some()) {
            if report.wal_objects >= self.options.deletes_max {
                break;
            }
            self.collect_wal_of(author, writer, report).await?;
        }
        Ok(())
    }

    async fn collect_wal_of(
        &mut self,
        author: Id,
        writer: &Writer,
        report: &mut GcReport,
    ) -> Result<(), Error> {
        let incarnation = writer.incarnation;
        let drained = writer.is_drained();
        // A local writer appends frames to few files, and deletes those that it has finished with.
        let nothing_to_do = match writer.wal {
            WalKind::Local => !drained,
            WalKind::Bucket => self.clean.get(&incarnation) == Some(&(writer.floor, writer.fence)),
        };
        if nothing_to_do && !drained {
            return Ok(());
        }
        let listed = self.catalog.store().list(&names::wal_of(incarnation), Intent::gc()).await?;
        let is_garbage = |path: &str| match (writer.wal, names::wal_sequence(path)) {
            (WalKind::Local, _) => drained,
            (WalKind::Bucket, Some(sequence)) => {
                sequence < writer.floor || writer.fence.is_some_and(|fence| sequence > fence)
            }
            (WalKind::Bucket, None) => false,
        };
        let garbage: Vec<(Id, String)> =
            listed.into_iter().filter(|o| is_garbage(&o.path)).map(|o| (incarnation, o.path)).collect();
        let room = self.options.deletes_max - report.wal_objects;
        let (wanted, failed) = (garbage.len(), report.failed);
        let deleted = self.delete(garbage.into_iter().take(room).collect(), report).await.len();
        report.wal_objects += deleted;
        if deleted < wanted || report.failed > failed {
            return Ok(());
        }
        self.clean.insert(incarnation, (writer.floor, writer.fence));
        if drained {
            self.forget(author, incarnation, report).await?;
        }
        Ok(())
    }

    async fn forget(&mut self, author: Id, incarnation: Id, report: &mut GcReport) -> Result<(), Error> {
        report.writers += 1;
        if self.options.dry_run {
            return Ok(());
        }
        self.catalog.store().delete(&names::member(incarnation), Intent::member()).await?;
        let guard = vec![Precondition::Sealed { incarnation }];
        match self.catalog.commit(author, vec![Edit::Forget { incarnation }], guard).await {
            Ok(_) => tracing::info!(%incarnation, "forgot a sealed writer"),
            // Another process was faster.
            Err(CommitError::Rejected { .. }) => report.writers -= 1,
            Err(error) => return Err(error.into()),
        }
        Ok(())
    }

    /// Deletes objects and returns the ids of the deleted ones. A failure does not stop the others.
    pub(crate) async fn delete(&self, objects: Vec<(Id, String)>, report: &mut GcReport) -> Vec<Id> {
        if self.options.dry_run {
            for (_, path) in &objects {
                tracing::info!(path, "would be deleted");
            }
            return objects.into_iter().map(|(id, _)| id).collect();
        }
        let (store, metrics) = (self.catalog.store(), self.catalog.metrics());
        let deletions = objects.into_iter().map(|(id, path)| async move {
            let result = store.delete(&path, Intent::gc()).await;
            (id, path, result)
        });
        let mut running = futures_util::stream::iter(deletions).buffer_unordered(DELETES_IN_FLIGHT);
        let mut gone = Vec::new();
        while let Some((id, path, result)) = running.next().await {
            match result {
                Ok(()) => {
                    metrics.deleted.inc();
                    tracing::info!(path, "deleted");
                    gone.push(id);
                }
                Err(error) => {
                    report.failed += 1;
                    tracing::warn!(path, %error, "could not be deleted; the next run retries");
                }
            }
        }
        gone
    }
}

/// Whether no process can add this block any more, in this state or a later one.
pub(crate) fn is_void(snapshot: &Snapshot, writer: Id, block: Id) -> bool {
    match snapshot.writer(writer) {
        // Incarnations register before they make blocks, and never register twice.
        None => true,
        Some(writer) => writer.orphan_floor.is_some_and(|floor| block <= floor),
    }
}

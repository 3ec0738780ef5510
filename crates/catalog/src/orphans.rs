//! Orphans: block objects that no commit ever mentioned, left by a crash between put and commit.
//!
//! An orphan may still be committed by a process that slept. So its id is voided first: an
//! `OrphanFloor` entry makes every later `AddBlock` at or below it void, with its whole
//! transaction. Only then, and if the block is still not referenced, the object is deleted.
//!
//! Only sealed writers, forgotten ones and the own process are looked at; other live processes
//! look after themselves. Blocks of the own process that are not committed yet are none of this
//! one's business: the engine says from which id on they may be.

use std::collections::BTreeMap;

use sandur_base::Id;
use sandur_format::catalog_entry::{BlockName, Edit};
use sandur_store::Intent;

use crate::error::Error;
use crate::gc::{Collector, GcReport, is_void};
use crate::names;
use crate::snapshot::Snapshot;

/// The blocks of the own process that must not be touched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OwnBlocks {
    /// The own incarnation.
    pub incarnation: Id,
    /// Every block of it that is or will be written without being committed has at least this id.
    pub uncommitted_from: Id,
}

/// What one run of [`Collector::collect_orphans`] did, or would do in a dry run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OrphanReport {
    /// Block objects that were looked at.
    pub listed: usize,
    /// Orphans that were deleted.
    pub deleted: usize,
    /// Their bytes.
    pub deleted_bytes: u64,
    /// Unreferenced blocks that may still be committed, or were beyond the run's limit.
    pub left: usize,
    /// Deletions that failed; they are tried again by the next run.
    pub failed: usize,
}

struct Orphan {
    name: BlockName,
    path: String,
    size: u64,
}

impl Collector {
    /// Deletes orphans, on behalf of the incarnation `author`. Lists every block: run it rarely.
    pub async fn collect_orphans(
        &mut self,
        author: Id,
        own: Option<OwnBlocks>,
    ) -> Result<OrphanReport, Error> {
        let mut report = OrphanReport::default();
        let unreferenced = self.find_unreferenced(own, &mut report).await?;
        let mut floors: BTreeMap<Id, Id> = BTreeMap::new();
        let snapshot = self.catalog.snapshot();
        for orphan in &unreferenced {
            let BlockName { id, writer } = orphan.name;
            if !is_void(&snapshot, writer, id) {
                let floor = floors.entry(writer).or_insert(id);
                *floor = id.max(*floor);
            }
        }
        let mut decided = snapshot;
        if !floors.is_empty() && !self.options.dry_run {
            let edits = floors.into_iter().map(|(incarnation, id)| Edit::OrphanFloor { incarnation, id });
            decided = self.catalog.commit(author, edits.collect(), Vec::new()).await?;
        }
        let mut paths = Vec::new();
        for Orphan { name, path, size } in unreferenced {
            let void = self.options.dry_run || is_void(&decided, name.writer, name.id);
            if !void || decided.is_referenced(name.id) || paths.len() >= self.options.deletes_max {
                report.left += 1;
                continue;
            }
            report.deleted_bytes += size;
            paths.push((name.id, path));
        }
        let mut deletions = GcReport::default();
        report.deleted = self.delete(paths, &mut deletions).await.len();
        report.failed = deletions.failed;
        if report.deleted > 0 {
            tracing::info!(?report, dry_run = self.options.dry_run, "collected orphaned blocks");
        }
        Ok(report)
    }

    /// Block objects that the newest state does not mention and that nobody live may be about to
    /// commit.
    async fn find_unreferenced(
        &self,
        own: Option<OwnBlocks>,
        report: &mut OrphanReport,
    ) -> Result<Vec<Orphan>, Error> {
        let store = self.catalog.store();
        let mut found = Vec::new();
        for tenant in store.list_prefixes(names::BLOCKS, Intent::gc()).await? {
            let objects = store.list(&format!("{}/{tenant}", names::BLOCKS), Intent::gc()).await?;
            report.listed += objects.len();
            // Read after the listing: what was listed and committed meanwhile is known.
            let snapshot = self.catalog.refresh().await?;
            for object in objects {
                let Some(name) = BlockName::parse(&object.path) else { continue };
                if snapshot.is_referenced(name.id) {
                    continue;
                }
                if may_be_pending(&snapshot, name, own) {
                    report.left += 1;
                    continue;
                }
                found.push(Orphan { name, path: object.path, size: object.size });
            }
        }
        Ok(found)
    }
}

/// Whether a live process may be about to commit the block.
fn may_be_pending(snapshot: &Snapshot, name: BlockName, own: Option<OwnBlocks>) -> bool {
    match (snapshot.writer(name.writer), own) {
        (None, _) => false,
        (Some(writer), _) if writer.is_sealed() => false,
        (Some(writer), Some(own)) if writer.incarnation == own.incarnation => name.id >= own.uncommitted_from,
        (Some(_), _) => true,
    }
}

//! Orphans: block objects that no commit ever named, left by a crash between put and commit.
//!
//! A process that was suspended may still commit an orphan. So its id is voided first: an `OrphanFloor`
//! entry makes every later `AddBlock` at or below it void, with its complete transaction. Only then, and
//! if the block is still not referenced, the object is deleted.
//!
//! **Proof.** If the log has lost its end, a block that it does not name may still be needed. So an
//! object is deleted only if its footer says which position in the log its maker had read, this log
//! contains that position, and the object was unreferenced for the complete grace period. Other objects
//! are kept and reported. If a footer or witness has seen another log, all unreferenced objects are kept;
//! if one has seen more than this log contains, this process stops committing.
//!
//! Only blocks of sealed writers, forgotten writers and the own process are candidates; other live
//! processes collect their own. The engine passes the id from which on blocks of the own process may be
//! uncommitted, and these are skipped.

use std::collections::{BTreeMap, BTreeSet};

use sandur_base::Id;
use sandur_format::catalog_entry::{BlockName, Edit, LogPosition};
use sandur_store::Intent;

use crate::error::Error;
use crate::footers::read_footer;
use crate::gc::{Collector, GcReport, Sighted, is_void};
use crate::names;
use crate::position::PositionCheck;
use crate::snapshot::Snapshot;

/// The blocks of the own process that must not be deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OwnBlocks {
    /// The own incarnation.
    pub incarnation: Id,
    /// Every block that the process writes without having committed it has at least this id.
    pub uncommitted_from: Id,
}

/// The result of one run of [`Collector::collect_orphans`]; in a dry run, what it would do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OrphanReport {
    /// Block objects that were examined.
    pub listed: usize,
    /// Orphans that were deleted.
    pub deleted: usize,
    /// Bytes of the deleted orphans.
    pub deleted_bytes: u64,
    /// Unreferenced blocks that may still be committed, or exceed the run's limit.
    pub left: usize,
    /// Unreferenced blocks for which the log does not prove that they are orphans; they are kept.
    pub unproven: usize,
    /// Deletions that failed; the next run retries them.
    pub failed: usize,
}

struct Orphan {
    name: BlockName,
    path: String,
    size: u64,
    /// Whether a live process may be about to commit it.
    may_be_pending: bool,
}

impl Collector {
    /// Deletes orphans, on behalf of the incarnation `author`. Lists all blocks: run it rarely.
    pub async fn collect_orphans(
        &mut self,
        author: Id,
        own: Option<OwnBlocks>,
    ) -> Result<OrphanReport, Error> {
        let mut report = OrphanReport::default();
        let found = self.find_unreferenced(own, &mut report).await?;
        let unreferenced = self.proven(found, &mut report).await?;
        if !unreferenced.is_empty() {
            let witnesses = self.catalog.read_witnesses().await?;
            self.catalog.check_witnesses(&witnesses).await?;
        }
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
        for Orphan { name, path, size, .. } in unreferenced {
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
        if report.unproven > 0 {
            tracing::warn!(
                blocks = report.unproven,
                "blocks that the catalog does not name are kept, because it is not proven that they are \
                 unneeded; `sandur check` lists them"
            );
        }
        if report.deleted > 0 {
            tracing::info!(?report, dry_run = self.options.dry_run, "collected orphaned blocks");
        }
        Ok(report)
    }

    /// Returns the orphans that were unreferenced for the complete grace period and are proven to be
    /// unneeded. If any of them was made with another log, returns none: this log may then have lost
    /// entries that name the others.
    async fn proven(&mut self, found: Vec<Orphan>, report: &mut OrphanReport) -> Result<Vec<Orphan>, Error> {
        let now = self.catalog.env().monotonic();
        let ids: BTreeSet<Id> = found.iter().map(|orphan| orphan.name.id).collect();
        self.sighted.retain(|id, _| ids.contains(id));
        let mut room = self.options.deletes_max;
        for orphan in &found {
            if room > 0 && !self.sighted.contains_key(&orphan.name.id) {
                room -= 1;
                let seen = self.origin_of(orphan).await?;
                self.sighted.insert(orphan.name.id, Sighted { since: now, seen });
            }
        }
        // These blocks are older than this state, so their makers cannot have seen more than it contains.
        let snapshot = self.catalog.refresh().await?;
        let mut is_contradicted = false;
        for Orphan { name, path, .. } in &found {
            let seen = self.sighted.get(&name.id).and_then(|sighted| sighted.seen);
            let Some(seen) = seen else { continue };
            let number = seen.number;
            match snapshot.compare(seen) {
                PositionCheck::Contained | PositionCheck::Unknown => {}
                PositionCheck::Differs => {
                    is_contradicted = true;
                    tracing::error!(path, number, "a block was made when this entry had other contents");
                }
                PositionCheck::Beyond => {
                    let evidence = format!("'{path}' was made after entry {number}, which does not exist");
                    return Err(self.catalog.lose(Error::Lost { evidence }));
                }
            }
        }
        let is_due = |orphan: &Orphan| {
            let sighted = self.sighted.get(&orphan.name.id);
            sighted.filter(|sighted| now.saturating_sub(sighted.since) >= self.options.grace)
        };
        let mut proven = Vec::new();
        for orphan in found {
            let Some(sighted) = is_due(&orphan).filter(|_| !orphan.may_be_pending) else {
                report.left += 1;
                continue;
            };
            let confirmed =
                sighted.seen.is_some_and(|seen| snapshot.compare(seen) == PositionCheck::Contained);
            match confirmed && !is_contradicted {
                true => proven.push(orphan),
                false => report.unproven += 1,
            }
        }
        Ok(proven)
    }

    /// Returns the position in the log that a block's maker had read; `None` when the block does not
    /// record it.
    async fn origin_of(&self, orphan: &Orphan) -> Result<Option<LogPosition>, Error> {
        let path = &orphan.path;
        match read_footer(self.catalog.store(), path, orphan.size).await? {
            Ok(footer) => Ok(footer.index().origin().map(|origin| origin.seen)),
            Err(problem) => {
                tracing::warn!(path, problem, "an unreferenced block cannot be read and is kept");
                Ok(None)
            }
        }
    }

    /// Returns the block objects that the newest state does not name.
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
            // Refreshed after the listing, so that blocks that were committed after they were listed are
            // referenced.
            let snapshot = self.catalog.refresh().await?;
            for object in objects {
                let Some(name) = BlockName::parse(&object.path) else { continue };
                if snapshot.is_referenced(name.id) {
                    continue;
                }
                let may_be_pending = may_be_pending(&snapshot, name, own);
                found.push(Orphan { name, path: object.path, size: object.size, may_be_pending });
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

//! Verifies a store's catalog and every reference in it, without changing anything.
//!
//! The check reads every entry and checkpoint and follows the log past all damage (`survey.rs`). Then it
//! compares the state with the listing of the store: blocks with their sizes, and every frame of the WAL
//! of writers whose rows are not all in blocks (`check_wal.rs`). [`check_block`](crate::check_block)
//! verifies the contents of blocks.
//!
//! The report distinguishes damaged objects, sound ones, and those about which the store holds no
//! evidence.

use std::collections::BTreeMap;
use std::sync::Arc;

use sandur_format::catalog_entry::BlockName;
use sandur_runtime::Env;
use sandur_store::{Intent, ObjectInfo, Store};

use crate::check_report::{CheckReport, Severity};
use crate::check_wal::check_wal;
use crate::error::Error;
use crate::footers::read_footer;
use crate::names;
use crate::options::CatalogOptions;
use crate::position::PositionCheck;
use crate::shared::Shared;
use crate::snapshot::Snapshot;
use crate::survey::Survey;

/// Verifies the catalog of a store and its WAL. An error means that the store could not be read; all
/// problems are findings. Processes that write at the same time can cause findings that a second run does
/// not have.
pub async fn check(store: &Store, env: &Env) -> Result<CheckReport, Error> {
    // Listed before the log is read, so that the log contains all that the makers of these blocks had
    // seen.
    let listed = list_blocks(store).await?;
    let shared = Shared::new(store.clone(), env.clone(), CatalogOptions::default());
    let survey = shared.survey().await?;
    let Survey { findings, entries, checkpoints, sound, .. } = survey;
    let catalog_is_damaged = findings.iter().any(|f| f.severity == Severity::Damage);
    let snapshot = Arc::new(sound);
    let mut report = CheckReport {
        entries,
        checkpoints,
        findings,
        catalog_is_damaged,
        snapshot: Arc::clone(&snapshot),
        ..CheckReport::default()
    };
    check_blocks(store, listed, &snapshot, &mut report).await?;
    check_wal(store, &snapshot, &mut report).await?;
    Ok(report)
}

/// Lists every object below `blocks/`.
pub(crate) async fn list_blocks(store: &Store) -> Result<Vec<ObjectInfo>, Error> {
    let mut listed = Vec::new();
    for tenant in store.list_prefixes(names::BLOCKS, Intent::gc()).await? {
        listed.extend(store.list(&format!("{}/{tenant}", names::BLOCKS), Intent::gc()).await?);
    }
    Ok(listed)
}

async fn check_blocks(
    store: &Store,
    listed: Vec<ObjectInfo>,
    snapshot: &Snapshot,
    report: &mut CheckReport,
) -> Result<(), Error> {
    let mut sizes = BTreeMap::new();
    for object in listed {
        match BlockName::parse(&object.path) {
            Some(name) if !snapshot.is_referenced(name.id) => {
                report.unreferenced += 1;
                check_unreferenced(store, snapshot, &object, report).await?;
            }
            Some(_) => {}
            None => {
                let unknown = "is not a block's name, so its contents are unknown";
                report.add(Severity::Unknown, object.path.clone(), unknown);
            }
        }
        sizes.insert(object.path, object.size);
    }
    for block in snapshot.all_blocks() {
        let path = block.path();
        let size = match sizes.get(&path) {
            Some(size) => Some(*size),
            // The block may be newer than the listing.
            None => store.head(&path, Intent::gc()).await?.map(|object| object.size),
        };
        match size {
            Some(size) if size == block.size => {
                report.blocks += 1;
                report.block_bytes += block.size;
            }
            Some(size) => report.damage(path, format!("has {size} bytes, the catalog says {}", block.size)),
            None => {
                report.damage(path, format!("is missing: {} rows ({}) are lost", block.rows, block.dataset))
            }
        }
    }
    Ok(())
}

/// Checks whether a block that the catalog does not name belongs to entries that are lost.
async fn check_unreferenced(
    store: &Store,
    snapshot: &Snapshot,
    object: &ObjectInfo,
    report: &mut CheckReport,
) -> Result<(), Error> {
    let path = object.path.as_str();
    let unknown = "is not in the catalog: cannot tell whether it is left over from an unfinished write, \
                   or the catalog has lost it";
    match read_footer(store, path, object.size).await? {
        Err(problem) => report.add(Severity::Unknown, path, format!("{unknown} ({problem})")),
        Ok(footer) => {
            match footer.index().origin().map(|origin| (origin.seen, snapshot.compare(origin.seen))) {
                Some((_, PositionCheck::Contained)) => {}
                Some((seen, PositionCheck::Beyond)) => {
                    report.catalog_is_damaged = true;
                    let number = seen.number;
                    report.damage(path, format!("was written after entry {number}, which the catalog lacks"));
                }
                Some((seen, PositionCheck::Differs)) => {
                    report.catalog_is_damaged = true;
                    let number = seen.number;
                    report.damage(path, format!("was written when entry {number} had other contents"));
                }
                Some((_, PositionCheck::Unknown)) | None => report.add(Severity::Unknown, path, unknown),
            }
        }
    }
    Ok(())
}

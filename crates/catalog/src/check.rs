//! Verifying a store's catalog and every reference in it, without changing anything.
//!
//! Reads every entry and checkpoint, replays the log from every checkpoint and compares the
//! results, then compares the state with what is listed: blocks with their sizes, and the WAL of
//! writers whose rows are not all in blocks. What objects contain is checked by the engine.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use sandur_base::Env;
use sandur_format::catalog_entry::{BlockName, WalKind};
use sandur_store::{Intent, Store};

use crate::error::Error;
use crate::names::{self, CatalogObject};
use crate::options::CatalogOptions;
use crate::shared::Shared;
use crate::snapshot::Snapshot;

/// How bad a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// Nothing is lost; somebody should know.
    Note,
    /// Data or its description is missing or damaged.
    Damage,
}

/// Something that is not as it should be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// How bad it is.
    pub severity: Severity,
    /// The object's name in the store.
    pub object: String,
    /// What is wrong with it.
    pub problem: String,
}

/// What [`check`] saw.
#[derive(Clone, Debug, Default)]
pub struct CheckReport {
    /// Entries that were read.
    pub entries: u64,
    /// Checkpoints that were read.
    pub checkpoints: u64,
    /// Blocks that the catalog mentions and that are there with the right size.
    pub blocks: u64,
    /// Their bytes.
    pub block_bytes: u64,
    /// Block objects that the catalog does not mention: left by a crash, or being written now.
    pub unreferenced: u64,
    /// What is wrong.
    pub findings: Vec<Finding>,
    /// The state, if it could be loaded.
    pub snapshot: Option<Arc<Snapshot>>,
}

impl CheckReport {
    /// Whether nothing is damaged.
    pub fn is_sound(&self) -> bool {
        self.findings.iter().all(|f| f.severity < Severity::Damage)
    }

    fn add(&mut self, severity: Severity, object: impl Into<String>, problem: impl Into<String>) {
        self.findings.push(Finding { severity, object: object.into(), problem: problem.into() });
    }

    fn damage(&mut self, object: impl Into<String>, problem: impl Into<String>) {
        self.add(Severity::Damage, object, problem);
    }
}

/// Verifies the catalog of a store. An error means that the store could not be read; everything
/// else is a finding. Processes that write meanwhile can cause findings that a second run has not.
pub async fn check(store: &Store, env: &Env) -> Result<CheckReport, Error> {
    let shared = Shared::new(store.clone(), env.clone(), CatalogOptions::default());
    let mut report = CheckReport::default();
    check_catalog(&shared, &mut report).await?;
    let snapshot = match shared.load().await {
        Ok(snapshot) => snapshot,
        Err(Error::Store(error)) => return Err(Error::Store(error)),
        Err(error) => {
            report.damage(names::CATALOG, error.to_string());
            return Ok(report);
        }
    };
    report.snapshot = Some(Arc::clone(&snapshot));
    check_blocks(store, &snapshot, &mut report).await?;
    check_wal(store, &snapshot, &mut report).await?;
    Ok(report)
}

/// Objects below `catalog/`, and that every checkpoint and the log after it lead to one state.
async fn check_catalog(shared: &Shared, report: &mut CheckReport) -> Result<(), Error> {
    let boundary = match shared.read_boundary().await {
        Ok(boundary) => boundary,
        Err(Error::Store(error)) => return Err(Error::Store(error)),
        Err(error) => {
            report.damage(names::BOUNDARY, error.to_string());
            0
        }
    };
    let (mut numbers, mut roots) = (BTreeSet::new(), BTreeSet::new());
    for object in shared.store.list(names::CATALOG, Intent::catalog()).await? {
        match CatalogObject::parse(&object.path) {
            Some(CatalogObject::Entry { number }) if number > boundary => {
                numbers.insert(number);
            }
            Some(CatalogObject::Root { number }) if number >= boundary => {
                roots.insert(number);
            }
            Some(_) => {}
            None => report.add(Severity::Note, object.path, "is not an object of the catalog"),
        }
    }
    let mut states: BTreeMap<u64, Snapshot> = BTreeMap::new();
    for number in &roots {
        match shared.try_read_checkpoint(*number).await {
            Ok(snapshot) => {
                report.checkpoints += 1;
                states.insert(*number, snapshot);
            }
            Err(Error::Store(error)) if !error.is_not_found() => return Err(Error::Store(error)),
            Err(error) => report.damage(names::root(*number), error.to_string()),
        }
    }
    replay(shared, boundary, &numbers, states, report).await
}

/// Applies all entries after the boundary and compares with each checkpoint on the way.
async fn replay(
    shared: &Shared,
    boundary: u64,
    numbers: &BTreeSet<u64>,
    states: BTreeMap<u64, Snapshot>,
    report: &mut CheckReport,
) -> Result<(), Error> {
    let mut state = match states.get(&boundary) {
        Some(state) => Some(state.clone()),
        None if boundary == 0 => Some(Snapshot::default()),
        None => {
            report.damage(names::root(boundary), "the checkpoint at the boundary is missing or damaged");
            None
        }
    };
    let last = numbers.last().copied().unwrap_or(boundary);
    for number in boundary + 1..=last {
        let entry = match shared.read_entry(number).await {
            Ok(Some(entry)) => entry,
            Ok(None) => {
                report.damage(names::entry(number), "is missing, although later entries exist");
                state = states.get(&number).cloned();
                continue;
            }
            Err(Error::Store(error)) => return Err(Error::Store(error)),
            Err(error) => {
                report.damage(names::entry(number), error.to_string());
                state = states.get(&number).cloned();
                continue;
            }
        };
        report.entries += 1;
        let Some(state) = &mut state else {
            state = states.get(&number).cloned();
            continue;
        };
        state.apply(&entry);
        if states.get(&number).is_some_and(|checkpoint| checkpoint != state) {
            report.damage(names::root(number), "the checkpoint differs from the log that leads to it");
        }
    }
    Ok(())
}

async fn check_blocks(store: &Store, snapshot: &Snapshot, report: &mut CheckReport) -> Result<(), Error> {
    let mut sizes = BTreeMap::new();
    for tenant in store.list_prefixes(names::BLOCKS, Intent::gc()).await? {
        for object in store.list(&format!("{}/{tenant}", names::BLOCKS), Intent::gc()).await? {
            let name = BlockName::parse(&object.path);
            match name {
                Some(name) if !snapshot.is_referenced(name.id) => report.unreferenced += 1,
                Some(_) => {}
                None => report.add(Severity::Note, object.path.clone(), "is not a block's name"),
            }
            sizes.insert(object.path, object.size);
        }
    }
    for block in snapshot.all_blocks() {
        let path = block.path();
        match sizes.get(&path) {
            Some(size) if *size == block.size => {
                report.blocks += 1;
                report.block_bytes += block.size;
            }
            Some(size) => report.damage(path, format!("has {size} bytes, the catalog says {}", block.size)),
            None => {
                report.damage(path, format!("is missing: {} rows of '{}' are lost", block.rows, block.tenant))
            }
        }
    }
    Ok(())
}

/// Segments of sealed writers that are not in blocks must all be there.
async fn check_wal(store: &Store, snapshot: &Snapshot, report: &mut CheckReport) -> Result<(), Error> {
    for writer in snapshot.writers().values().filter(|w| w.wal == WalKind::Bucket && !w.is_drained()) {
        let listed = store.list(&names::wal_of(writer.incarnation), Intent::wal()).await?;
        let present: BTreeSet<u64> = listed.iter().filter_map(|o| names::wal_sequence(&o.path)).collect();
        // A live writer's segments end at the first absent one; later ones were not acknowledged.
        let Some(fence) = writer.fence else { continue };
        for sequence in writer.floor..fence {
            if !present.contains(&sequence) {
                let path = names::wal_object(writer.incarnation, sequence);
                report.damage(path, "is missing: its rows are lost");
            }
            if report.findings.len() > FINDINGS_MAX {
                report.damage(names::WAL, "there are more findings than can be listed");
                return Ok(());
            }
        }
    }
    Ok(())
}

/// Findings after which a damaged number is not worth counting on.
const FINDINGS_MAX: usize = 10_000;

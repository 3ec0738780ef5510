//! Repair: rebuilds a catalog that was damaged, truncated or lost, from its sound part and from blocks
//! and WAL.
//!
//! **Plan.** The sound state (`survey.rs`) is kept. If it is incomplete, readable entries after the
//! damage are applied to it. Then every block that it does not name is added from its footer, for any
//! signal: tenant, window, level, rows, and the blocks that it was merged from, which are removed from
//! the state. A block that was split is removed when all of its parts exist. A writer that the catalog
//! lost is registered again if it has WAL, so that the next start reads the WAL. Rows that are restored
//! twice are equal rows, which queries answer once.
//!
//! **Execution.** The new state becomes a checkpoint with a number above every number that any object in
//! the store names. Creating its root is the decisive step: before it nothing has changed, after it every
//! start reads the new state or fails. Then the boundary is set to it, and all older objects of the
//! catalog are copied to `replaced/<number>/` before they are deleted. A repair that is interrupted can
//! be run again. Blocks and WAL are never modified.
//!
//! **Losses.** Open delete requests whose entries are lost must be made again. Blocks that retention
//! removed in lost entries come back, and the next run of retention removes them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use bytes::Bytes;
use sandur_base::Id;
use sandur_format::catalog_entry::{
    BlockMeta, BlockName, Boundary, EDITS_UNSTATED, LogChain, WalKind, Writer, entry_checksum,
};
use sandur_format::wal_segment::{FrameKind, FrameReader};
use sandur_model::{RuleShards, TimeRange};
use sandur_runtime::Env;
use sandur_store::{Intent, ObjectInfo, Store};

use crate::chain::Chain;
use crate::check::list_blocks;
use crate::check_block::check_block;
use crate::check_report::{Finding, Severity};
use crate::error::Error;
use crate::footers::read_footer;
use crate::names::{self, CatalogObject};
use crate::options::{CatalogOptions, NEWEST_FORMS};
use crate::shared::Shared;
use crate::snapshot::Snapshot;
use crate::survey::Survey;

/// The plan of a repair.
#[derive(Debug)]
pub struct Repair {
    /// The findings about the catalog; without damage among them there is nothing to do.
    pub findings: Vec<Finding>,
    /// The last entry up to which the log is sound.
    pub sound_through: u64,
    /// Whether entries are lost, so that blocks and WAL had to be read.
    pub entries_are_lost: bool,
    /// Readable entries after the damage that were applied.
    pub applied: Vec<u64>,
    /// Blocks that are added to the catalog.
    pub added: Vec<BlockMeta>,
    /// Blocks that are not added or are removed, because other blocks hold their rows.
    pub superseded: Vec<Id>,
    /// Blocks in the catalog whose objects do not exist: they are removed from it.
    pub gone: Vec<BlockMeta>,
    /// Blocks that the catalog does not name and whose footers cannot be read, with the reason.
    pub unreadable: Vec<(String, String)>,
    /// Writers that are registered again, or whose floor is moved to the first existing segment.
    pub writers: Vec<Writer>,
    /// Objects that are moved to `replaced/`.
    pub moved: Vec<String>,
    /// The number of the new checkpoint.
    pub number: u64,
    state: Snapshot,
}

impl Repair {
    /// Whether there is anything to repair.
    pub fn is_needed(&self) -> bool {
        self.findings.iter().any(|finding| finding.severity == Severity::Damage)
    }

    /// Returns the state that the catalog has after the repair.
    pub fn snapshot(&self) -> &Snapshot {
        &self.state
    }

    /// Returns the prefix under which the replaced objects are kept.
    pub fn replaced(&self) -> String {
        format!("replaced/{:020}", self.number)
    }

    /// Examines a store and returns the plan. Changes nothing. No other process may use the store, or the
    /// plan does not include what that process writes.
    pub async fn plan(store: &Store, env: &Env) -> Result<Self, Error> {
        let shared = Shared::new(store.clone(), env.clone(), CatalogOptions::default());
        let listed = list_blocks(store).await?;
        let mut survey = shared.survey().await?;
        let unmentioned = read_unmentioned(store, &listed, &mut survey).await?;
        let mut repair = Self::begin(survey);
        if !repair.is_needed() {
            return Ok(repair);
        }
        if repair.entries_are_lost {
            repair.apply_beyond(&shared).await?;
            repair.add_blocks(store, unmentioned, &listed).await?;
            repair.find_writers(store).await?;
        }
        if repair.entries_are_lost {
            // A lost entry may have activated every version that this program knows.
            repair.state.forms = repair.state.forms.or_later(NEWEST_FORMS);
        }
        repair.state.number = repair.number;
        // The new log does not continue an old one: its first entry holds this random checksum.
        let checksum = entry_checksum(&env.new_id().to_bytes());
        repair.state.chain = Chain::new(LogChain { linked: true, checksums: [checksum].into() });
        repair.state.sessions = Arc::default();
        Ok(repair)
    }

    fn begin(survey: Survey) -> Self {
        let entries_are_lost = !survey.is_whole();
        let Survey { findings, sound, beyond, highest, objects, .. } = survey;
        Self {
            findings,
            sound_through: sound.number(),
            entries_are_lost,
            applied: beyond,
            added: Vec::new(),
            superseded: Vec::new(),
            gone: Vec::new(),
            unreadable: Vec::new(),
            writers: Vec::new(),
            moved: objects.into_iter().map(|object| object.path).collect(),
            number: highest.max(sound.number()).saturating_add(1),
            state: sound,
        }
    }

    /// Applies the readable entries after the damage. Entries that they depend on may be missing; their
    /// preconditions prevent wrong effects.
    async fn apply_beyond(&mut self, shared: &Shared) -> Result<(), Error> {
        for number in std::mem::take(&mut self.applied) {
            match shared.read_entry(number).await {
                Ok(Some(stored)) => {
                    self.state.number = number - 1;
                    self.state.apply(&stored.entry);
                    self.applied.push(number);
                }
                Ok(None) | Err(Error::Corrupt { .. } | Error::Misplaced { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Adds the blocks that the state does not name, and removes those that they replace.
    async fn add_blocks(
        &mut self,
        store: &Store,
        unmentioned: Vec<UnmentionedBlock>,
        listed: &[ObjectInfo],
    ) -> Result<(), Error> {
        let mut merged: BTreeMap<Id, BTreeSet<Id>> = BTreeMap::new();
        let mut found = BTreeMap::new();
        for UnmentionedBlock { path, description } in unmentioned {
            match description {
                Ok(Described { meta, .. }) if self.state.is_referenced(meta.id) => {}
                Ok(Described { meta, inputs }) => {
                    if !inputs.is_empty() {
                        merged.insert(meta.id, inputs);
                    }
                    found.insert(meta.id, meta);
                }
                Err(problem) => self.unreadable.push((path, problem)),
            }
        }
        self.forget_damaged_merges(store, &found, &mut merged).await?;
        let windows = merged.keys().filter_map(|id| Some((*id, found.get(id)?.window))).collect();
        let is_whole = |cut: &Id, parts: &[Id]| {
            let cut = found.get(cut).or_else(|| self.state.block(*cut).map(|block| &**block));
            cut.is_none_or(|cut| stand_for(cut, parts.iter().filter_map(|part| found.get(part))))
        };
        let replaced = replaced_by(&merged, &windows, is_whole);
        let mut places = self.state.all_blocks().map(|block| block.place).collect();
        for (id, meta) in found {
            if replaced.contains(&id) {
                self.superseded.push(id);
            } else {
                let deletes_through = meta.deletes_through.min(self.number);
                let place = free_place(&mut places, meta.place);
                let meta = BlockMeta { deletes_through, place, ..meta };
                self.state.blocks.insert(meta.clone());
                self.added.push(meta);
            }
        }
        for id in replaced {
            if self.state.blocks.remove(id).is_some() {
                self.superseded.push(id);
            }
        }
        let existing: BTreeSet<&str> = listed.iter().map(|object| object.path.as_str()).collect();
        let gone = self.state.all_blocks().filter(|block| !existing.contains(block.path().as_str()));
        self.gone = gone.map(|block| BlockMeta::clone(block)).collect();
        for block in &self.gone {
            self.state.blocks.remove(block.id);
        }
        Ok(())
    }

    /// Drops damaged merges from `merged`, so that they replace no other block. Verifies only merges that
    /// would replace one.
    async fn forget_damaged_merges(
        &self,
        store: &Store,
        found: &BTreeMap<Id, BlockMeta>,
        merged: &mut BTreeMap<Id, BTreeSet<Id>>,
    ) -> Result<(), Error> {
        let exists = |id: &Id| found.contains_key(id) || self.state.block(*id).is_some();
        let mut damaged = Vec::new();
        for (id, inputs) in &*merged {
            let contains =
                |(other, of_other): (&Id, &BTreeSet<Id>)| other != id && of_other.is_subset(inputs);
            let matters = inputs.iter().any(exists) || merged.iter().any(contains);
            let Some(meta) = found.get(id).filter(|_| matters) else { continue };
            if check_block(store, meta).await.is_err() {
                damaged.push(*id);
            }
        }
        merged.retain(|id, _| !damaged.contains(id));
        Ok(())
    }

    /// Registers writers so that the next start reads every WAL object that may hold rows.
    async fn find_writers(&mut self, store: &Store) -> Result<(), Error> {
        let mut writers = BTreeMap::clone(&self.state.writers);
        for name in store.list_prefixes(names::WAL, Intent::wal()).await? {
            let Ok(incarnation) = name.parse::<Id>() else { continue };
            let listed = store.list(&names::wal_of(incarnation), Intent::wal()).await?;
            let Some(first) = first_rows(store, incarnation, &listed).await? else { continue };
            let known = writers.get(&incarnation).cloned();
            let mut writer = known.clone().unwrap_or_else(|| Writer {
                incarnation,
                address: String::new(),
                host: "registered again by a repair".to_owned(),
                started_ms: incarnation.timestamp_ms() as i64,
                // Read like files, past every gap and damage: nothing writes to them any more.
                wal: WalKind::Local,
                floor: 0,
                fence: None,
                orphan_floor: None,
                edits: EDITS_UNSTATED,
                reads: None,
                node: None,
                stamps_after: 0,
                rules: RuleShards::NONE,
            });
            let limit = writer.fence.unwrap_or(u64::MAX);
            writer.floor = writer.floor.max(first.min(limit));
            if known.as_ref() != Some(&writer) {
                writers.insert(incarnation, writer.clone());
                self.writers.push(writer);
            }
        }
        self.state.writers = Arc::new(writers);
        Ok(())
    }

    /// Executes the plan. No other process may use the store.
    pub async fn execute(&self, store: &Store, env: &Env) -> Result<(), Error> {
        let shared = Shared::new(store.clone(), env.clone(), CatalogOptions::default());
        shared.publish(Arc::new(self.state.clone()));
        if !shared.write_checkpoint().await? {
            let evidence = format!("another repair has written checkpoint {}; plan again", self.number);
            return Err(Error::Lost { evidence });
        }
        let keep = |path: &str| match CatalogObject::parse(path) {
            Some(CatalogObject::Root { number } | CatalogObject::Part { number }) => number == self.number,
            _ => false,
        };
        let set_aside = |path: String| async move {
            let bytes = match store.get(&path, Intent::catalog()).await {
                Ok(bytes) => bytes,
                Err(error) if error.is_not_found() => return Ok(()),
                Err(error) => return Err(Error::from(error)),
            };
            store.put(&format!("{}/{path}", self.replaced()), bytes, Intent::catalog()).await?;
            Ok(())
        };
        set_aside(names::BOUNDARY.to_owned()).await?;
        let boundary = Bytes::from(Boundary { at: self.state.position() }.encode());
        store.put(names::BOUNDARY, boundary, Intent::catalog()).await?;
        for path in self.moved.iter().filter(|path| *path != names::BOUNDARY && !keep(path)) {
            set_aside(path.clone()).await?;
            store.delete(path, Intent::catalog()).await?;
        }
        shared.write_witness(&self.state).await;
        Ok(())
    }
}

/// A block that the sound state does not name.
struct UnmentionedBlock {
    path: String,
    /// The description in its footer, or why it cannot be used.
    description: Result<Described, String>,
}

struct Described {
    meta: BlockMeta,
    inputs: BTreeSet<Id>,
}

/// Reads the footers of all blocks that the sound state does not name, and adds the log positions in them
/// to the survey.
async fn read_unmentioned(
    store: &Store,
    listed: &[ObjectInfo],
    survey: &mut Survey,
) -> Result<Vec<UnmentionedBlock>, Error> {
    let mut unmentioned = Vec::new();
    for ObjectInfo { path, size, .. } in listed {
        let Some(name) = BlockName::parse(path) else {
            let description = Err("is not a block's name".to_owned());
            unmentioned.push(UnmentionedBlock { path: path.clone(), description });
            continue;
        };
        if survey.sound.is_referenced(name.id) {
            continue;
        }
        let footer = read_footer(store, path, *size).await?;
        if let Ok(Some(origin)) = footer.as_ref().map(|footer| footer.index().origin()) {
            survey.hear(path, origin.seen);
        }
        let description = footer.and_then(|footer| {
            let footer = footer.index();
            let meta = BlockMeta::of(name, footer);
            let own = footer.origin().map(|origin| origin.block).filter(|own| *own != Id::default());
            if meta.path() != *path || own.is_some_and(|own| own != name.id) {
                return Err("has another block's name".to_owned());
            }
            let inputs = footer.origin().map(|origin| origin.inputs.iter().copied().collect());
            Ok(Described { meta, inputs: inputs.unwrap_or_default() })
        });
        unmentioned.push(UnmentionedBlock { path: path.clone(), description });
    }
    Ok(unmentioned)
}

/// Returns the blocks that are inputs of a merge, and merges that a larger merge contains. A merge with
/// one input may hold only a part of it: `is_whole` decides whether all merges with this single input
/// together hold all of it.
fn replaced_by(
    merged: &BTreeMap<Id, BTreeSet<Id>>,
    windows: &BTreeMap<Id, TimeRange>,
    is_whole: impl Fn(&Id, &[Id]) -> bool,
) -> BTreeSet<Id> {
    let mut parts: BTreeMap<Id, Vec<Id>> = BTreeMap::new();
    let mut replaced = BTreeSet::new();
    for (id, inputs) in merged {
        match inputs.first().filter(|_| inputs.len() == 1) {
            Some(only) => parts.entry(*only).or_default().push(*id),
            None => replaced.extend(inputs.iter().copied()),
        }
    }
    replaced.extend(parts.iter().filter(|(cut, parts)| is_whole(cut, parts)).map(|(cut, _)| *cut));
    for (id, inputs) in merged {
        let is_of_other_times = |other: &Id| inputs.len() == 1 && windows.get(id) != windows.get(other);
        let contains = |(other, of_other): (&Id, &BTreeSet<Id>)| {
            let larger = of_other.len() > inputs.len() || (other > id && !is_of_other_times(other));
            other != id && larger && inputs.is_subset(of_other)
        };
        if merged.iter().any(contains) {
            replaced.insert(*id);
        }
    }
    replaced
}

/// Whether blocks that were made from `cut` alone hold all of its rows: one of them covers all of its
/// times, or together they have all of its rows, each window counted once.
fn stand_for<'a>(cut: &BlockMeta, made: impl Iterator<Item = &'a BlockMeta>) -> bool {
    let mut rows: BTreeMap<(i64, i64), u64> = BTreeMap::new();
    for part in made {
        let TimeRange { start, end } = part.window;
        if cut.rows == 0 || (start <= cut.min_ts && cut.max_ts < end) {
            return true;
        }
        let of_window = rows.entry((start, end)).or_default();
        *of_window = (*of_window).max(part.rows);
    }
    rows.values().sum::<u64>() >= cut.rows
}

/// Returns the first free place from `place` on. Footers do not record the order of the blocks of one
/// flush, but no two of these hold the same instant of a series.
fn free_place(taken: &mut BTreeSet<u64>, mut place: u64) -> u64 {
    while place > 0 && !taken.insert(place) {
        place += 1;
    }
    place
}

/// Returns the first object that may hold rows of a writer.
async fn first_rows(store: &Store, incarnation: Id, listed: &[ObjectInfo]) -> Result<Option<u64>, Error> {
    let mut objects: Vec<(u64, &str)> =
        listed.iter().filter_map(|o| Some((names::wal_sequence(&o.path)?, o.path.as_str()))).collect();
    objects.sort_unstable();
    for (sequence, path) in objects {
        let may_have_rows = match FrameReader::new(store.get(path, Intent::wal()).await?).next_frame() {
            Ok(Some(frame)) => {
                let header = frame.header();
                header.id.incarnation == incarnation && header.kind == FrameKind::Data
            }
            Ok(None) => false,
            // Readers skip the damage to the next complete frame.
            Err(_) => true,
        };
        if may_have_rows {
            return Ok(Some(sequence));
        }
    }
    Ok(None)
}

//! Checkpoints: the complete state at one number, so that the log need not be read from its start.
//!
//! Any process for which a checkpoint is due writes it: first its parts, under unique names, then the
//! root by conditional create. So a root implies a complete checkpoint; parts without a root are never
//! read and are deleted with their number. Checkpoints share no objects, so deleting one never damages
//! another.
//!
//! Frequency: reading the log after a checkpoint should be fast, but writing the state should not cost
//! more than writing the log. A checkpoint is due after 64 entries up to 32,000 blocks, after
//! proportionally more entries beyond that, at most 1,024; and after 10 minutes if there is any new
//! entry.

use std::sync::Arc;

use bytes::Bytes;
use sandur_format::Error as FormatError;
use sandur_format::catalog_entry::{
    CheckpointRoot, LogPosition, PART_ROWS_MAX, PartRef, PartRow, decode_part, encode_part,
};
use sandur_runtime::Lane;
use sandur_store::{Created, Intent, ObjectInfo};

use crate::error::Error;
use crate::names::{self, CatalogObject};
use crate::shared::Shared;
use crate::snapshot::Snapshot;
use crate::tail::Tail;

/// Most attempts to load while other processes truncate the log.
const LOADS_MAX: u32 = 12;
/// Blocks per entry between checkpoints: a block takes about 150 bytes in a checkpoint, so at most 75 KB
/// of checkpoint are written per entry.
const BLOCKS_PER_ENTRY: u64 = 500;
/// Most entries between checkpoints: reading them takes a few seconds.
const ENTRIES_MAX: u64 = 1024;

impl Shared {
    /// Loads the newest state: the newest readable checkpoint and the log after it.
    pub(crate) async fn load(&self) -> Result<Arc<Snapshot>, Error> {
        let mut boundary = 0;
        for attempt in 0..LOADS_MAX {
            if attempt > 0 {
                self.pause(attempt).await;
            }
            let base = self.newest_checkpoint().await?;
            if let Tail::Verified(snapshot) = self.tail(&base).await? {
                return Ok(snapshot);
            }
            // The listing was out of date, or the log was truncated since. The checkpoint at the boundary
            // is complete as long as the boundary does not move.
            boundary = self.read_boundary().await?;
            let Some(base) = self.read_checkpoint(boundary).await? else {
                continue;
            };
            if let Tail::Verified(snapshot) = self.tail(&Arc::new(base)).await? {
                return Ok(snapshot);
            }
        }
        Err(Error::Unloadable { attempts: LOADS_MAX, boundary })
    }

    /// Loads the newest state, and fails when witnesses show that it is incomplete.
    pub(crate) async fn load_whole(&self) -> Result<Arc<Snapshot>, Error> {
        let witnesses = self.read_witnesses().await?;
        let mut loaded = self.load().await?;
        if loaded.number() == 0
            && let Err(error) = self.expect_no_data().await
        {
            // Another process may have written the first entry since.
            loaded = self.load().await?;
            if loaded.number() == 0 {
                return Err(error);
            }
        }
        self.check_witnesses(&loaded, &witnesses)?;
        Ok(loaded)
    }

    /// Returns the newest checkpoint that can be read, or the empty state.
    async fn newest_checkpoint(&self) -> Result<Arc<Snapshot>, Error> {
        let listed = self.store.list(names::CHECKPOINTS, Intent::catalog()).await?;
        for number in roots(&listed).into_iter().rev() {
            if let Some(snapshot) = self.read_checkpoint(number).await? {
                self.note_checkpoint(number);
                return Ok(Arc::new(snapshot));
            }
        }
        Ok(Arc::default())
    }

    /// Reads the checkpoint at `number`; `None` when it is absent, being deleted, or damaged.
    async fn read_checkpoint(&self, number: u64) -> Result<Option<Snapshot>, Error> {
        match self.try_read_checkpoint(number).await {
            Ok(snapshot) => Ok(Some(snapshot)),
            Err(Error::Store(error)) if error.is_not_found() => Ok(None),
            Err(error) if error.is_of_newer_program() => Err(error),
            Err(error @ (Error::Corrupt { .. } | Error::Misplaced { .. })) => {
                tracing::error!(%error, number, "checkpoint is damaged, an older one is read instead");
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    pub(crate) async fn try_read_checkpoint(&self, number: u64) -> Result<Snapshot, Error> {
        let root = self.read_root(number).await?;
        let mut parts = Vec::with_capacity(root.parts.len());
        for (index, part) in root.parts.iter().enumerate() {
            let path = names::part(number, root.id, index);
            let bytes = self.store.get(&path, Intent::catalog()).await?;
            let (expected, found) = (part.checksum, crc32c::crc32c(&bytes));
            if expected != found {
                let reason = FormatError::Checksum { part: "checkpoint part", offset: 0, expected, found };
                return Err(Error::Corrupt { path, reason });
            }
            parts.push((path, bytes));
        }
        let work = move || restore(root, parts);
        self.env.run_cpu(Lane::Background, work).await
    }

    async fn read_root(&self, number: u64) -> Result<CheckpointRoot, Error> {
        let path = names::root(number);
        let bytes = self.store.get(&path, Intent::catalog()).await?;
        match CheckpointRoot::decode(&bytes) {
            Ok(root) if root.number == number => Ok(root),
            Ok(root) => Err(Error::Misplaced { path, found: root.number }),
            Err(reason) => Err(Error::Corrupt { path, reason }),
        }
    }

    /// Whether a checkpoint of the current snapshot is due.
    pub(crate) fn checkpoint_is_due(&self) -> bool {
        let (snapshot, last) = (self.current(), self.checkpointed());
        let entries = snapshot.number().saturating_sub(last.number);
        let every = (snapshot.block_count() as u64 / BLOCKS_PER_ENTRY).min(ENTRIES_MAX);
        let age = self.env.monotonic().saturating_sub(last.at);
        if age < self.options.truncate_after && !self.is_local() {
            // The log would be truncated to the last checkpoint, which is too young for that.
            return false;
        }
        let old = age >= self.options.checkpoint_age;
        entries >= every.max(self.options.checkpoint_entries) || (entries > 0 && old)
    }

    /// Lists the checkpoints to find those of other processes.
    pub(crate) async fn look_for_checkpoints(&self) -> Result<(), Error> {
        let listed = self.store.list(names::CHECKPOINTS, Intent::catalog()).await?;
        if let Some(&newest) = roots(&listed).last() {
            self.note_checkpoint(newest);
        }
        Ok(())
    }

    /// Writes a checkpoint of the current snapshot; `false` when one exists at this number or a later
    /// one.
    pub(crate) async fn write_checkpoint(&self) -> Result<bool, Error> {
        let snapshot = self.current();
        if self.checkpointed().number >= snapshot.number() {
            return Ok(false);
        }
        let (number, id) = (snapshot.number(), self.env.new_id());
        let source = Arc::clone(&snapshot);
        let parts = self.env.run_cpu(Lane::Background, move || encode_parts(&source)).await?;
        let mut refs = Vec::with_capacity(parts.len());
        for (index, (rows, bytes)) in parts.into_iter().enumerate() {
            let checksum = crc32c::crc32c(&bytes);
            refs.push(PartRef { rows, size: bytes.len() as u64, checksum });
            let path = names::part(number, id, index);
            self.store.put(&path, bytes, Intent::catalog()).await?;
        }
        let root = Bytes::from(snapshot.root(id, refs).encode()?);
        let created = self.store.create(&names::root(number), root, Intent::catalog()).await?;
        self.note_checkpoint(number);
        self.write_witness(&snapshot).await;
        if created == Created::New {
            self.metrics.checkpoints.inc();
            tracing::info!(number, blocks = snapshot.block_count(), "wrote a catalog checkpoint");
        }
        Ok(created == Created::New)
    }

    /// Advances the boundary to the newest complete checkpoint that has a newer one and is not after `last`,
    /// and returns the boundary.
    pub(crate) async fn advance_to_older_checkpoint(&self, last: u64) -> Result<u64, Error> {
        let boundary = self.read_boundary().await?;
        let listed = self.store.list(names::CHECKPOINTS, Intent::catalog()).await?;
        let mut complete = Vec::with_capacity(2);
        for number in roots(&listed).into_iter().rev().take_while(|n| *n > boundary) {
            complete.extend(self.complete(number, &listed).await?);
            if let [_newest, .., older] = complete[..]
                && older.number <= last
            {
                return self.advance_boundary(older).await;
            }
        }
        Ok(boundary)
    }

    /// Returns the end of a checkpoint, if its root can be read and all of its parts are listed with
    /// their sizes.
    async fn complete(&self, number: u64, listed: &[ObjectInfo]) -> Result<Option<LogPosition>, Error> {
        let root = match self.read_root(number).await {
            Ok(root) => root,
            Err(Error::Store(error)) if error.is_not_found() => return Ok(None),
            Err(error @ (Error::Corrupt { .. } | Error::Misplaced { .. })) => {
                tracing::error!(%error, number, "checkpoint is damaged, the log before it is kept");
                return Ok(None);
            }
            Err(error) => return Err(error),
        };
        let is_there = |(index, part): (usize, &PartRef)| {
            let path = names::part(number, root.id, index);
            let found = listed.binary_search_by(|o| o.path.cmp(&path));
            found.is_ok_and(|at| listed[at].size == part.size)
        };
        let checksum = root.chain.checksums.back().copied().unwrap_or(0);
        Ok(root.parts.iter().enumerate().all(is_there).then_some(LogPosition { number, checksum }))
    }

    /// Deletes entries up to the boundary and checkpoints below it, and returns how many objects.
    pub(crate) async fn delete_below_boundary(&self, dry_run: bool) -> Result<usize, Error> {
        let boundary = self.read_boundary().await?;
        let mut deleted = 0;
        for object in self.store.list(names::CATALOG, Intent::gc()).await? {
            let gone = match CatalogObject::parse(&object.path) {
                Some(CatalogObject::Entry { number }) => number <= boundary,
                Some(CatalogObject::Root { number } | CatalogObject::Part { number }) => number < boundary,
                Some(CatalogObject::Boundary) | None => false,
            };
            if !gone {
                continue;
            }
            if deleted >= self.options.deletes_max {
                break;
            }
            if !dry_run {
                self.store.delete(&object.path, Intent::gc()).await?;
            }
            deleted += 1;
        }
        Ok(deleted)
    }
}

/// Returns the numbers of the roots in a listing, in ascending order.
pub(crate) fn roots(listed: &[ObjectInfo]) -> Vec<u64> {
    let root = |object: &ObjectInfo| match CatalogObject::parse(&object.path) {
        Some(CatalogObject::Root { number }) => Some(number),
        _ => None,
    };
    let mut numbers: Vec<u64> = listed.iter().filter_map(root).collect();
    numbers.sort_unstable();
    numbers
}

pub(crate) fn encode_parts(snapshot: &Snapshot) -> Result<Vec<(u32, Bytes)>, Error> {
    let mut parts = Vec::new();
    let mut rows = Vec::with_capacity(PART_ROWS_MAX.min(snapshot.block_count() + 1));
    let mut finish = |rows: &mut Vec<PartRow>| -> Result<(), Error> {
        parts.push((rows.len() as u32, Bytes::from(encode_part(rows)?)));
        rows.clear();
        Ok(())
    };
    for row in snapshot.rows() {
        rows.push(row);
        if rows.len() == PART_ROWS_MAX {
            finish(&mut rows)?;
        }
    }
    if !rows.is_empty() {
        finish(&mut rows)?;
    }
    Ok(parts)
}

pub(crate) fn restore(root: CheckpointRoot, parts: Vec<(String, Bytes)>) -> Result<Snapshot, Error> {
    let mut rows = Vec::new();
    for (path, bytes) in parts {
        match decode_part(&bytes) {
            Ok(part) => rows.extend(part),
            Err(reason) => return Err(Error::Corrupt { path, reason }),
        }
    }
    Ok(Snapshot::restore(root, rows.into_iter()))
}

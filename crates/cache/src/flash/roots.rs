//! Reading and writing the roots of the device.
//!
//! Invariant: sequence numbers are reserved in the root before they are used, so that no restart uses a
//! number twice, whatever was lost.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::disk::Disk;
use super::format::Root;
use super::journal::{Journal, Place};
use super::keyspace::Keyspace;
use super::layout::ROOTS;
use super::segments::SegmentState;
use super::space::Space;
use crate::device::{BLOCK, Device};

/// Sequence numbers reserved at a time. 2^48 numbers suffice for 65,536 crashes, each of which loses
/// this many; clean stops return the unused ones.
const RESERVED: u64 = 1 << 32;

/// The roots of a device.
pub(super) enum FoundRoot {
    /// All bytes are zero: the device was never used.
    New,
    /// Neither root is valid.
    Unreadable,
    /// The newest valid root, of any layout.
    Sound(Root),
}

/// Reads the roots of a device.
pub(super) fn read_root(device: &dyn Device) -> std::io::Result<FoundRoot> {
    let mut blocks = [vec![0; BLOCK as usize], vec![0; BLOCK as usize]];
    for (block, offset) in blocks.iter_mut().zip(ROOTS) {
        device.read_at(offset, block)?;
    }
    let is_new = || blocks.iter().flatten().all(|&byte| byte == 0);
    Ok(match Root::newest(&blocks[0], &blocks[1]) {
        Some(root) => FoundRoot::Sound(root),
        None if is_new() => FoundRoot::New,
        None => FoundRoot::Unreadable,
    })
}

/// The roots of this run.
pub(super) struct Roots {
    pub disk: Arc<Disk>,
    pub space: Arc<Space>,
    pub journal: Arc<Journal>,
    pub keys: Arc<Keyspace>,
    /// The turn (number) of the newest root on the device.
    root_turn: AtomicU64,
    /// Sequence numbers below this one are reserved.
    reserved_to: AtomicU64,
    /// Whether the journal of an earlier run becomes void with the next root.
    journal_begins_anew: AtomicBool,
    /// Sequence number of the image that the root names.
    image: AtomicU64,
    /// Slots of images that may be named by a root whose write failed.
    doubtful_image: Mutex<Vec<u32>>,
}

impl Roots {
    /// The state after the roots up to turn `last_turn`, for a run that recovers the run of `root`.
    pub fn new(keys: Arc<Keyspace>, last_turn: u64, root: Option<&Root>) -> Self {
        let (disk, space) = (Arc::clone(&keys.disk), Arc::clone(&keys.space));
        Self {
            disk,
            space,
            journal: Arc::clone(&keys.journal),
            keys,
            root_turn: AtomicU64::new(last_turn),
            reserved_to: AtomicU64::new(0),
            journal_begins_anew: AtomicBool::new(false),
            image: AtomicU64::new(root.map_or(0, |root| root.image)),
            doubtful_image: Mutex::default(),
        }
    }

    pub fn lock_doubtful_image(&self) -> MutexGuard<'_, Vec<u32>> {
        self.doubtful_image.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The turn of the newest root on the device.
    pub fn turn(&self) -> u64 {
        self.root_turn.load(Ordering::Relaxed)
    }

    /// Sets the image that the next root names, begun at `sequence`. Returns the previous one.
    pub fn name_image(&self, sequence: u64) -> u64 {
        self.image.swap(sequence, Ordering::Relaxed)
    }

    /// Makes the journal of the earlier run void with the next root.
    pub fn begin_journal_anew(&self) {
        self.journal_begins_anew.store(true, Ordering::Release);
    }

    /// Writes the next root and syncs it. `clean` means that the image is complete.
    pub fn write_root(&self, clean: bool) -> std::io::Result<()> {
        let turn = self.root_turn.fetch_add(1, Ordering::Relaxed) + 1;
        // Read before the root is encoded, which then says that the journal is incomplete, or names an image.
        let journal_begins_anew = self.journal_begins_anew.load(Ordering::Acquire);
        let given = self.keys.coming_sequence();
        let next_sequence = if clean { given } else { given + RESERVED };
        let root = Root {
            clean,
            journal_lost: self.journal.has_lost(),
            segment_bytes: self.disk.layout.segment_bytes as u32,
            device: self.disk.device_id,
            hash_seed: self.disk.hash_seed,
            turn,
            segments: self.disk.layout.segments,
            journal_blocks: self.disk.layout.journal_blocks,
            shard_rows: self.disk.layout.shard_rows,
            journal_half: self.journal.place().half,
            image: self.image.load(Ordering::Relaxed),
            next_sequence,
            flushed_below: self.keys.flushed_below(),
            device_bytes: self.disk.device.size(),
        };
        self.disk.write(ROOTS[(turn % 2) as usize], &root.encode())?;
        self.disk.sync()?;
        self.reserved_to.store(next_sequence, Ordering::Relaxed);
        if journal_begins_anew {
            self.journal_begins_anew.store(false, Ordering::Relaxed);
            self.journal.resume(Place { half: 0, epoch: self.keys.earlier.first_id, block: 0 }, true);
        }
        // This root is newer than any that names these slots.
        let doubtful = std::mem::take(&mut *self.lock_doubtful_image());
        doubtful.into_iter().for_each(|slot| self.space.release(slot, SegmentState::Free));
        Ok(())
    }

    /// Reserves more sequence numbers before they run out, and records an incomplete journal in a root.
    pub fn renew_root(&self) {
        let reserved = self.reserved_to.load(Ordering::Relaxed);
        let is_low = reserved.saturating_sub(self.keys.coming_sequence()) < RESERVED / 2;
        if self.disk.watch.may_write()
            && (is_low || self.journal.wants_root())
            && let Err(error) = self.write_root(false)
        {
            self.journal.want_root();
            self.disk.write_failed("root", &error);
        }
    }
}

//! Reading and writing the roots of the device.
//!
//! Invariant: sequence numbers are reserved in the root before they are given, so a restart never
//! gives a number twice, whatever was lost.

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

/// Numbers reserved at a time. 2^48 numbers allow for 65,536 crashes with so many each; clean stops
/// give back what was not used.
const RESERVED: u64 = 1 << 32;

/// What the roots of a device say.
pub(super) enum FoundRoot {
    /// Nothing: no run was there before.
    New,
    /// Neither of them is sound.
    Unreadable,
    /// The newest sound one, of any layout.
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
    /// The turn of the newest root on the device.
    root_turn: AtomicU64,
    /// Sequence numbers below this are reserved.
    reserved_to: AtomicU64,
    /// Whether the journal of an earlier run is void as soon as a root says so.
    journal_begins_anew: AtomicBool,
    /// Sequence number of the image that the root names.
    image: AtomicU64,
    /// Slots of images that a root which could not be written for certain may name.
    doubtful_image: Mutex<Vec<u32>>,
}

impl Roots {
    /// After the roots up to `last_turn`, of which `root` is taken over.
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

    /// The next root names the image that was begun at `sequence`; the one that the roots named before.
    pub fn name_image(&self, sequence: u64) -> u64 {
        self.image.swap(sequence, Ordering::Relaxed)
    }

    /// The journal of the earlier run is void as soon as a root says so.
    pub fn begin_journal_anew(&self) {
        self.journal_begins_anew.store(true, Ordering::Release);
    }

    /// Writes the root that is due and syncs it. `clean` means that the image is the whole truth.
    pub fn write_root(&self, clean: bool) -> std::io::Result<()> {
        let turn = self.root_turn.fetch_add(1, Ordering::Relaxed) + 1;
        // Asked before the root is made: then it says that the journal is not whole, or names an image.
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
        // Whatever an earlier root says, this one counts, and does not name them.
        let doubtful = std::mem::take(&mut *self.lock_doubtful_image());
        doubtful.into_iter().for_each(|slot| self.space.release(slot, SegmentState::Free));
        Ok(())
    }

    /// Reserves more sequence numbers while there still are some, and notes a journal that is not whole.
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

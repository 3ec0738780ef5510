//! The flash tier: a log of segments on a device, and an index of where each key lies.
//!
//! **Life of a record.** [`Flash::append`] copies it into the write buffer of its class's open
//! segment and puts it into the [`index`]; a thread writes full buffers in order. When a segment is
//! full it gets a footer, and when segments run short the least useful one is reclaimed: what was
//! used in it is written again, the rest is reported to the [`Observer`] and forgotten.
//!
//! **Life of a read.** [`Flash::lookup`] asks the index, without I/O; [`Flash::read`] starts the
//! device reads of any number of keys at once and gives a future for each. Whoever awaits it checks
//! key and checksums.
//!
//! Invariants: nothing here blocks its caller; no value is ever given that was not written under
//! its key; every record that is dropped is reported with its reason.

#![expect(dead_code, unused_imports, reason = "recovery and images are not here yet")]

mod append;
mod core;
mod counters;
mod expiry;
mod format;
mod health;
mod index;
mod journal;
mod layout;
mod observer;
mod options;
mod probe;
mod read;
mod reclaim;
mod segments;
#[cfg(test)]
mod tests;
mod threads;
mod touched;
mod unwritten;
mod writer;

pub use append::NewRecord;
pub use counters::Counts;
pub use format::{Class, KEY_BYTES_MAX};
pub use health::Health;
pub use index::Location;
pub use observer::{DropEvent, Dropped, Observer, Unobserved};
pub use options::{FlashError, FlashOptions, Journaling, Warm};
pub use read::{FlashItem, FlashRead, ReadFuture};
pub use segments::{Segment, SegmentState};

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use sandur_base::Env;

use self::core::Core;
use self::counters::Counters;
use self::format::JournalKind;
use self::health::Watch;
use self::index::Index;
use self::journal::{Journal, Place};
use self::layout::Layout;
use self::options::Journaling as Keeps;
use self::segments::SegmentTable;
use self::threads::Threads;
use self::touched::Touched;
use self::unwritten::Unwritten;
use self::writer::WriteQueue;
use crate::device::{BufferPool, Device, FileDevice};

/// Idle buffers kept for reuse.
const RETAINED_BUFFER_BYTES: u64 = 16 << 20;

/// The flash tier. Dropping it ends its threads without a clean stop; see [`Flash::close`].
pub struct Flash {
    core: Arc<Core>,
    threads: Mutex<Option<Threads>>,
}

/// The figures of the flash tier.
#[derive(Clone, Debug)]
pub struct FlashStats {
    /// What was counted.
    pub counts: Counts,
    /// State of the device.
    pub health: Health,
    /// Records on flash.
    pub records: u64,
    /// Bytes of memory of the index.
    pub index_bytes: u64,
    /// Bytes of all segments.
    pub capacity_bytes: u64,
    /// Bytes of a segment.
    pub segment_bytes: u64,
    /// All segments, by slot.
    pub segments: Vec<Segment>,
    /// Writes that wait.
    pub queued_writes: u64,
    /// Bytes of read buffers that are out.
    pub read_buffer_bytes: u64,
}

impl Flash {
    /// Opens the files or block devices of `options`. What an earlier run left is found in the
    /// background; until then it misses.
    pub fn open(env: &Env, options: FlashOptions, observer: Arc<dyn Observer>) -> Result<Self, FlashError> {
        let device = Arc::new(FileDevice::open(&options.parts, options.readers)?);
        let flash = Self::open_on(env, device, options, observer)?;
        let threads = Threads::start(&flash.core)?;
        *flash.threads.lock().unwrap_or_else(PoisonError::into_inner) = Some(threads);
        Ok(flash)
    }

    /// As [`Flash::open`], over any device and without threads: whoever calls [`Flash::step`] does
    /// their work. For simulations.
    pub fn open_on(
        env: &Env,
        device: Arc<dyn Device>,
        options: FlashOptions,
        observer: Arc<dyn Observer>,
    ) -> Result<Self, FlashError> {
        let layout = Layout::plan(device.size(), options.segment_bytes)?;
        let mut device_id = [0; 16];
        device_id[..8].copy_from_slice(&env.random_u64().to_le_bytes());
        device_id[8..].copy_from_slice(&env.random_u64().to_le_bytes());
        let core = Core {
            env: env.clone(),
            device,
            layout,
            device_id,
            hash_seed: env.random_u64(),
            index: Index::new(layout.shard_rows, options.index_bytes_max),
            table: SegmentTable::new(layout.segments),
            open: std::array::from_fn(|_| Mutex::new(None)),
            unwritten: Unwritten::default(),
            queue: WriteQueue::default(),
            journal: Journal::new(Place::default()),
            touched: Touched::default(),
            watch: Watch::new(),
            counters: Counters::default(),
            observer,
            write_pool: BufferPool::new(options.write_buffer_bytes, options.write_buffer_bytes),
            read_pool: BufferPool::new(options.read_buffer_bytes, RETAINED_BUFFER_BYTES),
            sequence: AtomicU64::new(1),
            flushed_below: AtomicU64::new(0),
            recovering: AtomicBool::new(false),
            root_turn: AtomicU64::new(0),
            image: AtomicU64::new(0),
            sealed_since_image: AtomicU32::new(0),
            options,
        };
        Ok(Self { core: Arc::new(core), threads: Mutex::new(None) })
    }

    /// The hash of a key, with the seed that is kept on the device.
    pub fn hash(&self, key: &[u8]) -> u64 {
        self.core.hash(key)
    }

    /// Writes a record. It can be read at once; it reaches the device in the background. What
    /// cannot be written is reported, and then an older value of the key is gone too.
    pub fn append(&self, record: NewRecord<'_>) -> Result<(), Dropped> {
        self.core.append(&record)
    }

    /// Where a key lies, and counts a use of it. `None` is certain; `Some` is a miss after all if
    /// the record turns out to be another's, expired or gone.
    pub fn lookup(&self, hash: u64) -> Option<Location> {
        self.core.lookup(hash, true)
    }

    /// As [`Flash::lookup`], without counting a use.
    pub fn peek(&self, hash: u64) -> Option<Location> {
        self.core.lookup(hash, false)
    }

    /// Starts reading any number of records, all at once.
    pub fn read(&self, reads: &[FlashRead<'_>]) -> Vec<ReadFuture> {
        self.core.read(reads)
    }

    /// Removes a key, also after a crash. Whether it was there.
    pub fn forget(&self, hash: u64) -> bool {
        self.core.forget(hash)
    }

    /// Changes the expiry (seconds since 1970, 0 for never) of a key. `false` when the key is not
    /// there or no more changes can be remembered; then the record is to be written again.
    pub fn touch(&self, hash: u64, expires_at: u32) -> bool {
        self.core.touch(hash, expires_at)
    }

    /// Removes everything.
    pub fn flush_all(&self) {
        self.core.flush_all();
    }

    /// State of the device.
    pub fn health(&self) -> Health {
        self.core.watch.health()
    }

    /// The figures of this moment.
    pub fn stats(&self) -> FlashStats {
        let core = &self.core;
        FlashStats {
            counts: core.counters.counts(),
            health: core.watch.health(),
            records: core.index.len(),
            index_bytes: core.index.bytes(),
            capacity_bytes: core.layout.capacity(),
            segment_bytes: core.layout.segment_bytes,
            segments: core.table.all(),
            queued_writes: core.queue.len() as u64,
            read_buffer_bytes: core.read_pool.bytes_out(),
        }
    }

    /// Does the work of the threads for a moment: everything queued is written, buffers whose time
    /// has come are flushed, the journal is committed, segments are reclaimed.
    pub fn step(&self) {
        let core = &self.core;
        core.watch_reads();
        core.flush_buffers(false);
        while core.write_next(std::time::Duration::ZERO) {}
        core.keep_once(true);
    }

    /// Stops: everything is written, so that the next start finds it.
    pub fn close(self) {
        self.stop_threads();
        self.core.seal_all();
        while self.core.write_next(std::time::Duration::ZERO) {}
        self.core.commit_journal(true);
    }

    fn stop_threads(&self) {
        let threads = self.threads.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(mut threads) = threads {
            threads.stop(&self.core);
        }
    }
}

impl Drop for Flash {
    fn drop(&mut self) {
        self.stop_threads();
    }
}

impl Core {
    fn lookup(&self, hash: u64, count: bool) -> Option<Location> {
        if !self.watch.may_read() {
            return None;
        }
        let entry = self.index.find(hash, count)?;
        (!entry.location.expiry.is_past(self.now())).then_some(entry.location)
    }

    fn forget(&self, hash: u64) -> bool {
        let removed = self.index.remove(hash);
        if let Some(entry) = &removed {
            self.unlink(entry);
            self.touched.forget(hash);
        }
        let may_return = removed.is_some() || self.recovering.load(Ordering::Acquire);
        if may_return && self.options.journaling != Keeps::Off {
            self.journal.add(hash, JournalKind::Forgotten, || self.next_sequence());
        }
        removed.is_some()
    }

    fn touch(&self, hash: u64, expires_at: u32) -> bool {
        let expiry = expiry::Coarse::new(expires_at, self.now());
        if !self.index.set_expiry(hash, expiry) || !self.touched.set(hash, expires_at) {
            return false;
        }
        if self.options.journaling != Keeps::Off {
            self.journal.add(hash, JournalKind::Touched { expires_at }, || self.next_sequence());
        }
        true
    }

    fn flush_all(&self) {
        self.journal.add(0, JournalKind::Flushed, || self.next_sequence());
        let below = self.next_sequence();
        self.flushed_below.store(below, Ordering::Release);
        self.touched.clear();
        let records = self.index.retain(|_| false);
        let bytes = self.table.all().iter().map(|segment| segment.live_bytes).sum();
        self.table.clear_live();
        let (class, is_fetched) = (Class::Ingest, false);
        let reason = Dropped::Flushed;
        self.report(DropEvent { reason, class, hash: 0, records, bytes, age_s: 0, tenant: 0, is_fetched });
    }
}

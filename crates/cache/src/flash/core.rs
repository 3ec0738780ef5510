//! What all parts of the flash tier share. The work is in their own files: appending, writing,
//! reading, the journal, reclaiming, images, recovery.
//!
//! Locks are taken in this order and never the other way: an open segment, then the journal, the
//! index, the table of segments. No lock is held during I/O.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use sandur_base::Env;

use super::append::OpenSegment;
use super::counters::Counters;
use super::format::{Class, SEQUENCE_MAX};
use super::health::Watch;
use super::index::{Entry, Index};
use super::journal::Journal;
use super::layout::Layout;
use super::observer::{DropEvent, Dropped, Observer};
use super::options::FlashOptions;
use super::segments::{SegmentState, SegmentTable};
use super::touched::Touched;
use super::unwritten::Unwritten;
use super::writer::WriteQueue;
use crate::device::{BufferPool, Device};

pub(super) struct Core {
    pub env: Env,
    pub device: Arc<dyn Device>,
    pub layout: Layout,
    pub options: FlashOptions,
    pub device_id: [u8; 16],
    pub hash_seed: u64,
    pub index: Index,
    pub table: SegmentTable,
    pub open: [Mutex<Option<OpenSegment>>; Class::OF_RECORDS.len()],
    pub unwritten: Unwritten,
    pub queue: WriteQueue,
    pub journal: Journal,
    pub touched: Touched,
    pub watch: Watch,
    pub counters: Counters,
    pub observer: Arc<dyn Observer>,
    pub write_pool: BufferPool,
    pub read_pool: BufferPool,
    /// The next sequence number.
    pub sequence: AtomicU64,
    /// Records with smaller sequence numbers are void.
    pub flushed_below: AtomicU64,
    /// Whether records of an earlier run are still being found.
    pub recovering: AtomicBool,
    /// The turn of the newest root on the device.
    pub root_turn: AtomicU64,
    pub image: AtomicU64,
    /// Segments sealed since the last image.
    pub sealed_since_image: AtomicU32,
}

impl Core {
    /// Seconds since 1970.
    pub fn now(&self) -> u32 {
        u32::try_from(self.env.now_ns() / 1_000_000_000).unwrap_or(u32::MAX)
    }

    pub fn next_sequence(&self) -> u64 {
        // At a million records per second 48 bits last nine years; wrapping would only lose records.
        self.sequence.fetch_add(1, Ordering::Relaxed) & SEQUENCE_MAX
    }

    pub fn hash(&self, key: &[u8]) -> u64 {
        xxhash_rust::xxh3::xxh3_64_with_seed(key, self.hash_seed)
    }

    pub fn lock_open(&self, class: Class) -> MutexGuard<'_, Option<OpenSegment>> {
        self.open[class as usize].lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes and counts.
    pub fn write(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.device.write_at(offset, bytes)?;
        self.counters.bytes_written.add(bytes.len() as u64);
        self.watch.write_succeeded();
        Ok(())
    }

    pub fn write_failed(&self, what: &'static str, error: &io::Error) {
        self.counters.writes_failed.add(1);
        tracing::warn!(what, %error, "a write to flash failed");
        self.watch.write_failed(self.env.monotonic());
    }

    /// The index does not point to this record any more.
    pub fn unlink(&self, entry: &Entry) {
        self.table.remove_live(entry.location.slot, u64::from(entry.location.units) * super::format::UNIT);
    }

    pub fn report(&self, event: DropEvent) {
        self.counters.drop_of(event.reason, event.records);
        self.observer.dropped(event);
    }

    /// A record that was in the index was dropped.
    pub fn report_entry(&self, reason: Dropped, hash: u64, entry: &Entry) {
        let segment = self.table.segment(entry.location.slot);
        self.report(DropEvent {
            reason,
            class: segment.class,
            hash,
            records: 1,
            bytes: u64::from(entry.location.units) * super::format::UNIT,
            age_s: self.now().saturating_sub(segment.opened_at),
            tenant: 0,
            is_fetched: entry.is_fetched,
        });
    }

    /// A write to a segment failed: its records are gone, and its slot is not used again until the
    /// device was taken back.
    pub fn retire(&self, slot: u32, id: u64) {
        for class in Class::OF_RECORDS {
            let mut open = self.lock_open(class);
            if open.as_ref().is_some_and(|open| open.slot == slot && open.id == id) {
                *open = None;
            }
        }
        if self.table.id(slot) != id {
            return;
        }
        let segment = self.table.segment(slot);
        self.table.release(slot, SegmentState::Retired);
        self.unwritten.forget(slot);
        self.counters.segments_retired.add(1);
        let records = self.index.retain(|entry| entry.location.slot != slot);
        self.report(DropEvent {
            reason: Dropped::DeviceError,
            class: segment.class,
            hash: 0,
            records,
            bytes: segment.live_bytes,
            age_s: self.now().saturating_sub(segment.opened_at),
            tenant: 0,
            is_fetched: false,
        });
    }
}

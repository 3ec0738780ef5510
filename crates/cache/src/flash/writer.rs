//! The writer: the open segments with their buffers, and the writes queued for the device. `append` and
//! `large` put records into them.
//!
//! Invariants: the writes of a segment reach the device in the order in which they were queued. After a
//! failed write the segment is retired and its later writes are skipped.
//!
//! Locks are taken in this order and never the other way: an open segment, the one of journal writes,
//! keys, removals, then the journal, the index, the table of segments, a slot's tenants. Only those of
//! journal writes, of the writer and of the keeper are held during I/O.

use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::disk::Disk;
use super::format::{Class, Row};
use super::keyspace::Keyspace;
use super::observer::Dropped;
use super::open_segment::OpenSegment;
use super::reclaim_policy::ReclaimPolicy;
use super::segments::SegmentState;
use super::space::Space;
use super::unwritten::{Piece, Unwritten};
use super::write_queue::{Job, WriteQueue};
use crate::device::BufferPool;

/// The writer. See the module.
pub(super) struct Writer {
    pub disk: Arc<Disk>,
    pub space: Arc<Space>,
    pub keys: Arc<Keyspace>,
    pub policy: Arc<ReclaimPolicy>,
    open: [Mutex<Option<OpenSegment>>; Class::OF_RECORDS.len()],
    pub unwritten: Unwritten,
    /// Held during a queued write, so that writes stay in order whichever thread calls. Taken before all
    /// other locks.
    writing: Mutex<()>,
    pub queue: WriteQueue,
    pub write_pool: BufferPool,
}

impl Writer {
    /// A writer without open segments and queued writes.
    pub fn new(keys: Arc<Keyspace>, policy: Arc<ReclaimPolicy>) -> Self {
        let (disk, space) = (Arc::clone(&keys.disk), Arc::clone(&keys.space));
        let bytes = disk.options.write_buffer_bytes;
        Self {
            disk,
            space,
            keys,
            policy,
            open: std::array::from_fn(|_| Mutex::new(None)),
            unwritten: Unwritten::default(),
            writing: Mutex::default(),
            queue: WriteQueue::default(),
            write_pool: BufferPool::new(bytes, bytes),
        }
    }

    pub fn lock_open(&self, class: Class) -> MutexGuard<'_, Option<OpenSegment>> {
        self.open[class as usize].lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn queue_pieces(&self, pieces: Vec<Piece>) {
        for piece in pieces {
            let piece = Arc::new(piece);
            self.unwritten.add(Arc::clone(&piece));
            self.queue.add(Job::Piece(piece));
        }
    }

    /// Queues the buffer of each class that was begun at least `write_delay` ago, or every buffer
    /// `in_any_case`.
    pub fn flush_buffers(&self, in_any_case: bool) {
        let now = self.disk.env.monotonic();
        for class in Class::OF_RECORDS {
            let mut guard = self.lock_open(class);
            let Some(open) = guard.as_mut().filter(|open| open.buffer.is_some()) else { continue };
            if in_any_case || now.saturating_sub(open.filled_since) >= self.disk.options.write_delay {
                let piece = open.take_piece();
                self.queue_pieces(piece.into_iter().collect());
            }
        }
    }

    /// Seals the open segments of all classes.
    pub fn seal_all(&self) {
        for class in Class::OF_RECORDS {
            let open = self.lock_open(class).take();
            self.seal(open);
        }
    }

    /// Ends a segment: queues the rest of its buffer and its footer.
    pub fn seal(&self, open: Option<OpenSegment>) {
        let Some(mut open) = open else { return };
        let piece = open.take_piece();
        self.queue_pieces(piece.into_iter().collect());
        let trailer = open.trailer();
        self.space.table.update(open.slot, open.id, |segment| {
            segment.state = SegmentState::Sealing;
            segment.placed_at = self.policy.tail_age.time();
            segment.latest_expiry = trailer.latest_expiry;
            segment.record_bytes = trailer.record_bytes;
        });
        let bytes = trailer.encode(&open.rows);
        self.queue.add(Job::Seal { slot: open.slot, id: open.id, bytes });
        self.policy.count_sealed(
            open.class,
            trailer.record_bytes,
            self.disk.counters.bytes_written.get(),
            self.disk.layout.segment_bytes,
        );
    }

    /// Bytes of records in buffers, full or not, that are not on the device yet.
    pub fn unwritten_bytes(&self) -> u64 {
        let open = |class: Class| self.lock_open(class).as_ref().map_or(0, OpenSegment::buffered_bytes);
        // Full buffers are added last: a buffer that fills meanwhile is counted twice instead of not at all.
        Class::OF_RECORDS.into_iter().map(open).sum::<u64>() + self.unwritten.bytes()
    }

    /// A copy of a record that is not on the device yet; `None` if it is.
    pub fn read_unwritten(&self, slot: u32, start: u64, end: u64) -> Option<Vec<u8>> {
        let segment = self.space.table.segment(slot);
        let guard = self.lock_open(segment.class);
        let mut bytes = Vec::new();
        let found = self.unwritten.read(slot, start, end, &mut bytes);
        let at = start + bytes.len() as u64;
        let open = guard.as_ref().filter(|open| open.slot == slot && at < end);
        if let Some((open, buffer)) = open.and_then(|open| Some((open, open.buffer.as_ref()?)))
            && at >= open.buffer_start
        {
            let used = &buffer.as_ref()[..(open.tail - open.buffer_start) as usize];
            let upto = ((end - open.buffer_start) as usize).min(used.len());
            bytes.extend_from_slice(used.get((at - open.buffer_start) as usize..upto).unwrap_or_default());
        }
        (found || !bytes.is_empty()).then_some(bytes)
    }

    pub fn rows_of_open(&self, slot: u32, id: u64) -> Vec<Row> {
        let of = |class| self.lock_open(class).as_ref().and_then(|open| open.rows_of(slot, id));
        Class::OF_RECORDS.into_iter().find_map(of).unwrap_or_default()
    }

    /// Handles a failed write to a segment: drops its records, and does not use its slot again before a
    /// test write to it succeeds.
    pub fn retire(&self, slot: u32, id: u64) {
        for class in Class::OF_RECORDS {
            let mut open = self.lock_open(class);
            if open.as_ref().is_some_and(|open| open.slot == slot && open.id == id) {
                *open = None;
            }
        }
        if self.space.table.id(slot) != id {
            return;
        }
        let segment = self.space.table.segment(slot);
        self.keys.earlier.lose();
        self.space.release(slot, SegmentState::Retired);
        // Images that begin from here on do not name the segment. Earlier ones are invalidated.
        self.keys.mark_incomplete();
        self.unwritten.forget(slot);
        self.disk.counters.segments_retired.add(1);
        self.keys.drop_segment(Dropped::DeviceError, &segment);
        self.space.retired.add(slot, self.disk.env.monotonic());
    }

    /// Executes one queued write, for which it waits at most `patience`. Returns whether there was one.
    pub fn write_next(&self, patience: Duration) -> bool {
        let _in_order = self.writing.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(job) = self.queue.take(patience) else { return false };
        let (slot, id) = match &job {
            Job::Head { slot, id, .. } | Job::Seal { slot, id, .. } => (*slot, *id),
            Job::Piece(piece) => (piece.slot, piece.id),
        };
        // The slot has another id if the segment was retired or voided by a flush.
        if self.space.table.id(slot) == id
            && let Err(error) = self.carry_out(job)
        {
            self.disk.write_failed("records", &error);
            self.retire(slot, id);
        }
        true
    }

    fn carry_out(&self, job: Job) -> io::Result<()> {
        let start = |slot| self.disk.layout.slot_start(slot);
        match job {
            Job::Head { slot, bytes, .. } => self.disk.write(start(slot), &bytes),
            Job::Piece(piece) => {
                self.disk.write(start(piece.slot) + piece.start, &piece.buffer.as_ref()[..piece.bytes])?;
                if self.space.table.id(piece.slot) == piece.id {
                    self.space.table.set_written_to(piece.slot, piece.end());
                    self.unwritten.written(piece.slot, piece.end());
                }
                Ok(())
            }
            Job::Seal { slot, id, bytes } => {
                self.disk.write(start(slot) + self.disk.layout.segment_bytes - bytes.len() as u64, &bytes)?;
                self.disk.sync()?;
                self.space.table.set_written_to(slot, self.disk.layout.segment_bytes);
                self.space.table.update(slot, id, |segment| segment.state = SegmentState::Sealed);
                self.space.retired.is_sound(slot);
                Ok(())
            }
        }
    }
}

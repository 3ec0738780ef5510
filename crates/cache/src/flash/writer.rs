//! The writer: one queue of writes, carried out in order by one thread.
//!
//! Invariants: writes of a segment reach the device in the order in which they were queued; the
//! queue's memory is that of the write buffers, which are bounded; a segment whose write fails is
//! retired and its later writes are skipped.

use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::Duration;

use super::core::Core;
use super::segments::SegmentState;
use super::unwritten::Piece;

/// One write.
pub(super) enum Job {
    /// The superblock of a new segment.
    Head { slot: u32, id: u64, bytes: Vec<u8> },
    /// A full buffer.
    Piece(Arc<Piece>),
    /// Footer and trailer.
    Seal { slot: u32, id: u64, bytes: Vec<u8> },
}

#[derive(Default)]
pub(super) struct WriteQueue {
    jobs: Mutex<VecDeque<Job>>,
    arrived: Condvar,
}

impl WriteQueue {
    pub fn add(&self, job: Job) {
        let mut jobs = self.lock();
        jobs.push_back(job);
        if jobs.len() == 1 {
            self.arrived.notify_one();
        }
    }

    /// The next job; waits for one, at most for `patience`.
    pub fn take(&self, patience: Duration) -> Option<Job> {
        let mut jobs = self.lock();
        if jobs.is_empty() && patience > Duration::ZERO {
            let waited = self.arrived.wait_timeout(jobs, patience);
            jobs = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        jobs.pop_front()
    }

    /// Lets the writer look up.
    pub fn wake(&self) {
        self.arrived.notify_all();
    }

    pub fn len(&self) -> usize {
        self.lock().len()
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<Job>> {
        self.jobs.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Core {
    /// Carries out one queued write. Whether there was one, and nobody else is at it.
    pub fn write_next(&self, patience: Duration) -> bool {
        let _in_order = match self.writing.try_lock() {
            Ok(guard) => guard,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) if patience == Duration::ZERO => return false,
            Err(TryLockError::WouldBlock) => self.writing.lock().unwrap_or_else(PoisonError::into_inner),
        };
        let Some(job) = self.queue.take(patience) else { return false };
        let (slot, id) = match &job {
            Job::Head { slot, id, .. } | Job::Seal { slot, id, .. } => (*slot, *id),
            Job::Piece(piece) => (piece.slot, piece.id),
        };
        // A retired segment has another id by now, and so has one that was flushed away.
        if self.table.id(slot) == id
            && let Err(error) = self.carry_out(job)
        {
            self.write_failed("records", &error);
            self.retire(slot, id);
        }
        true
    }

    fn carry_out(&self, job: Job) -> io::Result<()> {
        let start = |slot| self.layout.slot_start(slot);
        match job {
            Job::Head { slot, bytes, .. } => self.write(start(slot), &bytes),
            Job::Piece(piece) => {
                self.write(start(piece.slot) + piece.start, &piece.buffer.as_ref()[..piece.bytes])?;
                if self.table.id(piece.slot) == piece.id {
                    self.table.set_written_to(piece.slot, piece.end());
                    self.unwritten.written(piece.slot, piece.end());
                }
                Ok(())
            }
            Job::Seal { slot, id, bytes } => {
                self.write(start(slot) + self.layout.segment_bytes - bytes.len() as u64, &bytes)?;
                self.sync()?;
                self.table.set_written_to(slot, self.layout.segment_bytes);
                self.table.update(slot, id, |segment| segment.state = SegmentState::Sealed);
                self.retired.is_sound(slot);
                Ok(())
            }
        }
    }
}

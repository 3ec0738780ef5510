//! The write queue: writes that one thread executes in order.
//!
//! Invariants: jobs are taken in the order in which they were queued. The queue's memory is that of the
//! write buffers, which are bounded.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::unwritten::Piece;

/// A queued write.
pub(super) enum Job {
    /// The superblock of a new segment.
    Head { slot: u32, id: u64, bytes: Vec<u8> },
    /// A full buffer.
    Piece(Arc<Piece>),
    /// The footer and trailer of a segment.
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

    /// The next job, for which it waits at most `patience`.
    pub fn take(&self, patience: Duration) -> Option<Job> {
        let mut jobs = self.lock();
        if jobs.is_empty() && patience > Duration::ZERO {
            let waited = self.arrived.wait_timeout(jobs, patience);
            jobs = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        jobs.pop_front()
    }

    /// Wakes a thread that waits for a job.
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

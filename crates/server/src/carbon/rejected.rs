//! What was left out lately, for people.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::{Mutex, PoisonError};

use sandur_ingest::RejectedMessage;

/// Messages that are kept.
const KEPT_MAX: usize = 100;

/// A message that was left out.
#[derive(Clone, Debug)]
pub struct RejectedOf {
    /// When, in nanoseconds since the epoch.
    pub at_ns: i64,
    /// By which protocol it came.
    pub protocol: &'static str,
    /// Who sent it.
    pub peer: Option<SocketAddr>,
    /// Why, and what it was.
    pub message: RejectedMessage,
}

/// The last messages that were left out. **Invariant:** a bounded number of bounded length.
#[derive(Default)]
pub struct RecentlyRejected(Mutex<VecDeque<RejectedOf>>);

impl RecentlyRejected {
    /// Keeps a message, and forgets the oldest one if need be.
    pub fn add(&self, rejected: RejectedOf) {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.len() >= KEPT_MAX {
            kept.pop_front();
        }
        kept.push_back(rejected);
    }

    /// All that are kept, the newest first.
    pub fn all(&self) -> Vec<RejectedOf> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).iter().rev().cloned().collect()
    }
}

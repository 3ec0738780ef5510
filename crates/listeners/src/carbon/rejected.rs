//! Recently rejected messages, shown to users.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::{Mutex, PoisonError};

use sandur_ingest::RejectedMessage;
use sandur_model::TenantId;

/// Maximum number of messages.
const KEPT_MAX: usize = 100;

/// A rejected message.
#[derive(Clone, Debug)]
pub struct RejectedOf {
    /// When, in nanoseconds since the epoch.
    pub at_ns: i64,
    /// The protocol.
    pub protocol: &'static str,
    /// The tenant, if it is known: a message that cannot be read has none.
    pub tenant: Option<TenantId>,
    /// The sender.
    pub peer: Option<SocketAddr>,
    /// The reason, and the message.
    pub message: RejectedMessage,
}

/// The most recently rejected messages. **Invariant:** their number and lengths are limited.
#[derive(Default)]
pub struct RecentlyRejected(Mutex<VecDeque<RejectedOf>>);

impl RecentlyRejected {
    /// Adds a message; drops the oldest one if there are too many.
    pub fn add(&self, rejected: RejectedOf) {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.len() >= KEPT_MAX {
            kept.pop_front();
        }
        kept.push_back(rejected);
    }

    /// All messages, the newest first.
    pub fn all(&self) -> Vec<RejectedOf> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).iter().rev().cloned().collect()
    }
}

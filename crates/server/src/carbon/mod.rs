//! Carbon's listeners: points of Graphite's senders, by protocols that know no answer.
//!
//! **Life of a connection.** [`bind`] takes the addresses before the store is opened, [`start()`] accepts
//! when the server is ready. A connection (`connection`) collects bytes, compressed ones are opened on the
//! way (`unpacked`), cuts whole messages off, and hands them to `intake`, which decodes and stores them and
//! returns when they are durable. Datagrams do the same (`datagrams`).
//!
//! **Invariants.** Of one connection at most `carbon.window` bytes are not durable: while there are as many
//! it is not read, so that its sender waits. Blocks of a connection are stored in the order in which they
//! came, one after the other. A connection that does nothing holds no buffer; one that announces a message
//! and never sends it, or never ends a line, holds at most a message and is ended by
//! `carbon.message_timeout`. What a connection holds is claimed before it is used, within shares that leave
//! room to decode it. Every point that is left out is counted by its reason.

mod buffer;
mod connection;
mod datagrams;
mod intake;
mod listen;
mod metrics;
mod rejected;
mod start;
mod tenancy;
mod unpacked;
mod window;

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::sync::Semaphore;

pub use intake::body;
pub use listen::{Bound, bind};
pub use metrics::CarbonMetrics;
pub use rejected::RecentlyRejected;
pub use start::start;

/// What all listeners of carbon's share.
#[derive(Default)]
pub struct CarbonState {
    /// Turns of large blocks that are decoded.
    decoding: OnceLock<Semaphore>,
    /// The minute after the last one in which a connection that was ended was logged.
    logged: AtomicU64,
    /// Counters.
    pub metrics: CarbonMetrics,
    /// What was left out lately.
    pub rejected: RecentlyRejected,
}

impl CarbonState {
    /// Whether nobody asked in this minute.
    fn is_new_minute(&self, now: Duration) -> bool {
        let minute = now.as_secs() / 60 + 1;
        self.logged.swap(minute, Ordering::Relaxed) != minute
    }
}

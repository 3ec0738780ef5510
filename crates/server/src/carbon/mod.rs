//! Carbon's listeners: points from Graphite senders, with protocols that have no responses.
//!
//! **Life of a connection.** [`bind`] binds the addresses before the store is opened, and [`start()`]
//! accepts connections when the server is ready. A connection (`connection`) collects bytes, decompressed
//! if necessary (`unpacked`), splits off complete messages, and passes them to `intake`, which decodes
//! and stores them and returns when they are durable. Datagrams are handled in the same way
//! (`datagrams`).
//!
//! **Invariants.** At most `carbon.window` bytes of one connection are not yet durable: at this limit it
//! is not read, so that its sender waits. Blocks of a connection are stored one after the other, in the
//! order of arrival. An idle connection has no buffer; one that announces a message and never sends it,
//! or never ends a line, uses at most the memory of one message and is closed after
//! `carbon.message_timeout`. Memory of a connection is claimed before it is used, within shares that
//! leave room for decoding. Every rejected point is counted by reason.

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

/// State shared by all listeners of Carbon.
#[derive(Default)]
pub struct CarbonState {
    /// Slots for decoding large blocks.
    decoding: OnceLock<Semaphore>,
    /// The minute after the last one in which a closed connection was logged.
    logged: AtomicU64,
    /// Counters.
    pub metrics: CarbonMetrics,
    /// Recently rejected messages.
    pub rejected: RecentlyRejected,
}

impl CarbonState {
    /// Whether this is the first call in this minute.
    fn is_new_minute(&self, now: Duration) -> bool {
        let minute = now.as_secs() / 60 + 1;
        self.logged.swap(minute, Ordering::Relaxed) != minute
    }
}

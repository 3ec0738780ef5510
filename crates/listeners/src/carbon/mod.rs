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
//! `carbon.message_timeout`. Memory of a connection is reserved before it is used, within shares that
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

use std::ops::Deref;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use sandur_runtime::{Env, ShutdownSignal};
use sandur_service::Writes;
use tokio::sync::Semaphore;

pub use intake::store_body;
pub use listen::{Bound, bind, check};
pub use metrics::CarbonMetrics;
pub use rejected::RecentlyRejected;
pub use start::start;

/// What the listeners of Carbon are made of.
pub struct CarbonParts {
    /// Clock and tasks.
    pub env: Env,
    /// Options of the listeners.
    pub options: sandur_config::Carbon,
    /// The longest time in which connections end when the server stops.
    pub drain_timeout: Duration,
    /// Where points are stored.
    pub writes: Writes,
    /// Triggered when the server stops.
    pub stopping: ShutdownSignal,
}

/// The state that all listeners of Carbon share. Cheap to clone: a handle.
#[derive(Clone)]
pub struct Carbon(Arc<CarbonState>);

/// See [`Carbon`].
pub struct CarbonState {
    env: Env,
    options: sandur_config::Carbon,
    drain_timeout: Duration,
    writes: Writes,
    stopping: ShutdownSignal,
    /// Turns for decoding large blocks.
    decoding: OnceLock<Semaphore>,
    /// The minute after the last one in which the end of a connection was logged.
    logged: AtomicU64,
    /// Counters.
    pub metrics: CarbonMetrics,
    /// Points that were rejected recently.
    pub rejected: RecentlyRejected,
}

impl Carbon {
    /// The state of listeners of these parts.
    pub fn new(parts: CarbonParts) -> Self {
        let CarbonParts { env, options, drain_timeout, writes, stopping } = parts;
        Self(Arc::new(CarbonState {
            env,
            options,
            drain_timeout,
            writes,
            stopping,
            decoding: OnceLock::new(),
            logged: AtomicU64::new(0),
            metrics: CarbonMetrics::default(),
            rejected: RecentlyRejected::default(),
        }))
    }

    /// Whether this is the first call within the current minute.
    fn is_new_minute(&self, now: Duration) -> bool {
        let minute = now.as_secs() / 60 + 1;
        self.logged.swap(minute, Ordering::Relaxed) != minute
    }
}

impl Deref for Carbon {
    type Target = CarbonState;

    fn deref(&self) -> &CarbonState {
        &self.0
    }
}

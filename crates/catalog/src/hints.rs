//! What other processes say directly, outside the bucket. Only ever a hint when to look into the bucket.
//!
//! A hint may be late, missing or a lie. It makes this process read earlier or later than it would, within
//! bounds that hold without hints too. What is read decides.

use std::fmt;
use std::net::SocketAddr;
use std::time::Duration;

use sandur_base::Id;
use tokio::sync::watch;

/// The connection to other processes.
pub trait Hints: Send + Sync + fmt::Debug {
    /// The address at which this process gets hints. Heartbeats contain it, so that others find it.
    fn address(&self) -> Option<SocketAddr>;

    /// Takes the addresses that the heartbeats of others contain.
    fn note_addresses(&self, addresses: Vec<SocketAddr>);

    /// For how long the process of a writer has given no sign of life; `None` if it is alive or unknown.
    fn gone_for(&self, writer: Id) -> Option<Duration>;

    /// The number of the next WAL segment of a writer, as it announced; `None` unless it is alive.
    fn next_segment(&self, writer: Id) -> Option<u64>;

    /// The newest number of the catalog's log that a live process announced.
    fn catalog(&self) -> u64;

    /// Changes when others announce something, at most ten times a second.
    fn news(&self) -> watch::Receiver<u64>;

    /// Announces the newest number of the catalog's log that this process has read.
    fn announce_catalog(&self, number: u64);

    /// Announces the incarnation of this process and the number of its next WAL segment.
    fn announce_segment(&self, writer: Id, next: u64);
}

//! The cache: one engine over RAM and flash, and a memcached server over it.
//!
//! **What it is.** A library that keeps values by key in memory and in log-structured segments on
//! flash, survives restarts, and says what it dropped and why.
//!
//! **What it is not.** It is no store of record: everything in it can be had again elsewhere. It
//! knows no blocks, tenants' limits or query languages.
//!
//! **Life of a call.** A read asks the RAM tier, then the index of the flash tier, and at most one
//! place on the device.
//!
//! **Parts.** [`policy`] decides what stays in RAM, what may be written to flash and what is written
//! again; it counts what had to go. [`flash`] keeps records in segments on a [`device`] and finds
//! them again after a restart.
//!
//! **Invariants.** Never a wrong byte: what a checksum or the key does not confirm is a miss.
//! Nothing is unbounded, and every drop is counted with its reason.

mod cache;
pub mod device;
mod error;
mod fetch;
pub mod flash;
mod flash_tier;
mod hint;
mod inner;
mod item;
mod latency;
mod listener;
mod metrics;
mod options;
pub mod policy;
mod ram;
mod request;
mod single_flight;
mod stats;

pub use cache::{Cache, LONGEST_KEY};
pub use error::Error;
pub use fetch::Fetched;
pub use hint::Hint;
pub use item::{Item, ItemMeta, Tier, Value};
pub use latency::Latencies;
pub use listener::{Leaving, Left, Listener};
pub use options::{CacheOptions, LEAST_MEMORY};
pub use ram::Reserved;
pub use request::{
    Answer, Applied, Change, Condition, Lookup, Pending, Put, Read, Revision, Stored, Updated,
};
pub use stats::{CacheStats, FlashTierStats, RamCounts};

//! The cache engine: one cache over RAM and flash.
//!
//! **What it is.** A library that keeps values by key in memory and in log-structured segments on
//! flash, survives restarts, and says what it dropped and why.
//!
//! **What it is not.** It is not a store of record: everything in it can be had again elsewhere. It
//! knows no blocks, tenants' limits or query languages, and no protocol: the memcached server is the
//! crate `memcached`, the simulator over traces is `cache-sim`.
//!
//! **Life of a call.** [`Cache::get`] hashes the key and locks the shard of its hash. What is in
//! memory is answered at once by sharing it. Else the index of flash is asked under the same lock, and
//! one read is submitted to the device; the caller gets a future. [`Cache::put`] reserves memory,
//! which makes other items leave it for flash, and stores the value; new data goes to flash at once.
//! [`Cache::update`] is a read-modify-write as one step, [`Cache::get_or_fetch_many`] reads through
//! with one fetch for all who miss the same key.
//!
//! **Parts.** `cache` is the public face; `inner` is both tiers as one, and the reason why no stale
//! value is ever served. `ram` is the memory tier. `flash_tier` puts [`flash`] behind it: what is
//! offered to it passes admission, and waits in the `write_back` queue while write buffers are full.
//! [`policy`] decides what is evicted from RAM, what is admitted to flash and what is written again,
//! and counts evictions. [`flash`] keeps records in segments on a [`device`] and recovers them after a
//! restart. A single flight lets one of many callers who miss a key fetch it, `item_count` counts the
//! items of both tiers, `memory_file` keeps memory over a stop. [`predict`] says what other sizes would
//! do while the cache runs, fed by `forecast`, with the [`model`] of the cache that the simulator uses
//! too.
//!
//! **Invariants.** Never a wrong byte: what a checksum or the key does not confirm is a miss.
//! Nothing is unbounded, and every drop is counted with its reason.
//!
//! A cache in memory; with [`CacheOptions::flash`] the answers can also be [`Answer::Pending`]:
//!
//! ```
//! use bytes::Bytes;
//! use sandur_base::Env;
//! use sandur_cache::{Cache, Lookup, Put, Read};
//!
//! let cache = Cache::in_memory(&Env::system(1), 64 << 20);
//! cache.put(b"key", Bytes::from_static(b"value"), &Put::default());
//! let Lookup::Hit(item) = cache.get(b"key", &Read::default()) else { panic!("it was just put") };
//! assert_eq!(&item.value[..], b"value");
//! assert!(cache.remove(b"key"));
//! ```

mod cache;
mod demote;
pub mod device;
mod error;
mod fetch;
pub mod flash;
mod flash_tier;
mod flights;
mod forecast;
mod hint;
mod inner;
mod item;
mod item_count;
mod latency;
mod listener;
mod memory_file;
mod metrics;
pub mod model;
mod options;
pub mod policy;
pub mod predict;
mod prefetch;
mod promotion;
mod ram;
mod request;
pub mod splitmix;
mod stats;
mod stop;
mod unix_seconds;
mod write_back;

pub use cache::Cache;
pub use error::Error;
pub use fetch::Fetched;
pub use hint::Hint;
pub use item::{Item, ItemMeta, Tier, Value};
pub use latency::Latencies;
pub use listener::{RemovalListener, RemovalReason, RemovedItem};
pub use memory_file::{MemoryFileError, Notes, Refusal, Restored, RestoredItems, Saved};
pub use options::{CacheOptions, LEAST_MEMORY, LONGEST_KEY};
pub use promotion::{Demotion, Promotion};
pub use ram::Reserved;
pub use request::{
    Answer, Applied, Change, Condition, Lookup, Pending, Put, Read, Revision, Stored, Updated,
};
pub use stats::{CacheStats, FlashTierStats, RamCounts};
pub use unix_seconds::unix_seconds;
pub use write_back::Backpressure;

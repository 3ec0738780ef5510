//! The cache engine: one cache over RAM and flash.
//!
//! **What it is.** A library that keeps values by key in memory and in log-structured segments on flash,
//! survives restarts, and counts every item that it drops with the reason.
//!
//! **What it is not.** It is not a store of record: the caller can get every value again from its
//! origin. It does not know blocks, tenants' limits, query languages or protocols: the memcached server
//! is the crate `memcached`, and the simulator over traces is `cache-sim`.
//!
//! **Life of a call.** [`Cache::get`] hashes the key and locks the shard of its hash. A value in memory
//! is returned at once, shared and not copied. Otherwise the call looks the key up in the index of flash
//! under the same lock, submits one read to the device and returns a future. [`Cache::put`] reserves
//! memory, for which it evicts other items to flash, and stores the value; new data is also written to
//! flash at once. [`Cache::update`] is an atomic read-modify-write. [`Cache::get_or_fetch_many`] reads
//! through the cache, with one fetch for all callers that miss the same key.
//!
//! **Parts.** `cache` is the public interface. `inner` joins the two tiers and ensures that no stale
//! value is ever served. `ram` is the memory tier. `flash_tier` connects it with [`flash`]: a value
//! offered to flash passes admission, and waits in the `write_back` queue while all write buffers are
//! full. [`policy`] decides which items are evicted from memory, admitted to flash and written again
//! there, and counts evictions. [`flash`] keeps records in segments on a [`device`] and recovers them
//! after a restart. `flights` lets one of many callers that miss a key fetch it. `item_count` counts the
//! items of both tiers. `memory_file` saves the memory tier at a clean stop. [`predict`] estimates,
//! while the cache runs, the hit ratios at other sizes; `forecast` feeds it, and it uses the [`model`]
//! of the cache that the simulator uses too.
//!
//! **Invariants.** The cache never returns a wrong byte: data that its checksum or key does not confirm
//! is a miss. Everything is bounded, and every drop is counted with its reason.
//!
//! A cache in memory. With [`CacheOptions::flash`] an answer can also be [`Answer::Pending`]:
//!
//! ```
//! use bytes::Bytes;
//! use sandur_runtime::Env;
//! use sandur_cache::{Cache, Lookup, Put, Read};
//!
//! let cache = Cache::in_memory(&Env::system(1), 64 << 20);
//! cache.put(b"key", Bytes::from_static(b"value"), &Put::default());
//! let Lookup::Hit(item) = cache.get(b"key", &Read::default()) else { panic!("the value was put above") };
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
pub use request::{
    Answer, Applied, Change, Condition, Lookup, Pending, Put, Read, Revision, Stored, Updated,
};
pub use stats::{CacheStats, FlashTierStats, RamCounts};
pub use unix_seconds::unix_seconds;
pub use write_back::Backpressure;

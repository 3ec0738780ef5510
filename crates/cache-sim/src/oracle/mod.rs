//! Known policies in simple implementations, for comparison with ours at equal bytes and requests.
//!
//! Every read that misses is followed by an insertion, as in a cache in front of a store; every write is
//! inserted. None of them uses hints, tenants or flash.

mod entries;
mod farthest;
mod lru;
mod lru_fifo;
mod s3fifo;
mod sketch;
mod w_tiny_lfu;

pub use farthest::farthest_next_use;
pub use lru::Lru;
pub use lru_fifo::LruFifo;
pub use s3fifo::PaperS3Fifo;
pub use w_tiny_lfu::WTinyLfu;

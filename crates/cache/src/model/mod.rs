//! A model of the cache that keeps sizes and no bytes, with the very code of [`crate::policy`].
//!
//! [`TwoTier`] is RAM in front of flash. The live prediction runs small copies of it, the simulator
//! (crate `cache-sim`) runs it over traces beside other policies, which it knows as [`Policy`].
//!
//! **Invariants.** No clock and no ambient randomness: the same requests and options give the same
//! figures.

mod drops;
mod flash_model;
mod request;
mod two_tier;

pub use drops::Drops;
pub use request::{Kind, Request};
pub use two_tier::{Found, TierOptions, TwoTier};

/// A cache under simulation.
pub trait Policy {
    /// Its name in tables.
    fn name(&self) -> &'static str;
    /// Whether a read finds its value.
    fn read(&mut self, request: &Request) -> bool;
    /// A write, or what a read that missed brought from the store.
    fn put(&mut self, request: &Request);
    /// What was pushed out so far.
    fn drops(&self) -> Drops;
    /// Bytes written into the cache so far.
    fn written_bytes(&self) -> u64;
    /// Those of them that were in the cache already, and were written again to stay.
    fn rewritten_bytes(&self) -> u64 {
        0
    }
}

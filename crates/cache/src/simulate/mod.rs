//! The policy simulator: what would a cache of that size have done with these requests?
//!
//! Requests come from a recorded [`trace`] or from the [`generate`]d life of an observability store.
//! [`run`] leads them through any number of policies: [`TwoTier`], which is our cache with the very code
//! of [`crate::policy`], and the [`oracle`]s that others use. [`story`] is the published case of a chunk
//! cache that grew from 1.2 TB of memory to 50 TB of flash, a thousand times smaller.
//!
//! **Invariants.** No clock and no ambient randomness: the same requests and options give the same
//! figures. Sizes only: no bytes are kept.

pub(crate) mod draws;
mod drops;
mod flash_model;
pub mod generate;
pub mod oracle;
mod request;
mod run;
pub mod story;
pub mod trace;
mod two_tier;

pub use drops::Drops;
pub use request::{Kind, Request};
pub use run::{Hour, Measured, run};
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

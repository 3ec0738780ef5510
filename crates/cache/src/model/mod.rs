//! A model of the cache that keeps sizes and no bytes, with the very code of [`crate::policy`].
//!
//! [`TwoTier`] is RAM in front of flash. The live prediction runs small copies of it, the simulator
//! (crate `cache-sim`) runs it over traces beside other policies, which it knows as [`Policy`].
//!
//! **Invariants.** No clock and no ambient randomness: the same requests and options give the same
//! figures.

mod drops;
mod flash_model;
mod policy;
mod request;
mod two_tier;

pub use drops::Drops;
pub use policy::Policy;
pub use request::{Kind, Request};
pub use two_tier::{Found, TierOptions, TwoTier};

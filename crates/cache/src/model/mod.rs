//! A model of the cache that stores only sizes and uses the code of [`crate::policy`].
//!
//! [`TwoTier`] is RAM in front of flash. The live prediction runs small copies of it. The simulator
//! (crate `cache-sim`) runs it over traces next to other policies, through the trait [`Policy`].
//!
//! **Invariants.** There is no clock and no ambient randomness: equal requests and options give equal
//! results.

mod drops;
mod flash_model;
mod policy;
mod request;
mod two_tier;

pub use drops::Drops;
pub use policy::Policy;
pub use request::{Kind, Request};
pub use two_tier::{Found, TierOptions, TwoTier};

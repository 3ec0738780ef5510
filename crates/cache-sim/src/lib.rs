//! The cache simulator: measures caches of other sizes and policies over given requests.
//!
//! **What it is.** Requests come from a recorded [`trace`] or are [`generate`]d for a model of an
//! observability store. [`run`] applies them to any number of policies and measures each: [`TwoTier`],
//! which is our cache with the code of [`sandur_cache::policy`], and the [`oracle`]s, which are known
//! policies of others. [`advise`] turns its results, or those of the live prediction, into sentences
//! with costs. [`story`] is a published case at a scale of 1:1000: a chunk cache that was moved from 1.2
//! TB of memory to 50 TB of flash.
//!
//! **What it is not.** It is not a cache: it stores sizes and no bytes. It is not the live prediction,
//! which is [`sandur_cache::predict`]; both share the model [`sandur_cache::model`]. It reads no clock
//! and no files: the caller opens the trace.
//!
//! **Life of a call.** [`run`] takes an iterator of [`Request`]s and a list of [`Policy`]s. For each
//! read it calls [`read`](Policy::read) of each policy, and after a miss [`put`](Policy::put) with the
//! value from the store. After the warm-up it counts reads, hits, bytes and evictions, in total and for
//! every hour, and returns one [`Measured`] per policy. [`advise::Situation`] takes these results as
//! forecasts and interpolates between capacities, and [`advise::sentences`] states the advice.
//!
//! **Invariants.** There is no clock and no ambient randomness: equal requests and options give equal
//! results.

pub mod advise;
mod draws;
pub mod generate;
pub mod oracle;
mod run;
pub mod story;
pub mod trace;

pub use run::{Hour, Measured, run};
pub use sandur_cache::model::{Drops, Found, Kind, Policy, Request, TierOptions, TwoTier};

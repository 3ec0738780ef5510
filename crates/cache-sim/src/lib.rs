//! The cache simulator: what would a cache of another size or policy have done with these requests?
//!
//! **What it is.** Requests come from a recorded [`trace`] or from the [`generate`]d life of an
//! observability store. [`run`] leads them through any number of policies and measures each:
//! [`TwoTier`], which is our cache with the very code of [`sandur_cache::policy`], and the [`oracle`]s
//! that others use. [`advise`] puts what it finds, or what the live prediction says, into sentences
//! with costs. [`story`] is the published case of a chunk cache that grew from 1.2 TB of memory to
//! 50 TB of flash, a thousand times smaller.
//!
//! **What it is not.** It is not a cache: it keeps sizes and no bytes. It is not the live prediction
//! either, which is [`sandur_cache::predict`]; both share the model [`sandur_cache::model`]. It reads
//! no clock and no files: the caller opens the trace.
//!
//! **Life of a call.** [`run`] takes an iterator of [`Request`]s and a list of [`Policy`]s. For each
//! request each policy is asked to [`read`](Policy::read); where it misses it is told to
//! [`put`](Policy::put) what the store would have brought. After the warm-up reads, hits, bytes and
//! drops are counted for the whole and for every hour, and come back as one [`Measured`] per policy.
//! [`advise::Situation`] takes these figures as forecasts, interpolates between capacities and
//! [`advise::sentences`] says what to do.
//!
//! **Invariants.** No clock and no ambient randomness: the same requests and options give the same
//! figures.

pub mod advise;
mod draws;
pub mod generate;
pub mod oracle;
mod run;
pub mod story;
pub mod trace;

pub use run::{Hour, Measured, run};
pub use sandur_cache::model::{Drops, Found, Kind, Policy, Request, TierOptions, TwoTier};

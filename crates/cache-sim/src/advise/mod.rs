//! From what other sizes would do, and what things cost, to what to do.
//!
//! The forecasts of [`sandur_cache::predict`] or a simulation give hit ratios at a few capacities;
//! between them is interpolated over the logarithm of the capacity, beyond them nothing is claimed.
//! Prices are the caller's; what they are is said with the advice.
//!
//! **Invariants.** Pure arithmetic: the same situation and prices give the same words. A sentence
//! claims nothing about a capacity outside of the forecasts.

mod prices;
mod situation;
mod words;

pub use prices::{Medium, Prices};
pub use situation::{MONTH_S, Offer, SAMPLED_READS_MIN, Situation};
pub use words::{count, money, percent, sentences, size};

//! Advice on the size of a cache, from the hit ratios at other sizes and from prices.
//!
//! The forecasts of [`sandur_cache::predict`] or a simulation give hit ratios at a few capacities.
//! Between them the ratio is interpolated over the logarithm of the capacity; outside of them no
//! statement is made. The caller sets the prices and states them with the advice.
//!
//! **Invariants.** Pure arithmetic: equal situations and prices give equal sentences. No sentence makes
//! a statement about a capacity outside of the forecasts.

mod prices;
mod situation;
mod words;

pub use prices::{Medium, Prices};
pub use situation::{MONTH_S, Offer, SAMPLED_READS_MIN, Situation};
pub use words::{count, money, percent, sentences, size};

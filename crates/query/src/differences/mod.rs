//! How the values of fields differ between the inside and the outside of a part of some rows: counts of
//! values ([`counts`]), and the fields ranked by the largest difference of shares ([`shares`]).
//!
//! Rows are lines or series; a language counts them into a [`Table`].

mod answer;
mod counts;
mod shares;

pub use answer::{Differences, FieldDifference, FieldOrigin, Sides, ValueShare};
pub use counts::Table;
pub use shares::ranked;

//! Tags of series: names that carry them, expressions that choose by them.

mod expression;
mod name;
mod set;

pub use expression::{Operator, TagExpression};
pub use name::{canonical_name, parse_name};
pub use set::Tags;

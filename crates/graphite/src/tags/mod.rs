//! Tags of series: names with tags, and expressions that select series by tags.

mod expression;
mod name;
mod set;

pub use expression::{Operator, TagExpression};
pub use name::{canonical_name, parse_name};
pub use set::Tags;

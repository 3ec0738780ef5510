//! Functions over the rows in a window, one file per family. The parser, the planner and the documentation
//! are made from the table [`FUNCTIONS`].
//!
//! A function defines what a time slot keeps ([`slots::Slot`]), and how the slots of a window become a
//! number.

mod average;
mod counter;
mod deviation;
mod extremes;
mod first_last;
mod function;
mod quantile;
pub mod slots;
mod total;

pub use function::{Argument, RangeFunction, RowValue, UnwrapUse};
pub use slots::{Setup, Window};

/// Every function, by family.
pub const FUNCTIONS: &[&[RangeFunction]] = &[
    total::TABLE,
    average::TABLE,
    extremes::TABLE,
    deviation::TABLE,
    quantile::TABLE,
    first_last::TABLE,
    counter::TABLE,
];

/// The function of this name.
pub fn find(name: &str) -> Option<&'static RangeFunction> {
    FUNCTIONS.iter().copied().flatten().find(|function| function.name == name)
}

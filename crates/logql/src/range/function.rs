//! An entry in the table of functions over windows.

use super::slots::{Accumulation, Setup};

/// Whether a function takes a number before its rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Argument {
    /// None.
    Nothing,
    /// `quantile_over_time(0.9, ..)`
    Number,
}

/// Whether a function allows `| unwrap`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnwrapUse {
    /// `unwrap` is an error.
    Forbidden,
    /// `unwrap` is optional.
    Optional,
    /// `unwrap` is required.
    Required,
}

/// The number that a row contributes if nothing is unwrapped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RowValue {
    /// One.
    One,
    /// The length of its line, in bytes.
    Bytes,
}

/// An entry in the table of functions.
pub struct RangeFunction {
    /// The name.
    pub name: &'static str,
    /// What it does, for the reference page.
    pub doc: &'static str,
    /// Whether it takes a numeric argument.
    pub argument: Argument,
    /// Whether it allows `unwrap`.
    pub unwrap: UnwrapUse,
    /// Whether it allows `by` and `without`.
    pub grouping: bool,
    /// The number that a row contributes if nothing is unwrapped.
    pub value: RowValue,
    /// Whether an outer `sum` may be merged into it: the sum over groups equals the value of the larger
    /// group.
    pub sums: bool,
    /// Whether Loki computes it by shards, and drops labels with empty values when it joins the shards.
    pub sharded: bool,
    /// Whether it has values where there are no rows, not where there are.
    pub absent: bool,
    /// Creates an accumulation.
    pub start: fn(Setup) -> Box<dyn Accumulation>,
}

impl std::fmt::Debug for RangeFunction {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name)
    }
}

/// A function of unwrapped values that allows `by` and `without`.
pub const fn unwrapped(
    name: &'static str,
    doc: &'static str,
    start: fn(Setup) -> Box<dyn Accumulation>,
) -> RangeFunction {
    RangeFunction {
        name,
        doc,
        argument: Argument::Nothing,
        unwrap: UnwrapUse::Required,
        grouping: true,
        value: RowValue::One,
        sums: false,
        sharded: false,
        absent: false,
        start,
    }
}

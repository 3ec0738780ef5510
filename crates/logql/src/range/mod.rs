//! Functions over the rows of a window: one file per family; [`FUNCTIONS`] is the table that the parser, the
//! planner and the documentation are made from.
//!
//! A function says what a slot of time keeps ([`slots::Slot`]) and how a window's slots become a number.

mod average;
mod counter;
mod deviation;
mod extremes;
mod first_last;
mod quantile;
pub mod slots;
mod total;

use crate::ast::RangeAggregation;
use crate::error::ParseError;
use slots::Accumulation;

/// Whether a function takes a number before its rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Argument {
    /// None.
    Nothing,
    /// `quantile_over_time(0.9, ..)`
    Number,
}

/// Whether a function takes `| unwrap`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnwrapUse {
    /// Never.
    Forbidden,
    /// May.
    Optional,
    /// Must.
    Required,
}

/// What a row counts when nothing is unwrapped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RowValue {
    /// One.
    One,
    /// The bytes of its line.
    Bytes,
}

/// What an accumulation needs to know.
#[derive(Clone, Copy, Debug)]
pub struct Setup {
    /// Number of slots of the query's windows.
    pub slots: usize,
    /// The function's number.
    pub parameter: f64,
}

/// A window, when its rows become a number.
#[derive(Clone, Copy, Debug)]
pub struct Window {
    /// Its last instant.
    pub end_ns: i64,
    /// Its length.
    pub range_ns: i64,
    /// The function's number.
    pub parameter: f64,
}

impl Window {
    /// Its length in seconds.
    pub fn range_seconds(&self) -> f64 {
        self.range_ns as f64 / 1e9
    }
}

/// One line of the table of functions.
pub struct RangeFunction {
    /// Its name.
    pub name: &'static str,
    /// What it does, for the documentation.
    pub doc: &'static str,
    /// Whether it takes a number.
    pub argument: Argument,
    /// Whether it takes `unwrap`.
    pub unwrap: UnwrapUse,
    /// Whether it takes `by` and `without`.
    pub grouping: bool,
    /// What a row counts when nothing is unwrapped.
    pub value: RowValue,
    /// Whether an outer `sum` may be computed with it: the sum over groups is the group of sums.
    pub sums: bool,
    /// Loki computes it shard by shard, and loses labels without a value where it joins the shards.
    pub sharded: bool,
    /// Answers where there are no rows, in place of where there are.
    pub absent: bool,
    /// Starts an accumulation.
    pub start: fn(Setup) -> Box<dyn Accumulation>,
}

impl std::fmt::Debug for RangeFunction {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name)
    }
}

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

/// Fails when the function is not used as it can be.
pub fn validate(aggregation: &RangeAggregation) -> Result<(), ParseError> {
    let function = aggregation.function;
    let name = function.name;
    // `rate` may be grouped only when it works on unwrapped values.
    if aggregation.grouping.is_some() && !function.grouping {
        return Err(ParseError::whole(format!("grouping not allowed for {name} aggregation")));
    }
    match (function.unwrap, &aggregation.unwrap) {
        (UnwrapUse::Forbidden, Some(_)) => {
            Err(ParseError::whole(format!("invalid aggregation {name} with unwrap")))
        }
        (UnwrapUse::Required, None) => {
            Err(ParseError::whole(format!("invalid aggregation {name} without unwrap")))
        }
        _ => Ok(()),
    }
}

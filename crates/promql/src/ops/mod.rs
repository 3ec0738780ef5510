//! Operators: the nodes of a plan.

pub mod aggregate;
pub mod binary;
pub mod chain;
pub mod computed;
pub mod count_values;
pub mod elements;
pub mod grouping;
pub mod histogram;
pub mod info;
pub mod points;
pub mod range_call;
pub mod rank;
pub mod relabel;
pub mod select;
pub mod sets;
pub mod simple;

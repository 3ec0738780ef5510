//! Goal: each operator and function returns the values that Prometheus's documentation defines.
//!
//! Method: tables of queries and answers over a few samples, with answers that can be computed by hand.
//! One file for each family of operators.

mod aggregations;
mod histograms;
mod labels;
mod matching;
mod staleness;
mod subqueries;
mod table;
mod times;
mod windows;

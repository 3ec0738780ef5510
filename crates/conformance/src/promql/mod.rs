//! Prometheus's own acceptance tests: scripts in the language of its `promqltest`, run as its harness does.
//!
//! A script loads series, evaluates queries, and says what comes out. Each instant query is run again with
//! `@` put into its selectors, at other times, and each of those once more as a range query whose middle step
//! must be the same. The scripts are data of another project and do not lie in this repository.

mod compare;
mod load;
mod rerun;
mod runner;
mod script;
mod series;
mod store;

pub use runner::{FileReport, expressions, run_file, scripts};

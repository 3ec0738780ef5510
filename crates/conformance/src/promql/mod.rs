//! Prometheus's own acceptance tests: scripts in the language of its `promqltest`, run as its harness does.
//!
//! A script loads series, evaluates queries, and says what comes out. Each instant query is run again with
//! `@` put into its selectors, at other times, and each of those once more as a range query whose middle step
//! must be the same. All of that happens over series in memory, in an engine's head, in flushed and in
//! compacted blocks. The scripts are data of another project and do not lie in this repository.

mod compare;
mod load;
mod place;
mod rerun;
mod runner;
mod script;
mod series;
mod store;

pub use runner::{FileReport, Passed, Runs, expressions, run_file, scripts};

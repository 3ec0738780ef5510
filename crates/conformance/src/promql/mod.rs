//! Runs Prometheus's own acceptance tests: scripts in the language of its `promqltest`, run as its
//! harness does.
//!
//! A script loads series, evaluates queries and gives the expected answers. Each instant query is run
//! again with `@` modifiers in its selectors at other evaluation times, and each of these runs is
//! repeated as a range query whose middle step must give the same answer. All of that is done for series
//! in memory, in the head of an engine, in flushed blocks and in compacted blocks. The scripts belong to
//! another project and are not part of this repository.

mod compare;
mod load;
mod place;
mod rerun;
mod runner;
mod script;
mod store;

pub use runner::{FileReport, Passed, Runs, expressions, run_file, scripts};

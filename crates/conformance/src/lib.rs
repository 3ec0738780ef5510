//! Conformance: what queries must answer, and what no input may do.
//!
//! **What it is.** A runner of scripts: rows to load, queries to run, answers to expect ([`script`], the
//! form of Loki's `.logqltest` files with log queries added). Each script runs in several worlds
//! ([`world`]): rows in memory, rows in the head of a real engine, rows in flushed blocks, rows in
//! compacted blocks. The answer must be the same in all of them. The crate also contains [`hostile`],
//! the fuzz targets: one function for each decoder, parser and codec that accepts any bytes and panics
//! when an invariant is violated. The fuzzer runs them, and a test runs them again on the inputs that
//! the fuzzer has found.
//!
//! **What it is not.** It is not part of the product. It contains no unit tests of other crates; those
//! are in the crates that they test.
//!
//! **Life of a run.** [`run::run_file`] reads a script, opens each world, and executes the script's
//! commands in it; [`answer::difference`] compares the answers; [`run::FileReport`] is the printed
//! result.
//!
//! **Invariants.** A script that cannot be read is an error; no line is skipped. An evaluation expects
//! exactly one kind of answer.

#[cfg(feature = "scripts")]
pub mod answer;
#[cfg(feature = "scripts")]
pub mod graphite;
pub mod hostile;
#[cfg(feature = "scripts")]
pub mod promql;
#[cfg(feature = "scripts")]
pub mod run;
#[cfg(feature = "scripts")]
pub mod script;
#[cfg(feature = "scripts")]
pub mod world;

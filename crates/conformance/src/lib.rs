//! Conformance: what queries must answer, and what no input may do.
//!
//! **What it is.** A runner of scripts: rows to load, queries to run, answers to expect ([`script`], the form
//! of Loki's `.logqltest` files with log queries added). Each script runs in several worlds ([`world`]): rows
//! in memory, rows in the head of a real engine, rows in flushed blocks, rows in compacted blocks. The answer
//! must be the same in all of them. Beside it [`hostile`]: one function per decoder, parser and codec that
//! takes any bytes and panics when an invariant breaks, for the fuzzer and for the replay of its findings.
//!
//! **What it is not.** No part of the product, and no unit tests: those stand beside the code.
//!
//! **Life of a run.** [`run::run_file`] reads a script, opens each world, and hands it the script's commands;
//! [`answer::difference`] compares what comes back; [`run::FileReport`] is what people read.
//!
//! **Invariants.** A script that cannot be read is an error, never a skipped line. An evaluation asserts
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

//! Recorded answers: what Prometheus, Loki and graphite-web answered to generated queries over generated
//! data, as files of this repository.
//!
//! `cargo xtask record LANGUAGE` asks the original and writes a file; a test of each language asks the
//! engine in this process the same and compares the answers, without the original and without a server.
//! [`file`] is the form of the files, [`points`] the form of samples in them. [`choice`] decides which
//! cases are recorded. [`promql`], [`logql`] and [`graphite`] ask, record and check.
//!
//! **Invariants.** Generators, comparisons and rules are those of the differential tests. A recording
//! contains a case only if the original answered twice the same, and if no difference and therefore no
//! rule applied when it was recorded. It contains queries, numbers, times and labels, but no text of the
//! originals: of an error only that there was one, of annotations only their number. The data are
//! generated from the seed in the file; their digest in the file detects a changed generator.

pub mod choice;
pub mod command;
mod draw;
pub mod file;
pub mod graphite;
pub mod logql;
pub mod points;
pub mod promql;

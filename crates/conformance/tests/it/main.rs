//! Runs the test corpora and the stored fuzzer inputs.
//!
//! All tests are in one binary, because each further binary would be linked with all dependencies again.

mod fields;
mod graphite;
mod logql;
mod nesting;
mod promql;
mod replay;

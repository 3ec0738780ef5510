//! The corpora and the inputs that once broke something.
//!
//! One binary: each more would be linked with everything once more.

mod graphite;
mod logql;
mod nesting;
mod promql;
mod replay;

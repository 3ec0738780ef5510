//! Tests of the reader with blocks that the code of Prometheus wrote.

#![allow(clippy::unwrap_used)] // a test: a panic is how it fails

mod fixtures;
mod hostile;

//! Tests of the language through its public interface.
//!
//! All are in one binary, because each further one would link all dependencies again.

#![allow(clippy::unwrap_used)] // tests may panic

mod chains;
mod engine;
mod in_flight;
mod roundtrip;

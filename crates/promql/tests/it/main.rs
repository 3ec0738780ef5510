//! The language from the outside.
//!
//! One binary: each more would be linked with everything once more.

#![allow(clippy::unwrap_used)] // a test may

mod chains;
mod engine;
mod in_flight;
mod roundtrip;

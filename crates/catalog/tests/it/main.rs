//! Tests of the catalog through its interface.
//!
//! One binary: each more would be linked with everything once more.

mod both_signals;
mod contract;
mod garbage;
mod lost;
mod simulation;
mod world;
mod zombie;

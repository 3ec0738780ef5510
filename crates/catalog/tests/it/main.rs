//! Tests of the catalog through its interface.
//!
//! One binary, because every further one is linked with all crates again.

mod both_signals;
mod contract;
mod forms;
mod garbage;
mod lost;
mod simulation;
mod world;
mod zombie;

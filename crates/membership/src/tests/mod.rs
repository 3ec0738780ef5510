//! Tests of many nodes: of the protocol alone under a seed, and of whole nodes over a network in memory.

mod liars;
mod nodes;
mod protocol;
mod simulated;

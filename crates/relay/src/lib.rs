//! The relay of carbon points: takes lines, decides where each belongs, and keeps what a target cannot take
//! until it can.
//!
//! **What it is.** Rings that place names exactly as carbon, carbon-c-relay and carbon-relay-ng do
//! ([`ring`]), rules for replicas that need no patch ([`replicas`]), readers of those programs' configuration
//! files ([`config`]) into one routing ([`model`]), the walk of a name through it ([`router`]), and the
//! relay that runs ([`relay`]): intake, lanes in memory, spools on disk ([`spool`]), one worker for each
//! connection.
//!
//! **What it is not.** It stores no metrics and knows no engine, no tenants and no HTTP.
//!
//! **Life of a line.** A connection gets a place of [`senders`]. [`intake`] cuts its stream into lines and
//! gives each to a [`relay::Sorter`], which parses it, walks the stages and appends it to the buffer of each
//! target's lane. After every read the buffers go into the lanes. A worker writes its lane to the target;
//! while it cannot, it moves what waits to the spool, and writes the spool first once it can.
//!
//! **Invariants.** Taking a line never waits for a target. A name's points stay in their order on each
//! target. Memory ([`memory`]) and disk are bounded, and what is dropped is counted.

pub mod aggregation;
pub mod clean;
pub mod config;
pub mod connect;
pub mod counters;
pub mod intake;
pub mod line;
pub mod lookup;
pub mod memory;
pub mod model;
pub mod node;
pub mod relay;
pub mod replicas;
pub mod ring;
pub mod router;
pub mod senders;
pub mod spool;

mod buffer;
mod delivery;
mod hash;
mod invalid_log;
mod lane;
mod pickle;

pub use node::Node;

#[cfg(test)]
mod connect_tests;
#[cfg(test)]
mod intake_tests;
#[cfg(test)]
mod relay_tests;

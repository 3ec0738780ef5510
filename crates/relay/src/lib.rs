//! Relays carbon points: receives lines, routes each by its name, and queues what a target cannot accept
//! yet.
//!
//! **What it is.** Hash rings that place names exactly as carbon, carbon-c-relay and carbon-relay-ng do
//! ([`ring`]); rules for the placement of replicas ([`replicas`]); readers that turn those programs'
//! configuration files ([`config`]) into one routing ([`model`]); the routing of one name ([`router`]);
//! and the running relay ([`relay`], started by [`running`]): intake, queues in memory (lanes), queues on
//! disk ([`spool`]), and one worker per connection.
//!
//! **What it is not.** It stores no metrics and depends on no engine, tenants or HTTP.
//!
//! **Life of a line.** A connection is admitted and gets a place ([`senders`]). [`intake`] cuts its
//! stream into lines and passes each to a [`relay::Sorter`], which parses it, runs the stages and
//! appends it to the buffer of each target's lane. After every read the buffers are moved to the lanes.
//! A worker writes its lane to the target. While the target is unreachable, the worker moves its lane to
//! the spool; once it is reachable again, the worker writes the spool first.
//!
//! **Invariants.** Receiving a line never waits for a target. Each target gets the points of a name in
//! the order in which they arrived. Memory ([`memory`]) and disk are bounded, and dropped points are
//! counted.

pub mod aggregation;
pub mod clean;
pub mod comparison;
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
pub mod running;
pub mod senders;
pub mod spool;

mod buffer;
mod delivery;
mod hash;
mod invalid_log;
mod lane;
mod outage;
mod pickle;

pub use node::Node;

#[cfg(test)]
mod connect_tests;
#[cfg(test)]
mod intake_tests;
#[cfg(test)]
mod relay_tests;

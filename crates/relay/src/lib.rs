//! The relay of carbon points: takes lines, decides where each belongs, and keeps what a target cannot take
//! until it can.
//!
//! **What it is.** Rings that place names exactly as carbon, carbon-c-relay and carbon-relay-ng do
//! ([`ring`]), rules for replicas that need no patch ([`replicas`]), readers of those programs' configuration
//! files ([`config`]) into one routing ([`model`]), and the walk of a name through it ([`router`]).
//!
//! **What it is not.** It stores no metrics and knows no engine, no tenants and no HTTP.

pub mod aggregation;
pub mod config;
pub mod counters;
pub mod line;
pub mod lookup;
pub mod model;
pub mod node;
pub mod replicas;
pub mod ring;
pub mod router;
pub mod spool;

mod hash;

pub use node::Node;

//! The relay of carbon points: takes lines, decides where each belongs, and keeps what a target cannot take
//! until it can.
//!
//! **What it is.** Rings that place names exactly as carbon, carbon-c-relay and carbon-relay-ng do
//! ([`ring`]), and rules for replicas that need no patch ([`replicas`]).
//!
//! **What it is not.** It stores no metrics and knows no engine, no tenants and no HTTP.

pub mod node;
pub mod replicas;
pub mod ring;

mod hash;

pub use node::Node;

//! The APIs of rules: their states in Prometheus's format, and stored groups by namespace as Loki and Mimir
//! have them.

mod body;
mod filter;
pub mod namespaces;
mod states;

pub use states::{ALERTS, RULES, alerting_groups};

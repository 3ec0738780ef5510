//! The APIs of rules: their states in Prometheus's format, and groups by namespace as Loki lists them.

mod body;
mod filter;
mod namespaces;
mod states;

pub use namespaces::{CREATE, DELETE_GROUP, DELETE_NAMESPACE, GROUP, LIST, NAMESPACE};
pub use states::{ALERTS, RULES};

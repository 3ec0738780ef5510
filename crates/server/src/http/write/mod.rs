//! Samples in: one file per protocol. Statuses, headers and texts are those of Prometheus and Mimir.

mod intake;
pub mod remote_write;

//! Samples in: one file per protocol. Statuses, headers and texts are those of Prometheus and Mimir.

pub mod carbon;
mod delta;
pub mod import;
mod intake;
pub mod otlp;
pub mod otlp_grpc;
mod parts;
pub mod pushgateway;
pub mod remote_write;

pub use intake::store_scraped;

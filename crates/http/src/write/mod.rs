//! Receives samples: one file per protocol. Status codes, headers and texts are those of Prometheus and
//! Mimir.

pub mod carbon;
pub mod import;
pub mod otlp;
pub mod otlp_grpc;
pub mod pushgateway;
pub mod remote_write;

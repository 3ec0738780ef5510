//! Operations: readiness, metrics, configuration, flush, and the small pages that Loki's tools look at.
//! One file per endpoint.

pub mod build_info;
pub mod config;
pub mod flush;
pub mod healthy;
pub mod metrics;
pub mod ready;
pub mod services;
pub mod tenant_limits;

pub use config::without_secrets;

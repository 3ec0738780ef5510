//! Operations: readiness, metrics, configuration, flush, and the small pages that Loki's tools read. One
//! file per endpoint.

pub mod carbon_rejected;
pub mod cluster;
pub mod config;
pub mod dashboards;
pub mod differences;
pub mod flush;
pub mod front;
pub mod ingest;
pub mod log_level;
pub mod metrics;
pub mod pages;
mod query_list;
pub mod query_parts;
pub mod ready;
pub mod ring;
pub mod running_queries;
pub mod shutdown;
pub mod slow_queries;
pub mod store_report;
pub mod tenant_limits;
mod yaml;

pub use config::{hide_secrets, shown_configuration, without_secrets};

//! Operations: readiness, metrics, configuration, flush, and the small pages that Loki's tools read. One
//! file per endpoint.

pub mod build_info;
pub mod carbon_rejected;
pub mod config;
pub mod flush;
pub mod flush_tenant;
pub mod front;
pub mod healthy;
pub mod log_level;
pub mod memberlist;
pub mod metrics;
pub mod prepare_shutdown;
pub mod ready;
pub mod ring;
pub mod services;
pub mod shutdown;
pub mod store_report;
pub mod tenant_limits;
mod yaml;

pub use config::{shown_configuration, without_secrets};

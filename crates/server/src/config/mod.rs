//! Configuration: one table of options, from which the command line's help, the configuration file, the
//! environment variables and the reference page are made.
//!
//! Limits of single tenants can also be in a file of their own, which is reloaded while the server runs.
//!
//! Layers, each overriding the previous one: defaults, file, environment, flags. An unknown key is an
//! error that names the nearest known one. Only the server reads the configuration; the crates below get
//! values.

mod error;
mod file;
pub mod foreign;
mod foreign_names;
mod layers;
mod limits_table;
mod reference;
mod retention_rules;
mod settings;
mod slot;
mod table;
mod tenant_limits;
mod tenant_shares;

pub use error::Error;
pub use layers::{load, serve_command};
pub use limits_table::{LIMITS, LimitSpec};
pub use reference::options_page;
pub use settings::{
    CacheSettings, Carbon, Cluster, Compaction, Flush, Graphite, Http, Query, Retention, Settings, Storage,
    TlsSettings, Wal,
};
pub use slot::Slot;
pub use table::Named;
pub use tenant_limits::TenantLimits;
pub use tenant_shares::TenantShares;

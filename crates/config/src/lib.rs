//! The settings of a server.
//!
//! **What it is.** One table of options ([`Named`]), from which the flags and the help of the command line,
//! the configuration file, the environment variables and the reference page are made; and the limits of
//! tenants ([`TenantLimits`]), which can also be in a file of their own that is reloaded while the server
//! runs.
//!
//! **What it is not.** It is not read by the crates below: they get values. It opens and starts nothing.
//!
//! **Life of a setting.** [`load`] reads the layers, each overriding the previous one: defaults, file,
//! environment, flags. An unknown key is an error that names the nearest known one. The result is a
//! [`Settings`], which is plain data.

mod error;
mod file;
pub mod foreign;
mod foreign_names;
mod gossip_table;
mod layers;
mod limits_table;
mod notify_settings;
mod notify_table;
mod option_spec;
mod reference;
mod retention_rules;
mod ruler_table;
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

//! The roles of a process: one so far, the server with all functions.

mod check_config;
mod engine;
mod gossip;
mod listen;
mod notifications;
mod other_processes;
mod peers;
mod relay;
mod retention;
mod rule_owners;
mod rule_states;
mod rules;
mod scrape;
mod self_logs_shipper;
mod serve;
mod smtp;
mod work_of_roles;

pub use check_config::check_config;
pub use engine::{Opened, open_over};
pub use relay::check_listener;
pub use rules::stored as stored_rules;
pub use serve::{Server, environment, query_options, serve};

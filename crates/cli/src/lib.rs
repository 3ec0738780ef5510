//! Commands that send requests to a server.
//!
//! **What it is.** The client of the command line ([`client`]) and the commands that use it: `query`, `tail`,
//! `labels`, `series`, `stats`, `volume`, `delete` and `cluster`, with their output (lines, tables,
//! charts). Each command is a module with `command`, which clap parses, and `run`.
//!
//! **What it is not.** It has no engine and no store: a client binary can be built from this crate and
//! `sandur_agent`. It uses HTTP only as a client.
//!
//! **Life of a command.** `run` creates a [`client::Client`] from the options that all commands share, sends
//! one or several requests ([`paging`]), and prints rows as they arrive. If the server rejects the query, the
//! error shows the position in the query ([`caret`]).

#[macro_use]
extern crate sandur_terminal;

mod absent;
pub mod caret;
mod chart;
pub mod client;
pub mod cluster;
pub mod delete;
mod delete_metrics;
pub mod escape;
mod graphite_query;
pub mod labels;
mod language;
mod metrics_query;
pub mod moment;
pub mod outcome;
mod paging;
pub mod paint;
mod printer;
pub mod query;
pub mod results;
mod samples;
pub mod series;
pub mod stats;
pub mod tail;
pub mod volume;

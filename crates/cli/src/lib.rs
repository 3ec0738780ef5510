//! Commands that ask a server.
//!
//! **What it is.** The client of the command line ([`client`]) and the commands that query with it: `query`,
//! `tail`, `labels`, `series`, `stats`, `volume` and `delete`, with what they print (lines, tables, charts).
//! Each command is a module with `command`, which clap parses, and `run`.
//!
//! **What it is not.** It has no engine and no store: a client binary can be built of this crate and of
//! `sandur_agent`. It knows HTTP as a client only.
//!
//! **Life of a command.** `run` makes a [`client::Client`] of the options, which all commands share, asks one
//! or several times ([`paging`]), and prints rows as they come. A refusal is explained with the place in the
//! query that it is about ([`caret`]).

#[macro_use]
extern crate sandur_terminal;

pub mod caret;
mod chart;
pub mod client;
pub mod delete;
pub mod escape;
mod graphite_query;
pub mod labels;
mod metrics_query;
pub mod moment;
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

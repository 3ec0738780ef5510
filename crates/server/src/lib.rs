//! The server: configuration, HTTP, roles and command line of the binary `sandur`.
//!
//! **What it is.** The only crate that wires: it reads the configuration, opens the engine, and puts
//! Loki's HTTP API in front of it; and the commands that speak that API or look into a store.
//!
//! **What it is not.** It contains no algorithm of storage, search or query; those are in the crates below.
//! Queries and writes are services of `sandur_service`; this crate puts protocols in front of them.
//!
//! **Life of a process.** `main` sets the allocator and calls [`cli::main`]. `sandur serve` loads the
//! layers of [`config`], starts logging, opens the store, and serves ([`roles`]); its own log may go into
//! its own store; SIGTERM or Ctrl-C drains: requests end, everything acknowledged is flushed, exit code 0.
//! A second signal exits at once, which loses nothing that was acknowledged.
//!
//! **Invariants.** A push is answered with success only after the engine said that it is durable.
//! Every wait on a client has a timeout, every body and answer a bound. Settings are read here and
//! nowhere below. Every error that a person reads says what to do.

#[macro_use]
mod output;
pub mod auth;
mod block_cache;
pub mod carbon;
pub mod cli;
pub mod config;
mod failed_command;
mod failed_request;
pub mod graphite_rules;
pub mod http;
mod logging;
pub mod memory;
mod open_files;
mod process_metrics;
pub mod roles;
mod server_metrics;

//! The server: configuration, HTTP, roles and command line of the binary `sandur`.
//!
//! **What it is.** The only crate that connects the others: it reads the configuration, opens the engine,
//! and serves the protocols on top of it. Commands that ask a server, ship data or read a store are crates
//! of their own (`sandur_cli`, `sandur_agent`, `sandur_offline`); the table of all commands is in [`cli`].
//!
//! **What it is not.** It contains no algorithm of storage, search or query; those are in the crates below.
//! Queries and writes are services of `sandur_service`; this crate puts protocols in front of them.
//!
//! **Life of a process.** `main` sets the allocator and calls [`cli::main`]. `sandur serve` loads the
//! layers of `sandur_config`, starts logging, opens the store, and serves ([`roles`]); its own log may be
//! stored in its own store. SIGTERM or Ctrl-C drains: requests finish, all acknowledged data is flushed,
//! and the exit code is 0. A second signal exits immediately, which loses no acknowledged data.
//!
//! **Invariants.** A push is answered with success only after the engine reported that it is durable.
//! Every wait for a client has a timeout, every body and answer a maximum size. Settings are read here
//! and nowhere below. Every error shown to a user says what to do.

#[macro_use]
extern crate sandur_terminal;

mod block_cache;
pub mod cli;
pub mod graphite_rules;
pub mod memory;
mod node_identity;
mod open_files;
pub mod roles;

//! A server for memcached's protocols on top of the [cache engine](sandur_cache::Cache).
//!
//! **What it is.** A drop-in replacement for memcached with extstore. Command line, text, meta and
//! binary protocols, statistics and logs use memcached's names and texts. docs/reference/memcached.md
//! lists them, and the differences.
//!
//! **What it is not.** It is not a cache: the engine implements keys, values, tiers and restarts. It is
//! not a part of the database either: it has no blocks and no HTTP, and the database does not use these
//! protocols to reach its own cache.
//!
//! **Life of a call.** The acceptor ([`listen`]) assigns connections to workers round-robin. A
//! [`worker`] waits with its own poller. A [`connection`] reads the available bytes, its [`session`]
//! answers every complete command into the [`output`], and one write sends the answers. A command is
//! found in the tables of [`commands`]. Its function in [`text`], [`meta`] or [`binary`] parses words and
//! calls an operation; the [`operations`] act on the cache and update counters. A command returns a
//! [`next`] that tells the session what remains to be done. An answer that needs the device reserves its
//! place in the output, and wakes the connection when it is available.
//! Tests and fuzzers hold conversations without sockets through [`socketless`].
//!
//! **Invariants.** Workers never block. Answers are in the order of their requests. Everything that a
//! client can make the server hold is bounded: lines, values, answers, watchers, prefixes, connections.

mod arguments;
mod authentication;
mod binary;
mod command_context;
mod commands;
mod connection;
mod connections;
mod counters;
mod datagram;
mod dump;
mod error;
mod evictions;
mod extstore_options;
mod input;
mod listen;
mod log;
mod memory_file;
mod message_queue;
mod meta;
mod metrics_listener;
mod next;
mod operations;
mod output;
mod prefixes;
mod process;
mod read;
mod reference;
mod server;
mod session;
mod settings;
mod slab_classes;
mod socketless;
mod start;
mod stats;
mod survey;
mod text;
mod time;
mod tls;
mod transport;
mod watch;
mod words;
mod worker;

#[cfg(test)]
mod tests;

pub use arguments::WrongArguments;
pub use error::Error;
pub use log::Log;
pub use reference::reference;
pub use socketless::{SocketlessClient, SocketlessServer};
pub use start::run;

//! A server that speaks memcached's protocols over the [cache engine](sandur_cache::Cache).
//!
//! **What it is.** A drop-in for memcached with extstore: command line, text, meta and binary
//! protocols, statistics and logs have its names and its words. docs/reference/memcached.md lists
//! them, and where we differ.
//!
//! **What it is not.** It is not a cache: keys, values, tiers and restarts are the engine's. It is no
//! part of the database either: it knows no blocks and no HTTP, and the database does not talk to its
//! cache by these protocols.
//!
//! **Life of a call.** The acceptor ([`listen`]) hands a connection to one of the workers in turn.
//! A [`worker`] waits with its own poller; a [`connection`] reads what is there, its [`session`]
//! answers every complete command into the [`output`], and one write sends the answers. A command is
//! a type in a file of its own in [`text`], [`meta`] or [`binary`], found in the tables of [`commands`]:
//! it reads words and calls an operation; the [`operations`] work on the cache and count. What a command
//! leaves to do it tells the session by [`next`]. What needs the device leaves its place in the output
//! free and wakes the connection when it is there. Tests and fuzzers hold such conversations without sockets,
//! by [`socketless`].
//!
//! **Invariants.** Workers never block. Answers are in the order of their requests. What a client
//! can make the server hold is bounded: lines, values, answers, watchers, prefixes, connections.

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

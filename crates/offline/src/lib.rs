//! Commands that read or repair a store without a server.
//!
//! **What it is.** `inspect` shows objects of a store, `check` verifies all of them, `repair` restores a
//! damaged catalog.
//!
//! **What it is not.** It runs no engine: it reads the byte layouts of `sandur_format` and the catalog of
//! `sandur_catalog`.
//!
//! **Life of a command.** `run` opens the store or the file that the arguments name ([`target`]), reads it,
//! and prints. Only `repair` writes, and only through the catalog.

#[macro_use]
extern crate sandur_terminal;

pub mod check;
pub mod inspect;
pub mod repair;
mod target;

pub use target::open_store;

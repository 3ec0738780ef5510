//! Commands that read or repair a store without a server, and commands for rule files.
//!
//! **What it is.** `inspect` shows objects of a store, `check` verifies all of them, `repair` restores a
//! damaged catalog, `backup` copies a store and `restore` makes a store of such a copy. `rules` checks rule
//! files, runs their tests and replays them over the history of a server. `silences` changes the silences
//! of a server.
//!
//! **What it is not.** It runs no engine: it reads the byte layouts of `sandur_format` and the catalog of
//! `sandur_catalog`.
//!
//! **Life of a command.** `run` opens the store or the file that the arguments name ([`target`]), reads it,
//! and prints. Of the commands for a store in use only `repair` writes to it, through the catalog.

#[macro_use]
extern crate sandur_terminal;

pub mod backup;
pub mod check;
pub mod inspect;
pub mod repair;
mod replay;
pub mod restore;
pub mod rules;
pub mod silences;
mod target;

pub use target::open_store;

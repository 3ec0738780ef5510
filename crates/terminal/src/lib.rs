//! What a process prints, for users and for scripts.
//!
//! **What it is.** Output of commands on stdout, which tolerates a closed pipe ([`output`]), the failure of a
//! command with its exit code ([`Failed`]), the log on stderr ([`logging`]), and the signals that stop a
//! process ([`Signals`]). [`counted`] writes numbers with their nouns.
//!
//! **What it is not.** It contains no commands and no code of the server.
//!
//! **Life of a command.** The binary parses the arguments and runs a command. The command prints with the
//! macros of this crate, which do not panic when stdout is closed, and returns an exit code or a [`Failed`],
//! which [`report`] prints on stderr.

// First, so that the modules below print with its macros too.
#[macro_use]
pub mod output;

mod counted;
mod failed;
pub mod logging;
mod signals;

pub use counted::counted;
pub use failed::{Failed, USAGE, report};
pub use signals::Signals;

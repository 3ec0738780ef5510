//! Joins the lines of one entry: stack traces, pretty-printed JSON, statements and dumps.
//!
//! [`joiner`] is the state machine: it decides for each line whether it begins an entry. [`kinds`] has the
//! kinds of entries and of lines in one table, which also makes the reference page. [`lines`] recognises
//! the form of one line, and [`transport`] what a container runtime or syslog writes before each line.
//!
//! Whether a line begins an entry depends only on the lines before it, up to a cut that is stored with
//! the resume point, so that a push that is repeated cuts the same entries.

mod joiner;
mod kinds;
mod lines;
mod transport;
mod words;

#[cfg(test)]
mod corpus;
#[cfg(test)]
mod tests;

use std::time::Duration;

pub use joiner::{Joiner, Learned, Rule, Step};
pub use kinds::{HEADS, KINDS, MARKS};

/// Maximum number of lines of an entry. The lines beyond it are another entry.
pub const ENTRY_LINES_MAX: u32 = 4_096;
/// Maximum size of an entry of several lines: below the default of the server's `limits.max_line_size`
/// (256 KiB), so that joining does not cause refusals.
pub const ENTRY_BYTES_MAX: usize = 192 << 10;
/// Time without new lines after which an entry of an input without an end is complete.
pub const ENTRY_SILENCE: Duration = Duration::from_secs(1);

//! The point from which an input is read: stored in the state file, and the start of the assembler.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

use super::dates::Dates;
use super::entries::Learned;

/// The point from which an input is read.
#[derive(Clone, Debug, Default)]
pub struct Start {
    /// Number of bytes before it.
    pub offset: u64,
    /// The state of the dates at it.
    pub dates: Dates,
    /// What was learned about entries of several lines before it.
    pub learned: Learned,
    /// Arrivals of lines that may have been sent before.
    pub planned: VecDeque<Planned>,
}

/// Lines that are about to be sent, with their time of arrival. An entry ends with the last of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Planned {
    /// Offset after the lines.
    pub until: u64,
    /// Time of arrival, nanoseconds since the epoch.
    pub now_ns: i64,
}

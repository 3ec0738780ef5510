//! Where an input goes on after a stop: the resume file remembers it, the assembler begins with it.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

use super::dates::Dates;

/// Where an input goes on.
#[derive(Clone, Debug, Default)]
pub struct Start {
    /// Bytes before.
    pub offset: u64,
    /// The state of the dates there.
    pub dates: Dates,
    /// Arrivals of lines that may have been sent before.
    pub planned: VecDeque<Planned>,
}

/// Lines that are about to be sent, and when they arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Planned {
    /// Offset after the lines.
    pub until: u64,
    /// Their arrival.
    pub now_ns: i64,
}

//! Options of reading a file that may be damaged, and what was skipped.

use crate::error::Error;

/// Whether checksums are verified, in files that have them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Checks {
    /// Checksums must match.
    All,
    /// Checksums are ignored, as in go-carbon.
    None,
}

/// What happens if the file is damaged after its header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Damage {
    /// The complete file is refused.
    Refused,
    /// The damaged part is skipped and reported: an archive of a whisper file, a block of a compressed
    /// one.
    LeftOut,
}

/// The options of reading an archive, and what was skipped.
#[derive(Debug)]
pub(crate) struct Reading {
    pub(crate) until: u32,
    pub(crate) checks: Checks,
    pub(crate) damage: Damage,
    /// First and last second of damaged blocks.
    pub(crate) lost: Vec<(u32, u32)>,
    /// Why the first of them is damaged.
    pub(crate) reason: Option<Error>,
}

impl Reading {
    pub(crate) fn new(until: u32, checks: Checks, damage: Damage) -> Self {
        Self { until, checks, damage, lost: Vec::new(), reason: None }
    }

    /// Records damaged points, or fails if damage is not permitted.
    pub(crate) fn leave_out(&mut self, from: u32, to: u32, error: Error) -> Result<(), Error> {
        if self.damage == Damage::Refused {
            return Err(error);
        }
        self.lost.push((from, to));
        self.reason.get_or_insert(error);
        Ok(())
    }
}

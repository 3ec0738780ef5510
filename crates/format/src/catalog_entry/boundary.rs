//! The boundary: every catalog entry up to and including this number may be deleted.
//!
//! This object is rewritten, and only grows: it is replaced by a conditional update, which fails when
//! another process has replaced it since it was read.

use super::frame::{self, Kind};
use super::log_chain::LogPosition;
use crate::error::Error;

const KIND: Kind = Kind { magic: *b"SDCB", version: 2, metrics: 2, newest: 2, name: "boundary" };
/// The version since which the boundary also holds the checksum of the entry.
const CHECKSUM_SINCE: u8 = 2;

/// The content of `catalog/boundary`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Boundary {
    /// The last entry that may be deleted; a create at or below its number did not happen.
    pub at: LogPosition,
}

impl Boundary {
    /// Returns the object's bytes.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = frame::begin(&KIND);
        self.at.encode(&mut out);
        frame::seal(&KIND, out)
    }

    /// Decodes a boundary object.
    pub fn decode(bytes: &[u8]) -> Result<Self, Error> {
        let mut from = frame::open(&KIND, bytes)?;
        let at = match frame::version(bytes) >= CHECKSUM_SINCE {
            true => LogPosition::decode(&mut from)?,
            false => LogPosition { number: from.u64()?, checksum: 0 },
        };
        from.finish()?;
        Ok(Self { at })
    }
}

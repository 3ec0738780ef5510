//! The boundary: every catalog number up to and including it may be gone.
//!
//! The one object of the catalog that is rewritten. It only grows: it is replaced by a verified
//! update, which fails when another process has replaced it since it was read.

use super::frame::{self, Kind};
use super::log_chain::LogPosition;
use crate::error::Error;

const KIND: Kind = Kind { magic: *b"SDCB", version: 2, newest: 2, name: "boundary" };
/// The version since which the boundary names the entry by its checksum, too.
const CHECKSUM_SINCE: u8 = 2;

/// What `catalog/boundary` holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Boundary {
    /// The last entry that may be gone; a create at or below its number did not happen.
    pub at: LogPosition,
}

impl Boundary {
    /// The object's bytes.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = frame::begin(&KIND);
        self.at.encode(&mut out);
        frame::seal(&KIND, out)
    }

    /// Reads a boundary object.
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

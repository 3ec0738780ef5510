//! The boundary: every catalog number up to and including it may be gone.
//!
//! Generations are numbered objects that are created once and never deleted, so the boundary can
//! only grow, whoever wakes up late.

use super::error::FormatError;
use super::frame::{self, Kind};
use super::wire::Reader;

const KIND: Kind = Kind { magic: *b"SDCB", version: 1, name: "boundary" };

/// One generation of the boundary.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Boundary {
    /// How often the boundary was advanced; 0 for the boundary of a new catalog.
    pub generation: u64,
    /// The largest catalog number that may be gone; a create at or below it did not happen.
    pub number: u64,
}

impl Boundary {
    /// The object's bytes.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = frame::begin(&KIND);
        out.u64(self.generation);
        out.u64(self.number);
        frame::seal(out)
    }

    /// Reads a boundary object.
    pub fn decode(bytes: &[u8]) -> Result<Self, FormatError> {
        let mut from = Reader::new(frame::open(&KIND, bytes)?);
        let boundary = Self { generation: from.u64("generation")?, number: from.u64("number")? };
        from.finish(KIND.name)?;
        Ok(boundary)
    }
}

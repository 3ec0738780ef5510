//! The boundary: every catalog number up to and including it may be gone.
//!
//! The one object of the catalog that is rewritten. It only grows: it is replaced by a verified
//! update, which fails when somebody else has replaced it since it was read.

use super::error::FormatError;
use super::frame::{self, Kind};
use super::wire::Reader;

const KIND: Kind = Kind { magic: *b"SDCB", version: 1, name: "boundary" };

/// What `catalog/boundary` holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Boundary {
    /// The largest catalog number that may be gone; a create at or below it did not happen.
    pub number: u64,
}

impl Boundary {
    /// The object's bytes.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = frame::begin(&KIND);
        out.u64(self.number);
        frame::seal(out)
    }

    /// Reads a boundary object.
    pub fn decode(bytes: &[u8]) -> Result<Self, FormatError> {
        let mut from = Reader::new(frame::open(&KIND, bytes)?);
        let boundary = Self { number: from.u64("number")? };
        from.finish(KIND.name)?;
        Ok(boundary)
    }
}

//! Positions in the catalog's log: the number of an entry and the checksum of its bytes.
//!
//! Every entry holds the checksum of the one before, so a checksum identifies the complete log up to its
//! entry. Objects outside of the log (checkpoints, the boundary, heartbeats, blocks, the witness) hold
//! the position that their author had read. So they prove that the log was at least this long, and which
//! log it was.

use std::collections::VecDeque;

use xxhash_rust::xxh3::xxh3_64;

use super::frame::{self, Kind};
use super::wire::Sink;
use crate::codec::Reader;
use crate::error::Error;

const WITNESS: Kind = Kind { magic: *b"SDCW", version: 1, metrics: 1, newest: 1, name: "witness" };

/// Most checksums of the log's end that a state keeps: two hours of a busy store.
pub const CHAIN_LENGTH_MAX: usize = 4096;

/// Returns the checksum of an entry, which the next entry holds.
pub fn entry_checksum(bytes: &[u8]) -> u64 {
    // 0 means that the checksum is not known.
    xxh3_64(bytes).max(1)
}

/// A position in the log: directly after an entry.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct LogPosition {
    /// The entry's number; 0 before the first.
    pub number: u64,
    /// [`entry_checksum`] of its bytes; 0 when it is not known.
    pub checksum: u64,
}

impl LogPosition {
    pub(super) fn encode(self, out: &mut Sink) {
        out.u64(self.number);
        out.u64(self.checksum);
    }

    pub(super) fn decode(from: &mut Reader<'_>) -> Result<Self, Error> {
        Ok(Self { number: from.u64()?, checksum: from.u64()? })
    }

    /// Returns the bytes of the object `witness`.
    pub fn encode_witness(self) -> Vec<u8> {
        let mut out = frame::begin(&WITNESS);
        self.encode(&mut out);
        frame::seal(&WITNESS, out)
    }

    /// Decodes the object `witness`.
    pub fn decode_witness(bytes: &[u8]) -> Result<Self, Error> {
        let mut from = frame::open(&WITNESS, bytes)?;
        let position = Self::decode(&mut from)?;
        from.finish()?;
        Ok(position)
    }
}

/// The checksums of the last entries up to a position in the log.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LogChain {
    /// Whether the last entry holds the checksum of its predecessor; if so, all later ones do.
    pub linked: bool,
    /// Checksums of consecutive entries, the last entry's last; at most [`CHAIN_LENGTH_MAX`]. Empty when
    /// the last entry's checksum is not known.
    pub checksums: VecDeque<u64>,
}

impl LogChain {
    pub(super) fn encode(&self, out: &mut Sink) {
        out.u8(u8::from(self.linked));
        out.count(self.checksums.len());
        for checksum in &self.checksums {
            out.u64(*checksum);
        }
    }

    pub(super) fn decode(from: &mut Reader<'_>) -> Result<Self, Error> {
        let linked = match from.u8()? {
            0 => false,
            1 => true,
            _ => return Err(from.malformed("the flags of the chain are unknown")),
        };
        let count = from.count_of(8)?;
        if count > CHAIN_LENGTH_MAX {
            return Err(from.malformed("there are more checksums than a chain may have"));
        }
        let mut checksums = VecDeque::with_capacity(count);
        for _ in 0..count {
            checksums.push_back(from.u64()?);
        }
        Ok(Self { linked, checksums })
    }
}

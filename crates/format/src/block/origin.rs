//! The origin of a block: the information that a repair needs when the catalog entry of the block is
//! lost.
//!
//! The origin holds the block's own id, so that the block is not confused with another one that has the
//! same properties. A merged block lists its inputs, so that their rows are not counted twice. Every
//! block holds the position in the catalog's log that its maker had read: a catalog that has lost later
//! entries then does not take the block for unneeded.

use sandur_base::Id;

use super::container::PART_FOOTER;
use crate::catalog_entry::{LogPosition, WritePlace};
use crate::codec::Reader;
use crate::codec::varint::put_varint;
use crate::error::Error;

/// Most inputs that a footer lists.
const INPUTS_MAX: usize = 1 << 16;

/// The origin of a block.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BlockOrigin {
    /// The id of the block itself; 0 when it is not recorded: in blocks of logs from before version 5,
    /// and of samples from before version 7.
    pub block: Id,
    /// The position in the catalog's log that its maker had read when it began.
    pub seen: LogPosition,
    /// The block holds no line of a delete request that was started by an entry up to this number.
    pub deletes_through: u64,
    /// The blocks whose rows this block replaces; empty for a block from a flush.
    pub inputs: Vec<Id>,
    /// The place in the order of writing of its last input; 0 when it has no inputs, when their places
    /// are not known, and in blocks of logs. Only blocks of samples store it.
    pub place: u64,
}

/// The optional fields of an encoded origin.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OriginParts {
    /// The place in the order of writing.
    pub(crate) place: bool,
    /// The block itself.
    pub(crate) block: bool,
}

impl BlockOrigin {
    /// Returns the assumed place of a block of samples whose catalog entry is lost. A block from a flush
    /// is after all entries that its maker had seen. A merge from before places were recorded is before
    /// all blocks that have one.
    pub fn assumed_place(&self) -> u64 {
        match (self.place, self.inputs.is_empty()) {
            (0, true) => WritePlace::after(self.seen.number).0,
            (place, _) => place,
        }
    }

    /// Appends the form of blocks of logs.
    pub(crate) fn put(&self, out: &mut Vec<u8>) {
        self.put_shared(out);
        out.extend_from_slice(&self.block.to_bytes());
    }

    /// Appends the form of blocks of samples, which has the place.
    pub(crate) fn put_placed(&self, out: &mut Vec<u8>) {
        self.put_shared(out);
        put_varint(out, self.place);
        out.extend_from_slice(&self.block.to_bytes());
    }

    fn put_shared(&self, out: &mut Vec<u8>) {
        put_varint(out, self.seen.number);
        out.extend_from_slice(&self.seen.checksum.to_le_bytes());
        put_varint(out, self.deletes_through);
        put_varint(out, self.inputs.len() as u64);
        for id in &self.inputs {
            out.extend_from_slice(&id.to_bytes());
        }
    }

    pub(crate) fn get(bytes: &[u8], offset: u64, parts: OriginParts) -> Result<Self, Error> {
        let mut reader = Reader::new(PART_FOOTER, offset, bytes);
        let seen = LogPosition { number: reader.varint()?, checksum: reader.u64()? };
        let deletes_through = reader.varint()?;
        let count = reader.count("inputs of a block", INPUTS_MAX.min(reader.remaining() / 16))?;
        let mut inputs = Vec::with_capacity(count);
        for _ in 0..count {
            inputs.push(reader.id()?);
        }
        let place = if parts.place { reader.varint()? } else { 0 };
        let block = if parts.block { reader.id()? } else { Id::default() };
        reader.finish()?;
        Ok(Self { block, seen, deletes_through, inputs, place })
    }
}

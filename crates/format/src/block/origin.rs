//! What a block was made from: enough to know it again when the catalog that named it is lost.
//!
//! It names itself, so that it is not taken for another one that has the same figures. A block that was
//! merged names its inputs, so that their rows are not counted beside it; and every block
//! names the place in the catalog's log that its maker had read, so that it is not taken for unneeded in a
//! catalog that has lost what came after.

use sandur_base::Id;

use super::container::PART_FOOTER;
use crate::catalog_entry::{LogPosition, WritePlace};
use crate::codec::Reader;
use crate::codec::varint::put_varint;
use crate::error::Error;

/// Most inputs that a footer names.
const INPUTS_MAX: usize = 1 << 16;

/// Where a block comes from.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BlockOrigin {
    /// The block itself; 0 when it does not say: in blocks of logs of before version 5, of samples of before
    /// version 7.
    pub block: Id,
    /// How far its maker had read the catalog's log when it began.
    pub seen: LogPosition,
    /// It holds no line of a delete request that was started by an entry up to this number.
    pub deletes_through: u64,
    /// The blocks whose rows it holds instead of them; none for a block from a flush.
    pub inputs: Vec<Id>,
    /// The place in the order of writing of the last of its inputs; 0 when it has none or theirs is not
    /// known, and in blocks of logs. Blocks of samples tell it.
    pub place: u64,
}

/// What an origin tells beside what all do.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OriginParts {
    /// The place in the order of writing.
    pub(crate) place: bool,
    /// The block itself.
    pub(crate) block: bool,
}

impl BlockOrigin {
    /// The place of a block of samples whose catalog is lost: one that comes from a flush stands behind all
    /// that its maker had seen. What was merged before places were known stands before all that have one.
    pub fn assumed_place(&self) -> u64 {
        match (self.place, self.inputs.is_empty()) {
            (0, true) => WritePlace::after(self.seen.number).0,
            (place, _) => place,
        }
    }

    /// As blocks of logs tell it.
    pub(crate) fn put(&self, out: &mut Vec<u8>) {
        self.put_shared(out);
        out.extend_from_slice(&self.block.to_bytes());
    }

    /// As blocks of samples tell it: with the place.
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

    pub(crate) fn get(bytes: &[u8], offset: u64, tells: OriginParts) -> Result<Self, Error> {
        let mut reader = Reader::new(PART_FOOTER, offset, bytes);
        let seen = LogPosition { number: reader.varint()?, checksum: reader.u64()? };
        let deletes_through = reader.varint()?;
        let count = reader.count("inputs of a block", INPUTS_MAX.min(reader.remaining() / 16))?;
        let mut inputs = Vec::with_capacity(count);
        for _ in 0..count {
            inputs.push(reader.id()?);
        }
        let place = if tells.place { reader.varint()? } else { 0 };
        let block = if tells.block { reader.id()? } else { Id::default() };
        reader.finish()?;
        Ok(Self { block, seen, deletes_through, inputs, place })
    }
}

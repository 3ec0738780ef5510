//! What a block was made from: enough to know it again when the catalog that named it is lost.
//!
//! A block that was merged names its inputs, so that their rows are not counted beside it; and every block
//! names the place in the catalog's log that its maker had read, so that it is not taken for unneeded in a
//! catalog that has lost what came after.

use sandur_base::Id;

use super::container::PART_FOOTER;
use crate::catalog_entry::LogPosition;
use crate::codec::Reader;
use crate::codec::varint::put_varint;
use crate::error::Error;

/// Most inputs that a footer names.
const INPUTS_MAX: usize = 1 << 16;

/// Where a block comes from.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BlockOrigin {
    /// How far its maker had read the catalog's log when it began.
    pub seen: LogPosition,
    /// It holds no line of a delete request that was started by an entry up to this number.
    pub deletes_through: u64,
    /// The blocks whose rows it holds instead of them; none for a block from a flush.
    pub inputs: Vec<Id>,
}

impl BlockOrigin {
    pub(crate) fn put(&self, out: &mut Vec<u8>) {
        put_varint(out, self.seen.number);
        out.extend_from_slice(&self.seen.checksum.to_le_bytes());
        put_varint(out, self.deletes_through);
        put_varint(out, self.inputs.len() as u64);
        for id in &self.inputs {
            out.extend_from_slice(&id.to_bytes());
        }
    }

    pub(crate) fn get(bytes: &[u8], offset: u64) -> Result<Self, Error> {
        let mut reader = Reader::new(PART_FOOTER, offset, bytes);
        let seen = LogPosition { number: reader.varint()?, checksum: reader.u64()? };
        let deletes_through = reader.varint()?;
        let count = reader.count("inputs of a block", INPUTS_MAX.min(reader.remaining() / 16))?;
        let mut inputs = Vec::with_capacity(count);
        for _ in 0..count {
            inputs.push(reader.id()?);
        }
        reader.finish()?;
        Ok(Self { seen, deletes_through, inputs })
    }
}

//! The properties of a block in its footer, and the fields for its catalog entry.

use sandur_model::{TenantId, TimeRange};

use super::container::PART_FOOTER;
use crate::codec::Reader;
use crate::codec::varint::{put_blob, put_signed, put_varint};
use crate::error::Error;

/// The properties of a block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BlockInfo {
    /// Version of the format.
    pub version: u16,
    /// The owner of the rows.
    pub tenant: TenantId,
    /// The time window of the block, in nanoseconds since the epoch.
    pub window: TimeRange,
    /// Number of times that its rows were compacted.
    pub level: u8,
    /// Plain bytes at which a page was closed.
    pub page_bytes: u32,
    /// The zstd level that the writer used.
    pub zstd_level: i32,
    /// First timestamp, in nanoseconds since the epoch.
    pub min_ts: i64,
    /// Last timestamp, inclusive.
    pub max_ts: i64,
    /// Number of rows.
    pub rows: u64,
    /// Bytes of all lines, or of timestamps and values.
    pub raw_bytes: u64,
}

/// The properties of a finished block: the fields of its catalog entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockSummary {
    /// Number of rows.
    pub rows: u64,
    /// Bytes of all lines, or of timestamps and values.
    pub raw_bytes: u64,
    /// First timestamp, in nanoseconds since the epoch.
    pub min_ts: i64,
    /// Last timestamp, inclusive.
    pub max_ts: i64,
    /// Number of streams or series.
    pub streams: u32,
    /// Number of pages.
    pub pages: u32,
    /// Offset of the footer in the object.
    pub footer_offset: u64,
    /// Bytes from the footer's offset to the end of the object, including the trailer.
    pub footer_len: u32,
    /// Bytes of the object.
    pub size: u64,
}

impl BlockInfo {
    pub(crate) fn put(&self, out: &mut Vec<u8>) {
        put_blob(out, self.tenant.as_str().as_bytes());
        put_signed(out, self.window.start);
        put_signed(out, self.window.end);
        out.push(self.level);
        put_varint(out, u64::from(self.page_bytes));
        put_signed(out, i64::from(self.zstd_level));
        put_signed(out, self.min_ts);
        put_signed(out, self.max_ts);
        put_varint(out, self.rows);
        put_varint(out, self.raw_bytes);
    }

    pub(crate) fn get(bytes: &[u8], version: u16) -> Result<Self, Error> {
        let mut reader = Reader::new(PART_FOOTER, 0, bytes);
        let tenant = TenantId::new(reader.text()?);
        let tenant = tenant.map_err(|_| reader.malformed("the tenant id is not valid"))?;
        let window = TimeRange::new(reader.signed()?, reader.signed()?);
        let info = Self {
            version,
            tenant,
            window,
            level: reader.u8()?,
            page_bytes: reader.varint32()?,
            zstd_level: reader.signed()? as i32,
            min_ts: reader.signed()?,
            max_ts: reader.signed()?,
            rows: reader.varint()?,
            raw_bytes: reader.varint()?,
        };
        reader.finish()?;
        Ok(info)
    }
}

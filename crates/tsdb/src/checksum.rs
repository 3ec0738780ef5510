//! Verifies parts of files.

use crate::bytes::Bytes;
use crate::error::Error;

/// Verifies a part against the checksum after it.
pub fn verified<'a>(what: &'static str, offset: u64, bytes: &'a [u8]) -> Result<&'a [u8], Error> {
    let end = bytes.len().checked_sub(4).ok_or(Error::Malformed { what })?;
    let (part, checksum) = bytes.split_at(end);
    let expected = Bytes::new(what, checksum).u32()?;
    let found = crc32c::crc32c(part);
    if expected != found {
        return Err(Error::Checksum { what, offset, expected, found });
    }
    Ok(part)
}

//! The frame around every object of the catalog: magic, version, checksum, body.
//!
//! ```text
//! 0   4  magic
//! 4   1  version
//! 5   3  zero
//! 8   4  CRC-32C of all bytes from offset 12 to the end, seeded with bytes 0..8
//! 12  .. body
//! ```

use super::wire::Sink;
use crate::codec::Reader;
use crate::codec::checksum::{crc32c, crc32c_append};
use crate::error::Error;

pub(super) const HEADER_BYTES: usize = 12;

/// The kind of object that a frame holds.
pub(super) struct Kind {
    pub magic: [u8; 4],
    /// The version for objects that name only logs: older programs can read it.
    pub version: u8,
    /// The version for objects that name metrics.
    pub metrics: u8,
    /// This version and all earlier ones are read.
    pub newest: u8,
    pub name: &'static str,
}

/// Returns a buffer with space for the header, to which the body is appended.
pub(super) fn begin(kind: &Kind) -> Sink {
    let mut bytes = Vec::with_capacity(256);
    bytes.extend_from_slice(&kind.magic);
    bytes.extend_from_slice(&[kind.version, 0, 0, 0]);
    bytes.extend_from_slice(&[0; 4]);
    Sink { bytes, names_metrics: false, least: 0 }
}

/// Fills in version and checksum.
pub(super) fn seal(kind: &Kind, writer: Sink) -> Vec<u8> {
    let mut bytes = writer.bytes;
    if writer.names_metrics {
        bytes[4] = kind.metrics;
    }
    bytes[4] = bytes[4].max(writer.least);
    let sum = checksum(&bytes);
    bytes[8..HEADER_BYTES].copy_from_slice(&sum.to_le_bytes());
    bytes
}

/// Returns the version of an object whose frame was opened.
pub(super) fn version(bytes: &[u8]) -> u8 {
    bytes[4]
}

/// Returns a reader of the body, after magic, checksum and version were verified.
pub(super) fn open<'a>(kind: &Kind, bytes: &'a [u8]) -> Result<Reader<'a>, Error> {
    let mut reader = Reader::new(kind.name, 0, bytes);
    reader.magic(kind.magic)?;
    let version = reader.u8()?;
    reader.bytes(3)?;
    let (expected, found) = (reader.u32()?, checksum(bytes));
    if expected != found {
        return Err(Error::Checksum { part: kind.name, offset: 0, expected, found });
    }
    reader.version(u16::from(version), u16::from(kind.newest))?;
    Ok(reader)
}

fn checksum(bytes: &[u8]) -> u32 {
    crc32c_append(crc32c(&bytes[..8]), &bytes[HEADER_BYTES..])
}

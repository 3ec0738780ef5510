//! The frame around every object of the catalog: magic, version, checksum, body.
//!
//! ```text
//! 0   4  magic
//! 4   1  version
//! 5   3  zero
//! 8   4  CRC-32C of all bytes from offset 12 to the end, seeded with bytes 0..8
//! 12  .. body
//! ```

use super::error::FormatError;

pub(super) const HEADER_BYTES: usize = 12;

/// Which object a frame holds.
pub(super) struct Kind {
    pub magic: [u8; 4],
    /// The version that is written while only logs are named: older programs read it.
    pub version: u8,
    /// The version that is written when metrics are named; this one and all before it are read.
    pub newest: u8,
    pub name: &'static str,
}

/// A buffer with room for the header, to append the body to.
pub(super) fn begin(kind: &Kind) -> super::wire::Sink {
    let mut bytes = Vec::with_capacity(256);
    bytes.extend_from_slice(&kind.magic);
    bytes.extend_from_slice(&[kind.version, 0, 0, 0]);
    bytes.extend_from_slice(&[0; 4]);
    super::wire::Sink { bytes, names_metrics: false }
}

/// Fills in version and checksum.
pub(super) fn seal(kind: &Kind, writer: super::wire::Sink) -> Vec<u8> {
    let mut bytes = writer.bytes;
    if writer.names_metrics {
        bytes[4] = kind.newest;
    }
    let sum = checksum(&bytes);
    bytes[8..HEADER_BYTES].copy_from_slice(&sum.to_le_bytes());
    bytes
}

/// The version of an object whose frame was opened.
pub(super) fn version(bytes: &[u8]) -> u8 {
    bytes[4]
}

/// The body, after magic, checksum and version were verified.
pub(super) fn open<'a>(kind: &Kind, bytes: &'a [u8]) -> Result<&'a [u8], FormatError> {
    let what = kind.name;
    if bytes.len() < HEADER_BYTES {
        return Err(FormatError::Truncated { what, at: bytes.len() });
    }
    let found: [u8; 4] = bytes[..4].try_into().expect("four bytes");
    if found != kind.magic {
        return Err(FormatError::Magic { what, found });
    }
    let stored: [u8; 4] = bytes[8..HEADER_BYTES].try_into().expect("four bytes");
    let (expected, found) = (u32::from_le_bytes(stored), checksum(bytes));
    if expected != found {
        return Err(FormatError::Checksum { what, expected, found });
    }
    if bytes[4] == 0 || bytes[4] > kind.newest {
        return Err(FormatError::Version { what, found: bytes[4], known: kind.newest });
    }
    Ok(&bytes[HEADER_BYTES..])
}

fn checksum(bytes: &[u8]) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c(&bytes[..8]), &bytes[HEADER_BYTES..])
}

//! Sizes of the format, and fixed-width fields.
//!
//! Invariant: reading accepts any bytes and never panics.

use crate::device::BLOCK;

/// Records begin at multiples of this many bytes.
pub const UNIT: u64 = 64;

/// Bytes of a value that one checksum covers.
pub const CHECKED_BYTES: usize = 64 << 10;

/// Bytes of the longest record, even where a quarter of a segment is larger.
pub const RECORD_BYTES_MAX: u64 = 4 << 20;

/// Bytes of the longest key.
pub const KEY_BYTES_MAX: usize = 8 << 10;

/// The largest sequence number: they have 48 bits.
pub const SEQUENCE_MAX: u64 = (1 << 48) - 1;

/// Converts bytes to units, rounded up.
pub fn units(bytes: u64) -> u64 {
    bytes.div_ceil(UNIT)
}

/// The CRC-32C of the id's bytes and then of each part.
pub fn checksum_with(id: u64, parts: &[&[u8]]) -> u32 {
    let seeded = crc32c::crc32c(&id.to_le_bytes());
    parts.iter().fold(seeded, |sum, part| crc32c::crc32c_append(sum, part))
}

/// Reads `N` bytes at an offset; zeros beyond the end, which no checksum accepts.
pub(in crate::flash) fn bytes_at<const N: usize>(bytes: &[u8], offset: usize) -> [u8; N] {
    let found = bytes.get(offset..offset + N).and_then(|b| b.try_into().ok());
    found.unwrap_or([0; N])
}

pub(in crate::flash) fn u16_at(bytes: &[u8], offset: usize) -> u16 {
    u16::from_le_bytes(bytes_at(bytes, offset))
}

pub(in crate::flash) fn u32_at(bytes: &[u8], offset: usize) -> u32 {
    u32::from_le_bytes(bytes_at(bytes, offset))
}

pub(in crate::flash) fn u64_at(bytes: &[u8], offset: usize) -> u64 {
    u64::from_le_bytes(bytes_at(bytes, offset))
}

pub(in crate::flash) fn put(into: &mut [u8], offset: usize, value: &[u8]) {
    into[offset..offset + value.len()].copy_from_slice(value);
}

/// A block of zeros to write fields into.
pub(super) fn block() -> Vec<u8> {
    vec![0; BLOCK as usize]
}

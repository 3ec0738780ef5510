//! A frame of a spool's segment: length, number of points, checksum, and lines.
//!
//! ```text
//! 0   u32  bytes of the lines
//! 4   u32  points among them
//! 8   u32  CRC-32C of both numbers above and of the lines
//! 12  ...  lines
//! ```

/// Bytes of the header, before the lines.
pub(super) const HEADER_BYTES: usize = 12;
/// The largest number of bytes of lines in one frame.
pub const LINES_BYTES_MAX: usize = 1 << 20;

/// The contents of a frame's header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Header {
    pub(super) bytes: usize,
    pub(super) points: u32,
    checksum: u32,
}

/// Appends a frame of lines to `out`.
pub(super) fn write(lines: &[u8], points: u32, out: &mut Vec<u8>) {
    let bytes = (lines.len() as u32).to_le_bytes();
    out.extend_from_slice(&bytes);
    out.extend_from_slice(&points.to_le_bytes());
    out.extend_from_slice(&checksum(&bytes, &points.to_le_bytes(), lines).to_le_bytes());
    out.extend_from_slice(lines);
}

fn checksum(bytes: &[u8], points: &[u8], lines: &[u8]) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c_append(crc32c::crc32c(bytes), points), lines)
}

impl Header {
    /// Parses a header. Returns `None` if it cannot be one.
    pub(super) fn read(header: &[u8; HEADER_BYTES]) -> Option<Self> {
        let word =
            |at: usize| u32::from_le_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]]);
        let bytes = word(0) as usize;
        (bytes > 0 && bytes <= LINES_BYTES_MAX).then(|| Self { bytes, points: word(4), checksum: word(8) })
    }

    /// Verifies the checksum of the lines.
    pub(super) fn holds(&self, lines: &[u8]) -> bool {
        let bytes = (self.bytes as u32).to_le_bytes();
        checksum(&bytes, &self.points.to_le_bytes(), lines) == self.checksum
    }
}

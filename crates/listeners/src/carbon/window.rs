//! Memory that a compressed stream needs, according to its first bytes.
//!
//! **Invariant.** A decoder allocates at most what is computed here for the first frame of its stream; a
//! later frame that needs more is refused.

/// Maximum window of zstd: 8 MiB, as the program `zstd` accepts by default.
pub const WINDOW_LOG_MAX: u32 = 23;
/// Minimum that is reserved for a window of zstd: 1 MiB, since later frames may need more.
const WINDOW_LOG_MIN: u32 = 20;
/// State of a zstd decoder in addition to its window: tables, a block, read-ahead.
const ZSTD_BYTES: u64 = 320 << 10;
/// State of a deflate decoder: window and tables.
const GZIP_BYTES: u64 = 64 << 10;
/// State of an lz4 decoder in addition to its blocks: the data that blocks refer to.
const LZ4_BYTES: u64 = 128 << 10;

/// How a stream is compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Packing {
    Gzip,
    Lz4,
    Zstd,
}

/// Why a stream is not opened.
#[derive(Debug, PartialEq, Eq)]
pub enum NoWindow {
    /// More bytes are needed to decide.
    Unclear,
    /// Its window has this many bytes.
    TooLarge(u64),
}

/// Memory of a decoder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    /// Its total bytes.
    pub bytes: u64,
    /// The window of zstd as a power of two.
    pub log: u32,
}

/// The memory for a stream with these first bytes.
pub fn window(packing: Packing, first: &[u8]) -> Result<Window, NoWindow> {
    match packing {
        Packing::Gzip => Ok(Window { bytes: GZIP_BYTES, log: 0 }),
        Packing::Lz4 => {
            let descriptor = first.get(5).ok_or(NoWindow::Unclear)?;
            // A compressed block, and two decompressed ones.
            Ok(Window { bytes: 3 * lz4_block(*descriptor) + LZ4_BYTES, log: 0 })
        }
        Packing::Zstd => {
            let asked = zstd_window(first).ok_or(NoWindow::Unclear)?;
            if asked > 1 << WINDOW_LOG_MAX {
                return Err(NoWindow::TooLarge(asked));
            }
            let log = asked.next_power_of_two().ilog2().max(WINDOW_LOG_MIN);
            Ok(Window { bytes: (1 << log) + ZSTD_BYTES, log })
        }
    }
}

/// Bytes of a block, from the descriptor of an lz4 frame.
fn lz4_block(descriptor: u8) -> u64 {
    match descriptor >> 4 & 7 {
        4 => 64 << 10,
        5 => 256 << 10,
        6 => 1 << 20,
        // The maximum, also for values that the decoder will refuse.
        _ => 4 << 20,
    }
}

/// The window of a zstd frame (RFC 8878, 3.1.1.1); `None` while its header is incomplete.
fn zstd_window(frame: &[u8]) -> Option<u64> {
    let descriptor = *frame.get(4)?;
    if descriptor & 0x20 == 0 {
        let window = *frame.get(5)?;
        let base = 1u64 << (10 + (window >> 3));
        return Some(base + base / 8 * u64::from(window & 7));
    }
    // The window is the content, whose size is after the dictionary's number.
    let at = 5 + [0, 1, 2, 4][usize::from(descriptor & 3)];
    let size = [1, 2, 4, 8][usize::from(descriptor >> 6)];
    let mut bytes = [0; 8];
    bytes[..size].copy_from_slice(frame.get(at..at + size)?);
    let content = u64::from_le_bytes(bytes);
    Some(if size == 2 { content + 256 } else { content })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_are_read_from_frames() {
        let zstd = |rest: &[u8]| window(Packing::Zstd, &[&[0x28, 0xB5, 0x2F, 0xFD][..], rest].concat());
        let of = |log: u32| Ok(Window { bytes: (1 << log) + ZSTD_BYTES, log });
        assert_eq!(zstd(&[0x00]), Err(NoWindow::Unclear));
        assert_eq!(zstd(&[0x00, 0x68]), of(23));
        assert_eq!(zstd(&[0x00, 0x69]), Err(NoWindow::TooLarge(9 << 20)));
        assert_eq!(zstd(&[0x00, 0x00]), of(WINDOW_LOG_MIN));
        assert_eq!(zstd(&[0x20, 7]), of(WINDOW_LOG_MIN), "content with a size of one byte");
        assert_eq!(zstd(&[0xA0, 0, 0, 0x20]), Err(NoWindow::Unclear));
        assert_eq!(zstd(&[0xA0, 1, 0, 0x20, 0]), of(22), "rounded up");
        assert_eq!(zstd(&[0xE3, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0]), Err(NoWindow::TooLarge(1 << 32)));
        let made = zstd::encode_all(&b"line"[..], 3).unwrap();
        assert!(window(Packing::Zstd, &made).is_ok());
        let lz4 = |descriptor| window(Packing::Lz4, &[4, 0x22, 0x4D, 0x18, 0x60, descriptor]);
        assert_eq!(lz4(0x40).map(|w| w.bytes), Ok((192 << 10) + LZ4_BYTES));
        assert_eq!(lz4(0x70).map(|w| w.bytes), Ok((12 << 20) + LZ4_BYTES));
        assert_eq!(window(Packing::Lz4, &[4, 0x22, 0x4D, 0x18, 0x60]), Err(NoWindow::Unclear));
    }
}

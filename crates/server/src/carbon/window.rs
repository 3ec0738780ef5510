//! What a compressed stream takes in memory, as its beginning says.
//!
//! **Invariant.** A decoder allocates at most what is said here of the first frame of its stream; a later
//! frame that asks for more is refused.

use super::unpacked::Packing;

/// The largest window of zstd: 8 MiB, as its own program takes without asking.
pub const WINDOW_LOG_MAX: u32 = 23;
/// The least that is reserved for a window of zstd: a mebibyte, since frames that follow may ask for more.
const WINDOW_LOG_MIN: u32 = 20;
/// State of a decoder of zstd beside its window: tables, a block, what is read ahead.
const ZSTD_BYTES: u64 = 320 << 10;
/// State of a decoder of deflate: window and tables.
const GZIP_BYTES: u64 = 64 << 10;
/// State of a decoder of lz4 beside its blocks: what blocks refer to.
const LZ4_BYTES: u64 = 128 << 10;

/// Why a stream is not opened.
#[derive(Debug, PartialEq, Eq)]
pub enum NoWindow {
    /// More bytes are needed to tell.
    Unclear,
    /// Its window has so many bytes.
    TooLarge(u64),
}

/// Memory of a decoder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    /// Bytes that it takes in all.
    pub bytes: u64,
    /// The window of zstd as a power of two.
    pub log: u32,
}

/// What a stream that begins so needs.
pub fn window(packing: Packing, first: &[u8]) -> Result<Window, NoWindow> {
    match packing {
        Packing::Gzip => Ok(Window { bytes: GZIP_BYTES, log: 0 }),
        Packing::Lz4 => {
            let descriptor = first.get(5).ok_or(NoWindow::Unclear)?;
            // A block as it came, and two of what blocks become.
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

/// Bytes of a block by the descriptor of a frame of lz4.
fn lz4_block(descriptor: u8) -> u64 {
    match descriptor >> 4 & 7 {
        4 => 64 << 10,
        5 => 256 << 10,
        6 => 1 << 20,
        // The largest, also of what the decoder will refuse.
        _ => 4 << 20,
    }
}

/// The window that a frame of zstd asks for (RFC 8878, 3.1.1.1); nothing while its header is not whole.
fn zstd_window(frame: &[u8]) -> Option<u64> {
    let descriptor = *frame.get(4)?;
    if descriptor & 0x20 == 0 {
        let window = *frame.get(5)?;
        let base = 1u64 << (10 + (window >> 3));
        return Some(base + base / 8 * u64::from(window & 7));
    }
    // The window is the content, whose size stands behind the number of a dictionary.
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
    fn windows_are_those_that_frames_say() {
        let zstd = |rest: &[u8]| window(Packing::Zstd, &[&[0x28, 0xB5, 0x2F, 0xFD][..], rest].concat());
        let of = |log: u32| Ok(Window { bytes: (1 << log) + ZSTD_BYTES, log });
        assert_eq!(zstd(&[0x00]), Err(NoWindow::Unclear));
        assert_eq!(zstd(&[0x00, 0x68]), of(23));
        assert_eq!(zstd(&[0x00, 0x69]), Err(NoWindow::TooLarge(9 << 20)));
        assert_eq!(zstd(&[0x00, 0x00]), of(WINDOW_LOG_MIN));
        assert_eq!(zstd(&[0x20, 7]), of(WINDOW_LOG_MIN), "content of a byte's size");
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

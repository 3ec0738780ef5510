//! Streaming decompression of bodies (gzip, deflate, zstd, lz4, framed snappy) up to a byte limit.
//!
//! Output grows in steps, and each step is reserved from the decoder's memory first. Output stops at the
//! limit, so a decompression bomb costs at most the limit. The buffers of the decoders are reserved too.

use std::io::Read;

use crate::error::Error;
use crate::memory::DecoderMemory;

/// A body may grow to this size whatever its ratio is: repetitive logs compress very well.
const RATIO_FREE: u64 = 8 << 20;
/// Beyond that size, at most this number of plain bytes per compressed byte.
const RATIO_MAX: u64 = 100;
/// Largest zstd window that is accepted, as a power of two: 8 MiB, which RFC 8878 requires every decoder
/// to support.
const ZSTD_WINDOW_LOG_MAX: u32 = 23;

/// State of a deflate decoder: window and tables.
const FLATE_BYTES: u64 = 64 << 10;
/// State of a zstd decoder in addition to its window: tables and a block.
const ZSTD_BYTES: u64 = 320 << 10;
/// A compressed and a plain block of snappy's framing format.
const SNAPPY_BYTES: u64 = 160 << 10;

/// Returns the most plain bytes that a body of `compressed` bytes may become: 100 times as many, but at
/// least 8 MiB.
pub fn plain_bytes_max(compressed: u64) -> u64 {
    compressed.saturating_mul(RATIO_MAX).max(RATIO_FREE)
}

/// Returns the most plain bytes that a compressed body may become under the limit.
fn allowed(compressed: usize, limit: u64) -> u64 {
    plain_bytes_max(compressed as u64).min(limit)
}

/// Decompresses a gzip body with all its members.
pub(crate) fn gzip(body: &[u8], limit: u64, memory: &DecoderMemory) -> Result<Vec<u8>, Error> {
    read("gzip", flate2::read::MultiGzDecoder::new(body), bounds(body, limit, FLATE_BYTES), memory)
}

/// Decompresses a deflate body, with zlib's header as HTTP requires, or without it as Go clients send it.
pub(crate) fn deflate(body: &[u8], limit: u64, memory: &DecoderMemory) -> Result<Vec<u8>, Error> {
    let zlib = match body {
        [first, second, ..] => first & 0x0F == 8 && u16::from_be_bytes([*first, *second]) % 31 == 0,
        _ => false,
    };
    if zlib {
        return read(
            "deflate",
            flate2::read::ZlibDecoder::new(body),
            bounds(body, limit, FLATE_BYTES),
            memory,
        );
    }
    read("deflate", flate2::read::DeflateDecoder::new(body), bounds(body, limit, FLATE_BYTES), memory)
}

/// Decompresses a zstd body.
pub(crate) fn zstd(body: &[u8], limit: u64, memory: &DecoderMemory) -> Result<Vec<u8>, Error> {
    let failed = |e: std::io::Error| Error::malformed("zstd", 0, e.to_string());
    let window_log = zstd_window_log(body);
    let window = 1 << window_log;
    memory.take(window)?;
    let mut decoder = zstd::stream::read::Decoder::with_buffer(body).map_err(failed)?;
    decoder.window_log_max(window_log).map_err(failed)?;
    let plain = read("zstd", decoder, bounds(body, limit, ZSTD_BYTES), memory);
    memory.give(window);
    plain
}

/// Decompresses an lz4 frame.
pub(crate) fn lz4(body: &[u8], limit: u64, memory: &DecoderMemory) -> Result<Vec<u8>, Error> {
    read("lz4", lz4_flex::frame::FrameDecoder::new(body), bounds(body, limit, lz4_bytes(body)), memory)
}

/// Decompresses a stream of snappy's framing format.
pub(crate) fn framed_snappy(body: &[u8], limit: u64, memory: &DecoderMemory) -> Result<Vec<u8>, Error> {
    read("framed snappy", snap::read::FrameDecoder::new(body), bounds(body, limit, SNAPPY_BYTES), memory)
}

/// Returns the base-2 logarithm of the window that a zstd frame requires. At least 20 (1 MiB), since
/// later frames may require more than the first.
fn zstd_window_log(body: &[u8]) -> u32 {
    const SINGLE_SEGMENT: u8 = 0x20;
    let log = match body {
        [_, _, _, _, descriptor, window, ..] if descriptor & SINGLE_SEGMENT == 0 => {
            // The mantissa adds up to 7/8 of the base.
            10 + u32::from(window >> 3) + u32::from(window & 7 != 0)
        }
        // A single-segment frame has its content as window, which the size of the body bounds.
        _ => body.len().saturating_mul(RATIO_MAX as usize).next_power_of_two().ilog2(),
    };
    log.clamp(20, ZSTD_WINDOW_LOG_MAX)
}

/// Returns the bytes of an lz4 frame's buffers: a compressed block, and one or two plain ones.
fn lz4_bytes(body: &[u8]) -> u64 {
    let block: u64 = match body.get(5).map(|descriptor| descriptor >> 4 & 7) {
        Some(4) => 64 << 10,
        Some(5) => 256 << 10,
        Some(6) => 1 << 20,
        Some(7) => 4 << 20,
        _ => 8 << 20,
    };
    2 * block.min((body.len() as u64).saturating_mul(255)) + block.min(body.len() as u64) + (128 << 10)
}

/// The bounds of one decompression, in bytes.
struct Bounds {
    /// Most plain bytes.
    allowed: u64,
    /// Expected plain bytes.
    likely: u64,
    /// Buffers of the decoder.
    buffers: u64,
}

fn bounds(body: &[u8], limit: u64, buffers: u64) -> Bounds {
    let allowed = allowed(body.len(), limit);
    Bounds { allowed, likely: (body.len() as u64 * 4).min(allowed), buffers }
}

fn read(
    format: &'static str,
    mut from: impl Read,
    bounds: Bounds,
    memory: &DecoderMemory,
) -> Result<Vec<u8>, Error> {
    let Bounds { allowed, likely, buffers } = bounds;
    memory.take(buffers)?;
    let mut plain = Vec::new();
    let most = allowed as usize + 1;
    memory.widen(&mut plain, likely as usize, most)?;
    loop {
        memory.widen(&mut plain, 1, most)?;
        let room = plain.capacity() - plain.len();
        let result = from.by_ref().take(room as u64).read_to_end(&mut plain);
        if plain.len() as u64 > allowed {
            return Err(Error::DecompressedTooLarge { limit: allowed });
        }
        if result.map_err(|e| Error::malformed(format, plain.len(), e.to_string()))? < room {
            memory.give(buffers);
            return Ok(plain);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use flate2::Compression;

    use super::*;
    use crate::memory::tests::LimitedMemory;

    type Open = fn(&[u8], u64, &DecoderMemory) -> Result<Vec<u8>, Error>;

    fn packed(plain: &[u8]) -> Vec<(&'static str, Open, Vec<u8>)> {
        let mut gz = flate2::write::GzEncoder::new(Vec::new(), Compression::default());
        gz.write_all(plain).unwrap();
        let mut zlib = flate2::write::ZlibEncoder::new(Vec::new(), Compression::default());
        zlib.write_all(plain).unwrap();
        let mut raw = flate2::write::DeflateEncoder::new(Vec::new(), Compression::default());
        raw.write_all(plain).unwrap();
        let mut lz = lz4_flex::frame::FrameEncoder::new(Vec::new());
        lz.write_all(plain).unwrap();
        let mut framed = snap::write::FrameEncoder::new(Vec::new());
        framed.write_all(plain).unwrap();
        vec![
            ("lz4", lz4, lz.finish().unwrap()),
            ("framed snappy", framed_snappy, framed.into_inner().unwrap()),
            ("gzip", gzip, gz.finish().unwrap()),
            ("zlib", deflate, zlib.finish().unwrap()),
            ("raw deflate", deflate, raw.finish().unwrap()),
            ("zstd", zstd, ::zstd::encode_all(plain, 3).unwrap()),
        ]
    }

    #[test]
    fn bodies_are_decompressed_up_to_the_limit() {
        let plain: Vec<u8> = (0..50_000u32).flat_map(|n| format!("line {n}\n").into_bytes()).collect();
        for (name, open, body) in packed(&plain) {
            assert_eq!(open(&body, 1 << 20, &DecoderMemory::default()).unwrap(), plain, "{name}");
            let error = open(&body, 1000, &DecoderMemory::default()).unwrap_err();
            assert_eq!(error, Error::DecompressedTooLarge { limit: 1000 }, "{name}");
            let cut = open(&body[..body.len() / 2], 1 << 20, &DecoderMemory::default());
            assert!(matches!(cut, Err(Error::Malformed { .. })), "{name}");
        }
        assert!(matches!(
            gzip(b"not gzip", 1000, &DecoderMemory::default()),
            Err(Error::Malformed { format: "gzip", .. })
        ));
    }

    #[test]
    fn a_decompression_bomb_stops_at_the_maximum_ratio() {
        let zeros = vec![0; 40 << 20];
        for (name, open, body) in packed(&zeros) {
            let allowed = (body.len() as u64 * RATIO_MAX).max(RATIO_FREE);
            if allowed > zeros.len() as u64 {
                assert_eq!(name, "framed snappy", "the only one that cannot compress that well");
                assert_eq!(open(&body, 64 << 20, &DecoderMemory::default()).unwrap().len(), zeros.len());
                continue;
            }
            let error = open(&body, 64 << 20, &DecoderMemory::default()).unwrap_err();
            assert_eq!(error, Error::DecompressedTooLarge { limit: allowed }, "{name}");
        }
    }

    #[test]
    fn all_members_of_a_gzip_body_are_read() {
        let bodies: Vec<u8> =
            [b"one ".as_slice(), b"two"].iter().flat_map(|p| packed(p)[2].2.clone()).collect();
        assert_eq!(gzip(&bodies, 100, &DecoderMemory::default()).unwrap(), b"one two");
    }

    #[test]
    fn memory_is_reserved_before_a_body_grows() {
        let plain: Vec<u8> = (0..200_000u32).flat_map(|n| format!("line {n}\n").into_bytes()).collect();
        for (name, open, body) in packed(&plain) {
            let purse = LimitedMemory::of(64 << 20);
            let opened = open(&body, 64 << 20, &DecoderMemory::new(purse.clone())).unwrap();
            assert_eq!(purse.held.get(), opened.capacity() as u64, "{name}");
            // A block of lz4 is at most 4 MiB, and three blocks are in memory.
            assert!(purse.peak.get() < 4 * plain.len() as u64 + (13 << 20), "{name}: {}", purse.peak.get());
            let purse = LimitedMemory::of(plain.len() as u64);
            let refused = open(&body, 64 << 20, &DecoderMemory::new(purse.clone()));
            assert!(matches!(refused, Err(Error::MemoryShort { .. })), "{name}");
            assert!(purse.peak.get() <= plain.len() as u64, "{name}");
        }
    }
}

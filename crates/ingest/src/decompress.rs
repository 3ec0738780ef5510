//! Streaming decompression of bodies (gzip, deflate, zstd, lz4, framed snappy) up to a byte limit.
//!
//! Output grows as it is produced and stops at the limit, so a bomb costs at most the limit.

use std::io::Read;

use crate::error::Error;

/// A body may grow to this size whatever its ratio: repetitive logs compress very well.
const RATIO_FREE: u64 = 8 << 20;
/// Beyond that, plain bytes per compressed byte.
const RATIO_MAX: u64 = 100;
/// Largest zstd window that is accepted, as a power of two: 8 MiB, what the format asks of every decoder.
const ZSTD_WINDOW_LOG_MAX: u32 = 23;

/// Plain bytes that a compressed body may become.
fn allowed(compressed: usize, limit: u64) -> u64 {
    (compressed as u64 * RATIO_MAX).max(RATIO_FREE).min(limit)
}

/// Opens a gzip body (all its members).
pub(crate) fn gzip(body: &[u8], limit: u64) -> Result<Vec<u8>, Error> {
    read("gzip", flate2::read::MultiGzDecoder::new(body), body.len(), limit)
}

/// Opens a deflate body: with zlib's header as HTTP has it, or without as Go clients send it.
pub(crate) fn deflate(body: &[u8], limit: u64) -> Result<Vec<u8>, Error> {
    let zlib = match body {
        [first, second, ..] => first & 0x0F == 8 && u16::from_be_bytes([*first, *second]) % 31 == 0,
        _ => false,
    };
    if zlib {
        return read("deflate", flate2::read::ZlibDecoder::new(body), body.len(), limit);
    }
    read("deflate", flate2::read::DeflateDecoder::new(body), body.len(), limit)
}

/// Opens a zstd body.
pub(crate) fn zstd(body: &[u8], limit: u64) -> Result<Vec<u8>, Error> {
    let failed = |e: std::io::Error| Error::malformed("zstd", 0, e.to_string());
    let mut decoder = zstd::stream::read::Decoder::with_buffer(body).map_err(failed)?;
    decoder.window_log_max(ZSTD_WINDOW_LOG_MAX).map_err(failed)?;
    read("zstd", decoder, body.len(), limit)
}

/// Opens an lz4 frame.
pub(crate) fn lz4(body: &[u8], limit: u64) -> Result<Vec<u8>, Error> {
    read("lz4", lz4_flex::frame::FrameDecoder::new(body), body.len(), limit)
}

/// Opens a stream of snappy's framing format.
pub(crate) fn framed_snappy(body: &[u8], limit: u64) -> Result<Vec<u8>, Error> {
    read("framed snappy", snap::read::FrameDecoder::new(body), body.len(), limit)
}

fn read(format: &'static str, from: impl Read, compressed: usize, limit: u64) -> Result<Vec<u8>, Error> {
    let allowed = allowed(compressed, limit);
    let guess = (compressed as u64 * 4).min(allowed);
    let mut plain = Vec::with_capacity(guess as usize);
    let result = from.take(allowed + 1).read_to_end(&mut plain);
    if plain.len() as u64 > allowed {
        return Err(Error::DecompressedTooLarge { limit: allowed });
    }
    result.map_err(|e| Error::malformed(format, plain.len(), e.to_string()))?;
    Ok(plain)
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use flate2::Compression;

    use super::*;

    type Open = fn(&[u8], u64) -> Result<Vec<u8>, Error>;

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
    fn bodies_are_opened_up_to_the_limit() {
        let plain: Vec<u8> = (0..50_000u32).flat_map(|n| format!("line {n}\n").into_bytes()).collect();
        for (name, open, body) in packed(&plain) {
            assert_eq!(open(&body, 1 << 20).unwrap(), plain, "{name}");
            let error = open(&body, 1000).unwrap_err();
            assert_eq!(error, Error::DecompressedTooLarge { limit: 1000 }, "{name}");
            let cut = open(&body[..body.len() / 2], 1 << 20);
            assert!(matches!(cut, Err(Error::Malformed { .. })), "{name}");
        }
        assert!(matches!(gzip(b"not gzip", 1000), Err(Error::Malformed { format: "gzip", .. })));
    }

    #[test]
    fn a_bomb_is_stopped_at_its_ratio() {
        let zeros = vec![0; 40 << 20];
        for (name, open, body) in packed(&zeros) {
            let allowed = (body.len() as u64 * RATIO_MAX).max(RATIO_FREE);
            if allowed > zeros.len() as u64 {
                assert_eq!(name, "framed snappy", "the only one that cannot compress that well");
                assert_eq!(open(&body, 64 << 20).unwrap().len(), zeros.len());
                continue;
            }
            let error = open(&body, 64 << 20).unwrap_err();
            assert_eq!(error, Error::DecompressedTooLarge { limit: allowed }, "{name}");
        }
    }

    #[test]
    fn gzip_members_are_read_one_after_the_other() {
        let bodies: Vec<u8> =
            [b"one ".as_slice(), b"two"].iter().flat_map(|p| packed(p)[2].2.clone()).collect();
        assert_eq!(gzip(&bodies, 100).unwrap(), b"one two");
    }
}

//! Encodes pixels as PNG: eight bits per channel, without an alpha channel if all pixels are opaque.

use std::io::Write;

use flate2::write::ZlibEncoder;
use flate2::{Compression, Crc};

use crate::error::{Error, Result};
use sandur_memory::job::spend;

const SIGNATURE: [u8; 8] = [0x89, b'P', b'N', b'G', b'\r', b'\n', 0x1a, b'\n'];
const OPAQUE: u8 = 2;
const WITH_OPACITY: u8 = 6;
/// The row filter `Up`: each byte is the difference from the row above.
const UP: u8 = 2;

/// Encodes pixels of red, green, blue and alpha, row by row; colours are premultiplied.
pub(super) fn encode(pixels: &[u8], (width, height): (u32, u32), out: &mut Vec<u8>) -> Result<()> {
    spend(pixels.len())?;
    let is_opaque = pixels.iter().skip(3).step_by(4).all(|opacity| *opacity == u8::MAX);
    let kind = if is_opaque { OPAQUE } else { WITH_OPACITY };
    out.extend_from_slice(&SIGNATURE);
    let mut header = Vec::with_capacity(13);
    header.extend_from_slice(&width.to_be_bytes());
    header.extend_from_slice(&height.to_be_bytes());
    header.extend_from_slice(&[8, kind, 0, 0, 0]);
    chunk(out, *b"IHDR", &header)?;
    chunk(out, *b"IDAT", &packed(pixels, width as usize * 4, is_opaque).map_err(failed)??)?;
    chunk(out, *b"IEND", &[])
}

fn failed(error: std::io::Error) -> Error {
    Error::invalid(format!("an image cannot be compressed: {error}"))
}

fn chunk(out: &mut Vec<u8>, kind: [u8; 4], data: &[u8]) -> Result<()> {
    let length = u32::try_from(data.len());
    let length = length.map_err(|_| Error::Limit("an image of more than 4 GiB".to_owned()))?;
    let mut crc = Crc::new();
    crc.update(&kind);
    crc.update(data);
    out.extend_from_slice(&length.to_be_bytes());
    out.extend_from_slice(&kind);
    out.extend_from_slice(data);
    out.extend_from_slice(&crc.sum().to_be_bytes());
    Ok(())
}

fn packed(pixels: &[u8], row_bytes: usize, is_opaque: bool) -> std::io::Result<Result<Vec<u8>>> {
    let mut encoder = ZlibEncoder::new(Vec::new(), Compression::default());
    let (mut above, mut row, mut filtered) = (Vec::new(), Vec::new(), Vec::new());
    for pixels in pixels.chunks_exact(row_bytes) {
        if let Err(stopped) = spend(row_bytes * 4) {
            return Ok(Err(stopped.into()));
        }
        row.clear();
        for pixel in pixels.as_chunks::<4>().0 {
            let [red, green, blue, opacity] = *pixel;
            row.extend([red, green, blue].map(|part| divided(part, opacity)));
            if !is_opaque {
                row.push(opacity);
            }
        }
        above.resize(row.len(), 0);
        filtered.clear();
        filtered.push(UP);
        filtered.extend(row.iter().zip(&above).map(|(own, above): (&u8, &u8)| own.wrapping_sub(*above)));
        encoder.write_all(&filtered)?;
        std::mem::swap(&mut row, &mut above);
    }
    encoder.finish().map(Ok)
}

/// A colour channel before premultiplication by the opacity.
fn divided(part: u8, opacity: u8) -> u8 {
    match opacity {
        0 | u8::MAX => part,
        _ => ((u32::from(part) * 255 + u32::from(opacity) / 2) / u32::from(opacity)).min(255) as u8,
    }
}

#[cfg(test)]
pub(super) mod tests {
    use std::io::Read;

    use super::*;

    /// A decoded image.
    pub(in crate::picture) struct Decoded {
        pub(in crate::picture) size: (usize, usize),
        /// The bytes of a pixel.
        pub(in crate::picture) parts: usize,
        pub(in crate::picture) pixels: Vec<u8>,
    }

    impl Decoded {
        pub(in crate::picture) fn at(&self, x: usize, y: usize) -> &[u8] {
            let begin = (y * self.size.0 + x) * self.parts;
            &self.pixels[begin..begin + self.parts]
        }

        /// The number of pixels for which a test holds.
        pub(in crate::picture) fn count(&self, holds: impl Fn(&[u8]) -> bool) -> usize {
            self.pixels.chunks(self.parts).filter(|pixel| holds(pixel)).count()
        }
    }

    fn number(bytes: &[u8]) -> usize {
        u32::from_be_bytes(bytes.try_into().unwrap()) as usize
    }

    /// Decodes the output of [`encode`], and checks that it is complete.
    pub(in crate::picture) fn decode(picture: &[u8]) -> Decoded {
        let mut rest = picture.strip_prefix(&SIGNATURE).unwrap();
        let mut chunks = Vec::new();
        while !rest.is_empty() {
            let (kind, data) = (&rest[4..8], &rest[8..8 + number(&rest[..4])]);
            let mut crc = Crc::new();
            crc.update(&rest[4..8 + data.len()]);
            assert_eq!(number(&rest[8 + data.len()..][..4]), crc.sum() as usize);
            chunks.push((kind, data));
            rest = &rest[12 + data.len()..];
        }
        let [(b"IHDR", header), (b"IDAT", data), (b"IEND", [])] = chunks[..] else { panic!("{chunks:?}") };
        let size = (number(&header[..4]), number(&header[4..8]));
        let parts = if header[9] == OPAQUE { 3 } else { 4 };
        let mut filtered = Vec::new();
        flate2::read::ZlibDecoder::new(data).read_to_end(&mut filtered).unwrap();
        assert_eq!(filtered.len(), size.1 * (size.0 * parts + 1));
        let mut pixels: Vec<u8> = Vec::new();
        for (place, row) in filtered.chunks(size.0 * parts + 1).enumerate() {
            for (column, part) in row[1..].iter().enumerate() {
                let above = if place == 0 { 0 } else { pixels[pixels.len() - size.0 * parts] };
                assert!(row[0] == UP && column < size.0 * parts);
                pixels.push(part.wrapping_add(above));
            }
        }
        Decoded { size, parts, pixels }
    }

    #[test]
    fn pixels_are_encoded_with_and_without_opacity() {
        let mut out = Vec::new();
        encode(&[1, 2, 3, 255, 4, 5, 6, 255, 7, 8, 9, 255, 1, 1, 1, 255], (2, 2), &mut out).unwrap();
        let read = decode(&out);
        assert_eq!((read.size, read.parts), ((2, 2), 3));
        assert_eq!(read.pixels, [1, 2, 3, 4, 5, 6, 7, 8, 9, 1, 1, 1]);
        let mut out = Vec::new();
        encode(&[64, 0, 32, 128, 0, 0, 0, 0], (1, 2), &mut out).unwrap();
        assert_eq!(decode(&out).pixels, [128, 0, 64, 128, 0, 0, 0, 0]);
    }
}

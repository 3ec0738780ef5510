//! Detects the content of an input: text, compressed text, or something that is not text.
//!
//! The first bytes decide, not the name. The memory of decoders is bounded by [`DECODER_BYTES_MAX`],
//! whatever a file declares.

use std::io::{self, BufReader, Cursor, ErrorKind, Read};

/// Maximum window of a decoder: enough for `xz -9` and `zstd -19 --long`.
const DECODER_BYTES_MAX: u32 = 128 << 20;
/// Number of bytes that are inspected.
const LOOK_BYTES: usize = 8 << 10;

/// An input that can be read.
pub type Input = Box<dyn Read + Send>;

/// An input and its content.
pub enum Opened {
    /// Text.
    Plain(Input),
    /// Compressed text, which is decompressed while reading.
    Compressed(Input),
    /// Not text; a description of it.
    Binary(&'static str),
}

/// Inspects the start of an input.
pub fn open(mut input: Input) -> io::Result<Opened> {
    let start = look(&mut input)?;
    let whole = Cursor::new(start.clone()).chain(input);
    let decoded: Input = match &start[..] {
        [0x1F, 0x8B, ..] => Box::new(flate2::read::MultiGzDecoder::new(whole)),
        [0x28, 0xB5, 0x2F, 0xFD, ..] => {
            let mut decoder = zstd::stream::read::Decoder::new(whole)?;
            decoder.window_log_max(DECODER_BYTES_MAX.ilog2())?;
            Box::new(decoder)
        }
        [0xFD, b'7', b'z', b'X', b'Z', 0, ..] => {
            let buffered = BufReader::new(whole);
            Box::new(lzma_rust2::XzReader::new_mem_limit(buffered, true, DECODER_BYTES_MAX >> 10))
        }
        [b'B', b'Z', b'h', b'1'..=b'9', 0x31, 0x41, 0x59, 0x26, 0x53, 0x59, ..] => {
            Box::new(bzip2::read::MultiBzDecoder::new(whole))
        }
        _ => {
            return Ok(match binary(&start) {
                Some(what) => Opened::Binary(what),
                None => Opened::Plain(Box::new(whole)),
            });
        }
    };
    open_decoded(decoded)
}

fn open_decoded(mut decoded: Input) -> io::Result<Opened> {
    // An error here is returned again when the input is read.
    let mut start = Vec::new();
    let damage = fill(&mut decoded, &mut start).err();
    if let Some(what) = binary(&start) {
        return Ok(Opened::Binary(what));
    }
    Ok(Opened::Compressed(Box::new(Cursor::new(start).chain(Broken(damage)).chain(decoded))))
}

/// Returns an error that occurred during the inspection when reading reaches its place.
struct Broken(Option<io::Error>);

impl Read for Broken {
    fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
        self.0.take().map_or(Ok(0), Err)
    }
}

fn look(input: &mut Input) -> io::Result<Vec<u8>> {
    let mut start = Vec::new();
    fill(input, &mut start)?;
    Ok(start)
}

/// Magic numbers of compressed formats.
const MAGICS: [&[u8]; 4] = [b"\x1F\x8B", b"\x28\xB5\x2F\xFD", b"\xFD7zXZ\0", b"BZh"];

/// Whether more bytes are needed to identify the input.
fn is_open(start: &[u8]) -> bool {
    let may_be = |magic: &&[u8]| magic.starts_with(start) || start.starts_with(magic);
    start.len() < 10 && MAGICS.iter().any(may_be)
}

/// Reads as much as is needed to identify the input and not more: the writer of a pipe may pause after
/// its first line.
fn fill(input: &mut Input, start: &mut Vec<u8>) -> io::Result<()> {
    let mut piece = [0; LOOK_BYTES];
    while is_open(start) {
        match input.read(&mut piece[start.len()..]) {
            Ok(0) => break,
            Ok(n) => {
                let from = start.len();
                start.extend_from_slice(&piece[from..from + n]);
            }
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// The UTF-8 byte-order mark, which programs on Windows put at the start of a text. It is not part of the
/// first line.
pub const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// A description of data that is not text; `None` for text.
pub fn binary(start: &[u8]) -> Option<&'static str> {
    let known: [(&[u8], &str); 8] = [
        (b"\x7fELF", "a program (ELF)"),
        (b"PK\x03\x04", "a ZIP archive"),
        (b"LPKSHHRH", "a systemd journal: push the output of `journalctl -o short-iso-precise`"),
        (b"\xff\xfe", "UTF-16: convert it with `iconv -f UTF-16 -t UTF-8`"),
        (b"\xfe\xff", "UTF-16: convert it with `iconv -f UTF-16 -t UTF-8`"),
        (b"SQLite format 3\0", "an SQLite database"),
        (b"\x89PNG", "an image"),
        (b"%PDF-", "a PDF document"),
    ];
    if let Some((_, what)) = known.iter().find(|(magic, _)| start.starts_with(magic)) {
        return Some(what);
    }
    if start.contains(&0) {
        return Some("binary data: it contains NUL bytes");
    }
    let invalid: usize = start.utf8_chunks().map(|chunk| chunk.invalid().len()).sum();
    let control = start.iter().filter(|b| b.is_ascii_control() && !b"\t\r\n\x08\x0c\x1b".contains(b)).count();
    // Text in a legacy encoding contains some such bytes, but less than a quarter, even in languages with
    // many accents.
    let is_noise = start.len() >= 32 && (invalid + control) * 4 > start.len();
    is_noise.then_some("binary data: most of it is not text")
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    fn text() -> Vec<u8> {
        (0..50_000).flat_map(|n| format!("line {n} of the text\n").into_bytes()).collect()
    }

    fn gzip(text: &[u8]) -> Vec<u8> {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        encoder.write_all(text).unwrap();
        encoder.finish().unwrap()
    }

    fn forms() -> Vec<(&'static str, Vec<u8>)> {
        let text = text();
        let (first, second) = text.split_at(text.len() / 2);
        let mut xz = lzma_rust2::XzWriter::new(Vec::new(), lzma_rust2::XzOptions::with_preset(1)).unwrap();
        xz.write_all(&text).unwrap();
        let mut bz = bzip2::write::BzEncoder::new(Vec::new(), bzip2::Compression::fast());
        bz.write_all(&text).unwrap();
        let zstd = |part: &[u8]| zstd::encode_all(part, 1).unwrap();
        vec![
            ("gzip of two members", [gzip(first), gzip(second)].concat()),
            ("zstd of two frames", [zstd(first), zstd(second)].concat()),
            ("xz", xz.finish().unwrap()),
            ("bzip2", bz.finish().unwrap()),
        ]
    }

    fn boxed(bytes: &[u8]) -> Input {
        Box::new(Cursor::new(bytes.to_vec()))
    }

    #[test]
    fn compressed_files_are_read_by_their_first_bytes() {
        for (name, packed) in forms() {
            let Ok(Opened::Compressed(mut input)) = open(boxed(&packed)) else { panic!("{name}") };
            let mut read = Vec::new();
            input.read_to_end(&mut read).unwrap();
            assert!(read == text(), "{name}");
        }
    }

    #[test]
    fn a_truncated_compressed_file_returns_its_content_and_then_an_error() {
        for (name, packed) in forms() {
            let cut = &packed[..packed.len() - 20];
            let Ok(Opened::Compressed(mut input)) = open(boxed(cut)) else { panic!("{name}") };
            let mut read = Vec::new();
            let outcome = input.read_to_end(&mut read);
            assert!(outcome.is_err(), "{name}: a truncated file must not pass as complete");
            assert!(text().starts_with(&read), "{name}");
            for length in 0..30.min(packed.len()) {
                // Truncation at any length must not panic.
                if let Ok(Opened::Compressed(mut input)) = open(boxed(&packed[..length])) {
                    let _ = input.read_to_end(&mut Vec::new());
                }
            }
        }
    }

    #[test]
    fn binary_files_are_distinguished_from_text() {
        let noise: Vec<u8> =
            (0..4_000u32).map(|n| 1 + (n.wrapping_mul(2_654_435_761) >> 13) as u8 % 255).collect();
        for (is_text, bytes) in [
            (true, "Grüße, 日本語\n".as_bytes().to_vec()),
            (true, b"caf\xe9 d\xe9j\xe0 vu in Latin 1, as old programs write\n".to_vec()),
            (true, Vec::new()),
            (true, b"\xff\n".to_vec()),
            (false, b"\x7fELF\x02\x01\x01".to_vec()),
            (false, b"text\0text".to_vec()),
            (false, b"\xff\xfea\0b\0".to_vec()),
            (false, noise),
            (false, gzip(b"ustar\0\0\0\0 an archive")),
        ] {
            let opened = open(boxed(&bytes)).unwrap();
            assert_eq!(!matches!(opened, Opened::Binary(_)), is_text, "{:?}", &bytes[..bytes.len().min(20)]);
        }
    }
}

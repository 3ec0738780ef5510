//! A stream of bytes in frames, each with a checksum over its content, its number and its save.
//!
//! Invariant: a reader returns only bytes of frames whose checksums match.

use std::io::{self, Read, Write};

use super::files::SaveId;

/// Most bytes of a frame's content: enough to write at the disk's full speed.
pub(super) const FRAME_BYTES: usize = 256 << 10;
/// Bytes of checksum and length.
const HEADER: usize = 8;

/// The checksum of frame `number` of a save.
fn checksum(save: &SaveId, number: u64, content: &[u8]) -> u32 {
    let sum = crc32c::crc32c(save);
    let sum = crc32c::crc32c_append(sum, &number.to_le_bytes());
    let sum = crc32c::crc32c_append(sum, &(content.len() as u32).to_le_bytes());
    crc32c::crc32c_append(sum, content)
}

/// Divides a stream into frames.
pub(super) struct FrameWriter<W> {
    file: W,
    save: SaveId,
    number: u64,
    /// Space for the header, then the content.
    frame: Vec<u8>,
    written: u64,
}

impl<W: Write> FrameWriter<W> {
    pub fn new(file: W, save: SaveId) -> Self {
        let mut frame = Vec::with_capacity(HEADER + FRAME_BYTES);
        frame.resize(HEADER, 0);
        Self { file, save, number: 0, frame, written: 0 }
    }

    pub fn put(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            let room = HEADER + FRAME_BYTES - self.frame.len();
            let (now, later) = bytes.split_at(bytes.len().min(room));
            self.frame.extend_from_slice(now);
            bytes = later;
            if self.frame.len() == HEADER + FRAME_BYTES {
                self.end_frame()?;
            }
        }
        Ok(())
    }

    /// Writes the last frame. Returns the file and the number of bytes of all frames.
    pub fn finish(mut self) -> io::Result<(W, u64)> {
        if self.frame.len() > HEADER {
            self.end_frame()?;
        }
        Ok((self.file, self.written))
    }

    fn end_frame(&mut self) -> io::Result<()> {
        let content = &self.frame[HEADER..];
        let (sum, length) = (checksum(&self.save, self.number, content), content.len() as u32);
        self.frame[..4].copy_from_slice(&sum.to_le_bytes());
        self.frame[4..HEADER].copy_from_slice(&length.to_le_bytes());
        self.file.write_all(&self.frame)?;
        self.written += self.frame.len() as u64;
        self.number += 1;
        self.frame.truncate(HEADER);
        Ok(())
    }
}

/// Why reading of a stream cannot continue.
#[derive(Debug)]
pub(super) enum Broken {
    /// A frame is invalid, or the stream ends too early.
    Damaged(&'static str),
    Unreadable(io::Error),
}

impl From<io::Error> for Broken {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::UnexpectedEof => Self::Damaged("it ends too early"),
            _ => Self::Unreadable(error),
        }
    }
}

/// Reads a stream from its frames.
pub(super) struct FrameReader<R> {
    file: R,
    save: SaveId,
    number: u64,
    frame: Vec<u8>,
    used: usize,
}

impl<R: Read> FrameReader<R> {
    pub fn new(file: R, save: SaveId) -> Self {
        Self { file, save, number: 0, frame: Vec::new(), used: 0 }
    }

    /// Fills `into` with the next bytes.
    pub fn fill(&mut self, into: &mut [u8]) -> Result<(), Broken> {
        let mut filled = 0;
        self.take(into.len() as u64, |bytes| {
            into[filled..filled + bytes.len()].copy_from_slice(bytes);
            filled += bytes.len();
        })
    }

    /// Appends the next `count` bytes to `onto`.
    pub fn append(&mut self, count: u64, onto: &mut Vec<u8>) -> Result<(), Broken> {
        self.take(count, |bytes| onto.extend_from_slice(bytes))
    }

    /// Skips the next `count` bytes.
    pub fn skip(&mut self, count: u64) -> Result<(), Broken> {
        self.take(count, |_| ())
    }

    fn take(&mut self, mut count: u64, mut see: impl FnMut(&[u8])) -> Result<(), Broken> {
        while count > 0 {
            if self.used == self.frame.len() {
                self.next_frame()?;
            }
            let rest = &self.frame[self.used..];
            let now = usize::try_from(count).unwrap_or(usize::MAX).min(rest.len());
            see(&rest[..now]);
            self.used += now;
            count -= now as u64;
        }
        Ok(())
    }

    fn next_frame(&mut self) -> Result<(), Broken> {
        let mut header = [0; HEADER];
        self.file.read_exact(&mut header)?;
        let [a, b, c, d, rest @ ..] = header;
        let (sum, length) = (u32::from_le_bytes([a, b, c, d]), u32::from_le_bytes(rest) as usize);
        if length == 0 || length > FRAME_BYTES {
            return Err(Broken::Damaged("a frame has an impossible length"));
        }
        self.frame.resize(length, 0);
        self.used = length;
        self.file.read_exact(&mut self.frame)?;
        if checksum(&self.save, self.number, &self.frame) != sum {
            return Err(Broken::Damaged("the checksum of a frame is wrong"));
        }
        self.number += 1;
        self.used = 0;
        Ok(())
    }
}

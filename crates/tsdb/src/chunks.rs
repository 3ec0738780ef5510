//! Reads chunks from the files of a block.

use crate::bytes::Bytes;
use crate::checksum::verified;
use crate::error::Error;
use crate::source::{ReadAt, read_range};

const MAGIC: u32 = 0x85BD_40DD;
/// Bytes of magic, version and padding.
const HEAD_BYTES: u64 = 8;
/// Largest chunk: those of Prometheus have about a KiB, large histograms some hundred.
const CHUNK_BYTES_MAX: u64 = 16 << 20;
/// Bytes that are read at once. Chunks of a series follow each other, and series follow each other.
const WINDOW_BYTES: u64 = 1 << 20;

/// The files of chunks of a block, with a window of one of them.
pub struct Chunks<R> {
    files: Vec<(R, u64)>,
    window: Vec<u8>,
    /// File and position of the window.
    window_at: (usize, u64),
}

impl<R: ReadAt> Chunks<R> {
    /// Opens the files, in the order of their names (`000001`, `000002`, ...).
    pub fn open(files: Vec<R>) -> Result<Self, Error> {
        let mut open = Vec::with_capacity(files.len());
        for file in files {
            let (what, size) = ("a file of chunks", file.size()?);
            let head = read_range(&file, (what, HEAD_BYTES), 0, HEAD_BYTES)?;
            let mut from = Bytes::new(what, &head);
            if from.u32()? != MAGIC || from.u8()? != 1 {
                return Err(Error::Kind { what: "a file of chunks of version 1" });
            }
            open.push((file, size));
        }
        Ok(Self { files: open, window: Vec::new(), window_at: (usize::MAX, 0) })
    }

    /// Reads a chunk: the byte of its encoding and its data. Its checksum is verified.
    pub fn read(&mut self, reference: u64) -> Result<&[u8], Error> {
        let (file, at) = ((reference >> 32) as usize, reference & 0xFFFF_FFFF);
        let what = "a chunk";
        let size = self.files.get(file).map(|(_, size)| *size).ok_or(Error::Malformed { what })?;
        let left = size.checked_sub(at).filter(|left| *left > 0).ok_or(Error::Malformed { what })?;
        let head = self.bytes((file, at), left.min(5))?;
        let mut from = Bytes::new(what, head);
        let length = from.uvarint()?;
        let start = at + (head.len() - from.remaining()) as u64;
        if length > CHUNK_BYTES_MAX {
            return Err(Error::TooLarge { what, found: length, limit: CHUNK_BYTES_MAX });
        }
        // The length does not count the byte of the encoding.
        let end = start + 1 + length + 4;
        if end > size {
            return Err(Error::Truncated { what, offset: at, needed: end - size });
        }
        let bytes = self.bytes((file, start), end - start)?;
        verified(what, start, bytes)
    }

    fn bytes(&mut self, (file, at): (usize, u64), length: u64) -> Result<&[u8], Error> {
        let (in_file, from) = self.window_at;
        if in_file != file || at < from || at + length > from + self.window.len() as u64 {
            let (source, size) = &self.files[file];
            let wanted = length.max(WINDOW_BYTES).min(size - at);
            let limit = CHUNK_BYTES_MAX + WINDOW_BYTES;
            self.window = read_range(source, ("a chunk", limit), at, wanted)?;
            self.window_at = (file, at);
        }
        let start = (at - self.window_at.1) as usize;
        self.window.get(start..start + length as usize).ok_or(Error::Malformed { what: "a chunk" })
    }
}

//! The file that is read.

use std::fs::File;
use std::os::unix::fs::FileExt;

use crate::error::Error;

/// A file that can be read at any position.
pub trait ReadAt {
    /// The size in bytes.
    fn size(&self) -> Result<u64, Error>;
    /// Fills `buffer` from a position.
    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> Result<(), Error>;
}

impl ReadAt for File {
    fn size(&self) -> Result<u64, Error> {
        let metadata = self.metadata().map_err(|error| Error::Io { offset: 0, reason: error.to_string() })?;
        Ok(metadata.len())
    }

    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> Result<(), Error> {
        let failed = |error: std::io::Error| Error::Io { offset, reason: error.to_string() };
        FileExt::read_exact_at(self, buffer, offset).map_err(failed)
    }
}

impl ReadAt for &[u8] {
    fn size(&self) -> Result<u64, Error> {
        Ok(self.len() as u64)
    }

    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> Result<(), Error> {
        let start = usize::try_from(offset).ok();
        let piece = start.and_then(|start| self.get(start..)?.get(..buffer.len()));
        match piece {
            Some(piece) => {
                buffer.copy_from_slice(piece);
                Ok(())
            }
            None => {
                let end = offset.saturating_add(buffer.len() as u64);
                let needed = end.saturating_sub(self.len() as u64);
                Err(Error::Truncated { what: "the file", offset, needed })
            }
        }
    }
}

/// Reads a range, after its end was compared with the size of the file and its length with a limit.
pub fn read_range(
    source: &impl ReadAt,
    (what, limit): (&'static str, u64),
    offset: u64,
    length: u64,
) -> Result<Vec<u8>, Error> {
    if length > limit {
        return Err(Error::TooLarge { what, found: length, limit });
    }
    let (size, end) = (source.size()?, offset.saturating_add(length));
    if end > size {
        return Err(Error::Truncated { what, offset, needed: end - size });
    }
    let mut bytes = vec![0; length as usize];
    source.read_exact_at(&mut bytes, offset)?;
    Ok(bytes)
}

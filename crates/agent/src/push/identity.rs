//! Identifies a file independently of its name: by device, inode and a hash of its first bytes.
//!
//! The hash distinguishes a known file from a new one with the inode of a deleted file, and from one that
//! was truncated and rewritten.

use std::fs::{File, Metadata};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};

use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::xxh3_64;

/// Maximum number of bytes that a fingerprint covers.
const FINGERPRINT_BYTES: usize = 1 << 10;

/// The file on its file system.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Identity {
    /// The device.
    pub device: u64,
    /// The inode.
    pub inode: u64,
}

impl Identity {
    /// The identity of a file.
    pub fn of(metadata: &Metadata) -> Self {
        Self { device: metadata.dev(), inode: metadata.ino() }
    }
}

/// A hash of the first bytes of a file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fingerprint {
    length: u32,
    hash: u64,
}

impl Fingerprint {
    /// The fingerprint of at most the first `limit` bytes.
    pub fn of(file: &File, limit: u64) -> io::Result<Self> {
        let bytes = first_bytes(file, limit.min(FINGERPRINT_BYTES as u64) as usize)?;
        Ok(Self { length: bytes.len() as u32, hash: xxh3_64(&bytes) })
    }

    /// Whether the file begins with the bytes of the fingerprint.
    pub fn matches(&self, file: &File) -> io::Result<bool> {
        let bytes = first_bytes(file, (self.length as usize).min(FINGERPRINT_BYTES))?;
        Ok(bytes.len() == self.length as usize && (bytes.is_empty() || xxh3_64(&bytes) == self.hash))
    }

    /// Whether the fingerprint could cover more bytes.
    pub fn is_short(&self) -> bool {
        (self.length as usize) < FINGERPRINT_BYTES
    }
}

fn first_bytes(file: &File, limit: usize) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; limit];
    let mut read = 0;
    while read < limit {
        match file.read_at(&mut bytes[read..], read as u64) {
            Ok(0) => break,
            Ok(n) => read += n,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    bytes.truncate(read);
    Ok(bytes)
}

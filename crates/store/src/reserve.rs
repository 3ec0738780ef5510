//! Reserves a little space of a local directory for the catalog.
//!
//! On a full disk nothing can be deleted before the delete is recorded in a catalog entry, which must be
//! written. So a file of [`RESERVE_BYTES`] reserves space from the start. When there is no space for a
//! catalog entry, the file is truncated and the entry is written again. Until the reserve can be taken
//! back, nothing else is written, because the WAL and blocks would use the space that garbage collection
//! needs. Each writer of those first tries to take the reserve back, so that writing resumes
//! automatically.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use rustix::fs::FallocateFlags;

/// The name of the file in the store's root; never listed.
pub(crate) const RESERVE_NAME: &str = "RESERVE";

/// Size of the reserve in bytes: a few hundred catalog entries.
pub(crate) const RESERVE_BYTES: u64 = 1 << 20;

/// The reserved space of a directory.
#[derive(Debug)]
pub(crate) struct DiskReserve {
    file: PathBuf,
    is_held: Mutex<bool>,
}

impl DiskReserve {
    /// The reserve of a store's directory, not taken yet.
    pub fn of(root: &Path) -> Self {
        Self { file: root.join(RESERVE_NAME), is_held: Mutex::new(false) }
    }

    /// Whether the reserve was taken when this was last known. Never blocks.
    pub fn is_held(&self) -> bool {
        self.is_held.try_lock().is_ok_and(|held| *held)
    }

    /// Takes the reserve if it is not taken; fails without space. Blocks.
    pub fn hold(&self) -> io::Result<()> {
        let mut held = self.is_held.lock().unwrap_or_else(PoisonError::into_inner);
        if !*held {
            take_space(&self.file)?;
            *held = true;
        }
        Ok(())
    }

    /// Frees the reserve for the next write; returns false if it was free already. Blocks.
    pub fn release(&self) -> io::Result<bool> {
        let mut held = self.is_held.lock().unwrap_or_else(PoisonError::into_inner);
        if !std::mem::take(&mut *held) {
            return Ok(false);
        }
        OpenOptions::new().write(true).open(&self.file)?.set_len(0)?;
        tracing::error!(
            file = %self.file.display(),
            "the disk is full: the reserve is used for the catalog, so that retention and deletes can \
             free space"
        );
        Ok(true)
    }
}

fn take_space(path: &Path) -> io::Result<()> {
    let mut options = OpenOptions::new();
    let mut file = options.create(true).write(true).truncate(false).open(path)?;
    match rustix::fs::fallocate(&file, FallocateFlags::empty(), 0, RESERVE_BYTES) {
        Ok(()) => {}
        // Without support for fallocate, writes the bytes.
        Err(rustix::io::Errno::OPNOTSUPP | rustix::io::Errno::NOSYS) => fill(&mut file)?,
        Err(errno) => {
            // Frees what was allocated before the failure.
            let _ = file.set_len(0);
            return Err(errno.into());
        }
    }
    Ok(())
}

fn fill(file: &mut File) -> io::Result<()> {
    let piece = [0x5A; 64 << 10];
    let mut left = RESERVE_BYTES;
    while left > 0 {
        let some = left.min(piece.len() as u64);
        if let Err(error) = file.write_all(&piece[..some as usize]) {
            let _ = file.set_len(0);
            return Err(error);
        }
        left -= some;
    }
    file.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reserve_is_taken_released_once_and_taken_back() {
        let dir = tempfile::tempdir().unwrap();
        let reserve = DiskReserve::of(dir.path());
        let bytes = || std::fs::metadata(dir.path().join(RESERVE_NAME)).unwrap().len();
        assert!(!reserve.is_held());
        reserve.hold().unwrap();
        assert!(reserve.is_held() && bytes() == RESERVE_BYTES);
        assert!(reserve.release().unwrap() && !reserve.is_held() && bytes() == 0);
        assert!(!reserve.release().unwrap(), "the reserve is free already");
        reserve.hold().unwrap();
        reserve.hold().unwrap();
        assert!(reserve.is_held() && bytes() == RESERVE_BYTES);
        assert!(DiskReserve::of(&dir.path().join("none")).hold().is_err());
    }
}

//! A little space of a local directory that is kept back for the catalog.
//!
//! On a full disk nothing can be deleted without writing first what is deleted: a catalog entry. So a file of
//! [`RESERVE_BYTES`] holds space from the start. When a catalog entry finds no space the file is emptied and
//! the entry is written again. Until the space can be taken back nothing else is written: the WAL and blocks
//! would eat what garbage collection needs to free some. A writer of those tries to take it back
//! first, so that writing goes on by itself.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use rustix::fs::FallocateFlags;

/// The name of the file in the store's root; never listed.
pub(crate) const RESERVE_NAME: &str = "RESERVE";

/// Bytes that are kept back: some hundred catalog entries.
pub(crate) const RESERVE_BYTES: u64 = 1 << 20;

/// The space that is kept back in a directory.
#[derive(Debug)]
pub(crate) struct Reserve {
    file: PathBuf,
    is_held: Mutex<bool>,
}

impl Reserve {
    /// The reserve of a store's directory; not held yet.
    pub fn of(root: &Path) -> Self {
        Self { file: root.join(RESERVE_NAME), is_held: Mutex::new(false) }
    }

    /// Whether it was held at the last look. Never waits.
    pub fn is_held(&self) -> bool {
        self.is_held.try_lock().is_ok_and(|held| *held)
    }

    /// Takes the space, if it is not held; fails when there is none. Blocks.
    pub fn hold(&self) -> io::Result<()> {
        let mut held = self.is_held.lock().unwrap_or_else(PoisonError::into_inner);
        if !*held {
            take_space(&self.file)?;
            *held = true;
        }
        Ok(())
    }

    /// Gives the space to the next write; false when it was given away before. Blocks.
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
        // Not every file system can: then bytes are written.
        Err(rustix::io::Errno::OPNOTSUPP | rustix::io::Errno::NOSYS) => fill(&mut file)?,
        Err(errno) => {
            // What it got before it failed belongs to others.
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
    fn the_space_is_taken_given_away_once_and_taken_back() {
        let dir = tempfile::tempdir().unwrap();
        let reserve = Reserve::of(dir.path());
        let bytes = || std::fs::metadata(dir.path().join(RESERVE_NAME)).unwrap().len();
        assert!(!reserve.is_held());
        reserve.hold().unwrap();
        assert!(reserve.is_held() && bytes() == RESERVE_BYTES);
        assert!(reserve.release().unwrap() && !reserve.is_held() && bytes() == 0);
        assert!(!reserve.release().unwrap(), "there is nothing left to give");
        reserve.hold().unwrap();
        reserve.hold().unwrap();
        assert!(reserve.is_held() && bytes() == RESERVE_BYTES);
        assert!(Reserve::of(&dir.path().join("none")).hold().is_err());
    }
}

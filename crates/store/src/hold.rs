//! The exclusive lock of a local directory, and the check that the directory is still the locked one.
//!
//! The lock is advisory, and the kernel releases it when the process dies. Both the directory itself and
//! the file `LOCK` in it are locked. The file shows other processes who holds the lock. The directory
//! can be locked even on a full or read-only disk. Some network file systems lock only files.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};

use rustix::fs::FlockOperation;
use rustix::io::Errno;

use crate::error::Error;

/// The name of the lock file in the store's root; never listed.
pub(crate) const LOCK_NAME: &str = "LOCK";

/// The lock of a directory. Dropping it releases the lock.
#[derive(Debug)]
pub(crate) struct Hold {
    path: PathBuf,
    directory: File,
    #[expect(dead_code, reason = "held for its lock")]
    file: Option<File>,
}

/// Why a directory could not be locked.
#[derive(Debug)]
pub(crate) enum Refusal {
    /// Another process holds the lock.
    InUse(Error),
    /// Locking failed.
    Failed(io::Error),
}

impl From<io::Error> for Refusal {
    fn from(error: io::Error) -> Self {
        Self::Failed(error)
    }
}

impl Hold {
    /// Locks an existing directory. Blocks.
    pub fn take(root: &Path) -> Result<Self, Refusal> {
        let directory = File::open(root)?;
        let directory_locked = match lock(&directory) {
            Err(Errno::WOULDBLOCK) => return Err(in_use(root)),
            locked => locked,
        };
        let file = match lock_file(root) {
            Ok(file) => Some(file),
            Err(Refusal::Failed(error)) if is_unwritable(&error) && directory_locked.is_ok() => {
                tracing::warn!(directory = %root.display(), %error, "only the directory itself is locked");
                None
            }
            Err(refusal) => return Err(refusal),
        };
        Ok(Self { path: root.to_owned(), directory, file })
    }

    /// Fails when the locked directory was removed or replaced. Blocks.
    pub fn check(&self) -> io::Result<()> {
        let held = self.directory.metadata()?;
        let (named, reason) = match fs::metadata(&self.path) {
            Ok(named) => (Some((named.dev(), named.ino())), "another directory is in its place".to_owned()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => (None, error.to_string()),
            Err(error) => return Err(error),
        };
        if named == Some((held.dev(), held.ino())) {
            return Ok(());
        }
        Err(io::Error::new(io::ErrorKind::StaleNetworkFileHandle, reason))
    }
}

fn lock(file: &File) -> Result<(), Errno> {
    rustix::fs::flock(file, FlockOperation::NonBlockingLockExclusive)
}

fn lock_file(root: &Path) -> Result<File, Refusal> {
    let path = root.join(LOCK_NAME);
    let mut options = OpenOptions::new();
    let file = match options.read(true).write(true).create(true).truncate(false).open(&path) {
        Err(error) if error.kind() == io::ErrorKind::ReadOnlyFilesystem => File::open(&path)?,
        opened => opened?,
    };
    match lock(&file) {
        Ok(()) => {}
        Err(Errno::WOULDBLOCK) => return Err(in_use(root)),
        Err(errno) => return Err(Refusal::Failed(errno.into())),
    }
    let text = format!("{}\n", std::process::id());
    // Overwrites the old contents in place, for which a full disk has space. Other processes read the
    // file only for their error message.
    let written = file.write_all_at(text.as_bytes(), 0).and_then(|()| file.set_len(text.len() as u64));
    if let Err(error) = written {
        tracing::warn!(file = %path.display(), %error, "the lock file does not name this process");
    }
    Ok(file)
}

fn in_use(root: &Path) -> Refusal {
    let text = fs::read_to_string(root.join(LOCK_NAME)).unwrap_or_default();
    let process = match text.trim() {
        "" => "unknown".to_owned(),
        id => id.to_owned(),
    };
    Refusal::InUse(Error::InUse { directory: root.to_owned(), process })
}

/// Whether the error means that the disk cannot be written: it is full or read-only.
pub(crate) fn is_unwritable(error: &io::Error) -> bool {
    use io::ErrorKind as K;
    // A lock file that does not exist cannot be created on a read-only disk.
    matches!(error.kind(), K::ReadOnlyFilesystem | K::StorageFull | K::QuotaExceeded | K::NotFound)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_removed_or_replaced_directory_is_detected() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().join("store");
        fs::create_dir(&root).unwrap();
        let hold = Hold::take(&root).unwrap();
        hold.check().unwrap();
        fs::rename(&root, dir.path().join("elsewhere")).unwrap();
        assert!(hold.check().is_err(), "it was removed");
        fs::create_dir(&root).unwrap();
        assert!(hold.check().unwrap_err().to_string().contains("another directory"));
        fs::remove_dir(&root).unwrap();
        fs::rename(dir.path().join("elsewhere"), &root).unwrap();
        hold.check().unwrap();
    }

    #[test]
    fn either_lock_excludes_other_processes() {
        let dir = tempfile::tempdir().unwrap();
        let held = Hold::take(dir.path()).unwrap();
        fs::remove_file(dir.path().join(LOCK_NAME)).unwrap();
        assert!(matches!(Hold::take(dir.path()), Err(Refusal::InUse(_))), "the directory is locked");
        drop(held);
        let file = lock_file(dir.path()).unwrap();
        assert!(matches!(Hold::take(dir.path()), Err(Refusal::InUse(_))), "the file is locked");
        drop(file);
        Hold::take(dir.path()).unwrap();
    }
}

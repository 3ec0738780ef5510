//! The exclusive hold on a local directory, and whether the directory is still the one that is held.
//!
//! The lock is advisory and the kernel frees it when the process dies. It is on the directory itself and on
//! the file `LOCK` in it: the file tells others who holds it, and the directory can be locked on a full or
//! read-only disk, too. Some network file systems lock files only.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};

use rustix::fs::FlockOperation;
use rustix::io::Errno;

use crate::error::Error;

/// The name of the lock file in the store's root; never listed.
pub(crate) const LOCK_NAME: &str = "LOCK";

/// A directory that is held. Dropping it frees it.
#[derive(Debug)]
pub(crate) struct Hold {
    path: PathBuf,
    directory: File,
    #[expect(dead_code, reason = "held for its lock")]
    file: Option<File>,
}

/// Why a directory cannot be held.
#[derive(Debug)]
pub(crate) enum Refusal {
    /// Another process holds it.
    InUse(Error),
    /// It cannot be locked.
    Failed(io::Error),
}

impl From<io::Error> for Refusal {
    fn from(error: io::Error) -> Self {
        Self::Failed(error)
    }
}

impl Hold {
    /// Takes the lock of an existing directory. Blocks.
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

    /// Fails when another directory bears the name of the one that is held, or none does. Blocks.
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
    // Over what is there: a full disk has room for that. Others read it for their message only.
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

/// Whether nothing can be written there now: a full or a read-only disk.
pub(crate) fn is_unwritable(error: &io::Error) -> bool {
    use io::ErrorKind as K;
    // A lock file that is not there cannot be made on a read-only disk.
    matches!(error.kind(), K::ReadOnlyFilesystem | K::StorageFull | K::QuotaExceeded | K::NotFound)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_that_was_replaced_is_not_the_one_that_is_held() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().join("store");
        fs::create_dir(&root).unwrap();
        let hold = Hold::take(&root).unwrap();
        hold.check().unwrap();
        fs::rename(&root, dir.path().join("elsewhere")).unwrap();
        assert!(hold.check().is_err(), "it is gone");
        fs::create_dir(&root).unwrap();
        assert!(hold.check().unwrap_err().to_string().contains("another directory"));
        fs::remove_dir(&root).unwrap();
        fs::rename(dir.path().join("elsewhere"), &root).unwrap();
        hold.check().unwrap();
    }

    #[test]
    fn either_lock_keeps_others_out() {
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

//! A local directory as a store: locking, durability, clean-up and direct reads.
//!
//! One process holds the lock of the directory ([`Hold`]). If another directory takes its place, nothing
//! is written to that one. The names of directories are made durable before files are created in them:
//! `object_store` fsyncs directories that it creates, but not those that another writer created a moment
//! before. Opening the directory removes staging files (`name#1`) that a crash left, and empty
//! directories, while no other process can be writing. This happens only then, so that no directory
//! disappears while a writer uses it. On a full or read-only disk the directory opens for reading.

use std::collections::HashSet;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::ops::Range;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use crate::cause::Cause;
use crate::classify::{Failure, cause_of_io};
use crate::error::{Error, Place};
use crate::hold::{Hold, LOCK_NAME, Refusal, is_unwritable};
use crate::operation::Operation;
use crate::reserve::{DiskReserve, RESERVE_NAME};
use bytes::Bytes;

/// A directory that contains a store. Dropping it releases the lock.
#[derive(Debug)]
pub(crate) struct Directory {
    root: PathBuf,
    /// `None` when the directory is open for reading only.
    hold: Option<Hold>,
    /// Reserved space for the catalog on a full disk.
    pub reserve: DiskReserve,
    /// Directories whose names are durable, so that only new ones need an fsync.
    durable: Mutex<HashSet<PathBuf>>,
}

/// The most directories that are remembered as durable; beyond it all are forgotten.
const DURABLE_MAX: usize = 65_536;

impl Directory {
    /// Creates the directory if it is missing, locks it, cleans it up, and takes the reserve. Blocks.
    pub fn open_exclusive(root: &Path, url: &Arc<str>) -> Result<Self, Error> {
        let failed = |error: io::Error| open_failure(&error, url);
        create_dir_durably(root).map_err(failed)?;
        let root = fs::canonicalize(root).map_err(failed)?;
        let hold = Hold::take(&root).map_err(|refusal| match refusal {
            Refusal::InUse(error) => error,
            Refusal::Failed(error) => open_failure(&error, url),
        })?;
        let reserve = DiskReserve::of(&root);
        for prepared in [sweep(&root), reserve.hold()] {
            match prepared {
                Err(error) if is_unwritable(&error) => {
                    let directory = root.display();
                    tracing::error!(%directory, %error, "the directory can only be read now");
                }
                prepared => prepared.map_err(failed)?,
            }
        }
        Ok(Self { root, hold: Some(hold), reserve, durable: Mutex::default() })
    }

    /// Opens an existing directory for reading, even while another process holds it. Blocks.
    pub fn open_shared(root: &Path, url: &Arc<str>) -> Result<Self, Error> {
        let root = fs::canonicalize(root).map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => Error::invalid(format!("{url} does not exist; check --store")),
            _ => open_failure(&error, url),
        })?;
        let reserve = DiskReserve::of(&root);
        Ok(Self { root, hold: None, reserve, durable: Mutex::default() })
    }

    /// The absolute path of the directory.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// The path of the file of an object.
    pub fn file_of(&self, path: &str) -> PathBuf {
        self.root.join(path)
    }

    /// Whether the directories above a file are known to exist durably. Never blocks.
    pub fn is_prepared(&self, file: &Path) -> bool {
        self.durable.try_lock().is_ok_and(|durable| file.parent().is_some_and(|d| durable.contains(d)))
    }

    /// Whether a path is that of an object; the directory's own files are not.
    pub fn is_object(path: &str) -> bool {
        path != LOCK_NAME && path != RESERVE_NAME
    }

    /// Fails when the locked directory was removed or replaced. Blocks.
    pub fn check_place(&self) -> io::Result<()> {
        self.hold.as_ref().map_or(Ok(()), Hold::check)
    }

    /// Forgets which directories exist, because one was removed.
    pub fn forget(&self) {
        self.durable.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }

    /// Creates the directories above a file and fsyncs their parents. Also fsyncs the parents of
    /// existing directories, because the process that created them may have crashed before its fsync.
    /// The result stays valid because directories are never removed while a store is open. Blocks.
    pub fn prepare(&self, file: &Path) -> io::Result<()> {
        let mut durable = self.durable.lock().unwrap_or_else(PoisonError::into_inner);
        if durable.len() > DURABLE_MAX {
            durable.clear();
        }
        let above = file.ancestors().skip(1).take_while(|d| *d != self.root);
        let unknown: Vec<&Path> = above.take_while(|d| !durable.contains(*d)).collect();
        for directory in unknown.into_iter().rev() {
            match fs::create_dir(directory) {
                Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
                _ => {}
            }
            File::open(directory.parent().unwrap_or(&self.root))?.sync_all()?;
            durable.insert(directory.to_owned());
        }
        Ok(())
    }

    /// The names of the directories directly below a prefix that contain files at any depth. Blocks.
    pub fn names(&self, prefix: &str) -> io::Result<Vec<String>> {
        let entries = match fs::read_dir(self.root.join(prefix)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            entries => entries?,
        };
        let mut names = Vec::new();
        for entry in entries {
            let entry = entry?;
            if entry.file_type()?.is_dir() && has_files(&entry.path())? {
                names.push(entry.file_name().to_string_lossy().into_owned());
            }
        }
        Ok(names)
    }

    /// Reads ranges of a file, or the complete file for `None`. Blocks.
    pub fn read(file: &Path, ranges: Option<&[Range<u64>]>) -> Result<Vec<Bytes>, Failure> {
        let failed = |error: io::Error| Failure::new(cause_of_io(&error), error.to_string());
        // Non-blocking, because opening a named pipe would wait for its writer.
        let flags = rustix::fs::OFlags::NONBLOCK.bits().cast_signed();
        let opened = OpenOptions::new().read(true).custom_flags(flags).open(file).map_err(failed)?;
        let meta = opened.metadata().map_err(failed)?;
        if !meta.is_file() {
            return Err(Failure::new(Cause::NotFound, "it is not a file"));
        }
        let whole = 0..meta.len();
        let ranges = ranges.unwrap_or(std::slice::from_ref(&whole));
        ranges.iter().map(|range| read_range(&opened, range, meta.len())).collect()
    }

    /// Atomically and durably replaces the contents of a file by `bytes` if they equal `before`;
    /// otherwise returns the contents. Must not be called concurrently. Blocks.
    pub fn replace(&self, file: &Path, before: &Bytes, bytes: &Bytes) -> Result<Option<Bytes>, Failure> {
        let now = Self::read(file, None)?.pop().unwrap_or_default();
        if now != *before {
            return Ok(Some(now));
        }
        let mut staging = file.as_os_str().to_owned();
        // Staging files of `object_store` are numbered from 1.
        staging.push("#0");
        let written = File::create(&staging).and_then(|mut staged| {
            staged.write_all(bytes)?;
            staged.sync_all()?;
            fs::rename(&staging, file)?;
            File::open(file.parent().unwrap_or(&self.root))?.sync_all()
        });
        written.map(|()| None).map_err(|error| Failure::new(cause_of_io(&error), error.to_string()))
    }

    /// Makes a file and the directories above it durable. Blocks.
    pub fn sync(&self, file: &Path) -> io::Result<()> {
        File::open(file)?.sync_all()?;
        for directory in file.ancestors().skip(1) {
            File::open(directory)?.sync_all()?;
            if directory == self.root {
                break;
            }
        }
        Ok(())
    }
}

fn read_range(file: &File, range: &Range<u64>, size: u64) -> Result<Bytes, Failure> {
    let expected = range.end.saturating_sub(range.start);
    let found = range.end.min(size).saturating_sub(range.start);
    if found < expected {
        let reason = format!("the file has {size} bytes, the range ends at {}", range.end);
        return Err(Failure::new(Cause::Length { expected, found }, reason));
    }
    let mut buffer = vec![0; expected as usize];
    file.read_exact_at(&mut buffer, range.start).map_err(|error| match error.kind() {
        io::ErrorKind::UnexpectedEof => {
            Failure::new(Cause::Length { expected, found: 0 }, "the file was truncated while it was read")
        }
        _ => Failure::new(cause_of_io(&error), error.to_string()),
    })?;
    Ok(buffer.into())
}

fn open_failure(error: &io::Error, url: &Arc<str>) -> Error {
    let at = Place { store: Arc::clone(url), operation: Operation::Open, path: String::new() };
    match cause_of_io(error) {
        // For example, a part of the path is a file, or there is a loop of links.
        Cause::Invalid | Cause::Conflict | Cause::NotFound => {
            Error::invalid(format!("{url} cannot be a store directory: {error}; give another --store"))
        }
        cause => Failure::new(cause, error.to_string()).into_error(at, 1),
    }
}

/// Creates a directory and its missing parents, and fsyncs each directory that changed. Blocks.
fn create_dir_durably(directory: &Path) -> io::Result<()> {
    if directory.is_dir() {
        return Ok(());
    }
    if let Some(parent) = directory.parent() {
        create_dir_durably(parent)?;
    }
    match fs::create_dir(directory) {
        Ok(()) => {}
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists && directory.is_dir() => {}
        Err(error) => return Err(error),
    }
    // Also if another process created it meanwhile, since that process may not have fsynced yet.
    let parent = directory.parent().filter(|p| !p.as_os_str().is_empty());
    File::open(parent.unwrap_or(Path::new(".")))?.sync_all()
}

/// Removes staging files of interrupted writes, whose names end in `#` and digits, and empty directories
/// that deletes left.
fn sweep(root: &Path) -> io::Result<()> {
    let mut unseen = vec![root.to_owned()];
    let mut directories = Vec::new();
    while let Some(directory) = unseen.pop() {
        for entry in fs::read_dir(&directory)? {
            let entry = entry?;
            let (kind, name) = (entry.file_type()?, entry.file_name());
            // `lost+found` belongs to the file system, if the store is a mount point.
            if kind.is_dir() && name != "lost+found" {
                unseen.push(entry.path());
                directories.push(entry.path());
            } else if kind.is_file() && is_staging_name(&name.to_string_lossy()) {
                tracing::info!(file = %entry.path().display(), "removing a leftover staging file");
                fs::remove_file(entry.path())?;
            }
        }
    }
    // Children come after their parents. Removing a directory that is not empty fails, as intended.
    for directory in directories.iter().rev() {
        let _ = fs::remove_dir(directory);
    }
    Ok(())
}

fn has_files(directory: &Path) -> io::Result<bool> {
    let mut unseen = vec![directory.to_owned()];
    while let Some(directory) = unseen.pop() {
        for entry in fs::read_dir(&directory)? {
            let entry = entry?;
            let kind = entry.file_type()?;
            if kind.is_dir() {
                unseen.push(entry.path());
            } else if !is_staging_name(&entry.file_name().to_string_lossy()) {
                return Ok(true);
            }
        }
    }
    Ok(false)
}

fn is_staging_name(name: &str) -> bool {
    name.rsplit_once('#').is_some_and(|(base, digits)| {
        !base.is_empty() && !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn url() -> Arc<str> {
        "file:///test".into()
    }

    #[test]
    fn a_second_open_fails_and_names_the_holding_process() {
        let dir = tempfile::tempdir().unwrap();
        let first = Directory::open_exclusive(dir.path(), &url()).unwrap();
        let refusal = Directory::open_exclusive(dir.path(), &url()).unwrap_err().to_string();
        let expected =
            format!("is in use by process {}; stop it or give another --store", std::process::id());
        assert!(refusal.ends_with(&expected), "{refusal}");
        Directory::open_shared(dir.path(), &url()).unwrap();
        drop(first);
        Directory::open_exclusive(dir.path(), &url()).unwrap();
    }

    #[test]
    fn opening_removes_staging_files_and_empty_directories_and_keeps_objects() {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir_all(dir.path().join("blocks/t")).unwrap();
        fs::create_dir_all(dir.path().join("blocks/u/empty")).unwrap();
        fs::create_dir_all(dir.path().join("lost+found")).unwrap();
        for name in ["blocks/t/a#1", "blocks/t/a", "blocks/t/b#c", "x#22"] {
            fs::write(dir.path().join(name), b"x").unwrap();
        }
        let held = Directory::open_exclusive(dir.path(), &url()).unwrap();
        let exists = |name: &str| held.file_of(name).exists();
        assert!(exists("blocks/t/a") && exists("blocks/t/b#c"));
        assert!(!exists("blocks/t/a#1") && !exists("x#22") && !exists("blocks/u") && exists("lost+found"));
        assert_eq!(held.names("").unwrap(), ["blocks"]);
        assert!(!held.is_prepared(&held.file_of("wal/a/0")));
        held.prepare(&held.file_of("wal/a/0")).unwrap();
        assert!(held.is_prepared(&held.file_of("wal/a/1")) && exists("wal/a"));
        assert_eq!((held.names("wal").unwrap(), held.names("none").unwrap()), (vec![], vec![]));
    }

    #[test]
    fn a_file_in_the_path_and_a_missing_directory_are_errors() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("file");
        fs::write(&file, b"x").unwrap();
        let error = Directory::open_exclusive(&file.join("below"), &url()).unwrap_err();
        assert!(error.to_string().contains("give another --store"), "{error}");
        let error = Directory::open_shared(&dir.path().join("none"), &url()).unwrap_err();
        assert!(error.to_string().contains("does not exist"), "{error}");
    }

    #[test]
    fn ranges_beyond_the_end_are_length_failures() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("f");
        fs::write(&file, b"0123456789").unwrap();
        let bodies = Directory::read(&file, Some(&[2..5, 0..0, 9..10])).unwrap();
        assert_eq!(bodies, vec![Bytes::from("234"), Bytes::new(), Bytes::from("9")]);
        let failure = Directory::read(&file, Some(&[0..1, 8..12])).unwrap_err();
        assert_eq!(failure.cause, Cause::Length { expected: 4, found: 2 });
        assert_eq!(Directory::read(&dir.path().join("g"), None).unwrap_err().cause, Cause::NotFound);
    }
}

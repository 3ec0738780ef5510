//! Names of the memory file's files, results of saving and restoring, and reasons not to use a file.

use std::io;
use std::path::{Path, PathBuf};

/// Random number of a save, which FILE and FILE.meta share.
pub(super) type SaveId = [u8; 16];

/// Notes of the caller that the next start returns: names and texts. Neither contains line ends, and
/// names contain no spaces.
pub type Notes = Vec<(String, String)>;

/// What a stop has written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Saved {
    /// Number of items in FILE.
    pub items: u64,
    /// Bytes of FILE.
    pub bytes: u64,
}

/// The result of reading the memory file at a start.
#[derive(Debug)]
pub enum Restored {
    /// There was no file: the last stop was not clean, or this is the first start.
    Nothing,
    /// The file cannot be used, for this reason; memory is empty.
    Refused(Refusal),
    /// The items of the file are in memory.
    Items(RestoredItems),
}

/// What was restored.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RestoredItems {
    /// Number of items put into memory. If not all fit, later ones evict earlier ones.
    pub items: u64,
    /// Number of items that expired meanwhile.
    pub expired: u64,
    /// Number of items that the cache has no room for, or that are larger than its limit.
    pub left_out: u64,
    /// The caller's notes at the stop.
    pub notes: Notes,
}

/// Why a memory file is not used. The start continues with empty memory.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Refusal {
    /// Its content is not what was written.
    #[error("{} is damaged ({what})", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        what: &'static str,
    },
    /// It cannot be read.
    #[error("{} cannot be read: {error}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The error of the system.
        error: io::Error,
    },
    /// It was written by a build with another format.
    #[error("{} has format {found}, this build reads format {known}", path.display())]
    OtherFormat {
        /// The file.
        path: PathBuf,
        /// Its format.
        found: u64,
        /// The format of this build.
        known: u64,
    },
    /// memcached wrote it, and only memcached can read it.
    #[error("{} was written by memcached, whose format only memcached can read", path.display())]
    OfMemcached {
        /// The file.
        path: PathBuf,
    },
    /// It was written later than the current time, so its age is unknown.
    #[error("{} was written at second {written_at}, and the clock says {now}", path.display())]
    ClockWentBack {
        /// The file.
        path: PathBuf,
        /// When it was written, in seconds since 1970.
        written_at: u32,
        /// Now.
        now: u32,
    },
    /// The flash tier has run without the file since, or is another one.
    #[error("{} does not belong to the latest clean stop of the flash tier", path.display())]
    OtherFlash {
        /// The file.
        path: PathBuf,
    },
    /// A scheduled flush became due since.
    #[error("a scheduled flush voided all items at second {at}")]
    Flushed {
        /// When, in seconds since 1970.
        at: u32,
    },
}

/// The memory file cannot be written or read at its path.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MemoryFileError {
    /// FILE.meta is a file of another program.
    #[error(
        "{} does not describe a memory file, and a stop would overwrite it: \
         remove it, or name another memory file",
        path.display()
    )]
    Foreign {
        /// FILE.meta.
        path: PathBuf,
    },
    /// An operation on a file or its directory failed.
    #[error("the memory file cannot be kept: {} cannot be {what}: {error}", path.display())]
    File {
        /// The operation that failed.
        what: &'static str,
        /// The file.
        path: PathBuf,
        /// The error of the system.
        error: io::Error,
    },
    /// Flash did not stop cleanly, without which FILE is useless.
    #[error("the memory file was not kept: the flash tier did not stop cleanly")]
    FlashUnclean,
}

/// `FILE.ending`.
pub(super) fn with_ending(file: &Path, ending: &str) -> PathBuf {
    let mut name = file.as_os_str().to_owned();
    name.push(ending);
    PathBuf::from(name)
}

/// The path of the description of `file`, without which `file` is not used.
pub(super) fn meta_path(file: &Path) -> PathBuf {
    with_ending(file, ".meta")
}

/// Makes renames and removals in the directory of `file` durable.
pub(super) fn sync_directory(file: &Path) -> Result<(), MemoryFileError> {
    let parent = file.parent().filter(|parent| !parent.as_os_str().is_empty());
    let directory = parent.unwrap_or(Path::new("."));
    std::fs::File::open(directory)
        .and_then(|opened| opened.sync_all())
        .map_err(|error| MemoryFileError::File { what: "synced", path: directory.to_owned(), error })
}

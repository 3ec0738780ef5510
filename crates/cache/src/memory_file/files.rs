//! The names of the files, what is said of them, and why they are not used.

use std::io;
use std::path::{Path, PathBuf};

/// Random number of one save, in FILE and FILE.meta alike.
pub(super) type SaveId = [u8; 16];

/// What a caller wants to know again after the restart, by name. Names and texts have no line ends, names
/// no spaces.
pub type Notes = Vec<(String, String)>;

/// What was written at a stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Saved {
    /// Items in FILE.
    pub items: u64,
    /// Bytes of FILE.
    pub bytes: u64,
}

/// What became of the memory file at a start.
#[derive(Debug)]
pub enum Restored {
    /// There was none: the stop before was no clean one, or the first start.
    Nothing,
    /// It cannot be used, for this reason; memory is empty.
    Refused(Refusal),
    /// Its items are in memory again.
    Items(RestoredItems),
}

/// What was put back.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RestoredItems {
    /// Items put into memory. More than fit make way for each other as ever.
    pub items: u64,
    /// Items whose time had come meanwhile.
    pub expired: u64,
    /// Items that the cache has no room for now, or that are larger than it takes.
    pub left_out: u64,
    /// What the caller noted at the stop.
    pub notes: Notes,
}

/// Why a memory file is not used. The start goes on with empty memory.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Refusal {
    /// Its content is not what was written.
    #[error("{} is damaged ({what})", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What does not check out.
        what: &'static str,
    },
    /// It cannot be read.
    #[error("{} cannot be read: {error}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// What the system says.
        error: io::Error,
    },
    /// It is of a build with another format.
    #[error("{} has format {found}, this build reads format {known}", path.display())]
    OtherFormat {
        /// The file.
        path: PathBuf,
        /// Its format.
        found: u64,
        /// The format of this build.
        known: u64,
    },
    /// memcached wrote it, whose memory only memcached can map.
    #[error("{} is of memcached, which keeps its memory in a form of its own", path.display())]
    OfMemcached {
        /// The file.
        path: PathBuf,
    },
    /// It was written in the future, so nobody knows how long ago.
    #[error("{} was written at second {written_at}, and the clock says {now}", path.display())]
    ClockWentBack {
        /// The file.
        path: PathBuf,
        /// When it was written, in seconds since 1970.
        written_at: u32,
        /// Now.
        now: u32,
    },
    /// The flash tier ran without it meanwhile, or is another one.
    #[error("{} does not belong to the latest clean stop of the flash tier", path.display())]
    OtherFlash {
        /// The file.
        path: PathBuf,
    },
    /// A flush that was set for later came due meanwhile.
    #[error("everything was to be flushed at second {at}")]
    Flushed {
        /// When, in seconds since 1970.
        at: u32,
    },
}

/// The memory file cannot be kept where it was named.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MemoryFileError {
    /// FILE.meta is another process's.
    #[error(
        "{} is no description of a memory file, and a stop would overwrite it: \
         remove it, or name another memory file",
        path.display()
    )]
    Foreign {
        /// FILE.meta.
        path: PathBuf,
    },
    /// A file or its directory cannot be worked with.
    #[error("the memory file cannot be kept: {} cannot be {what}: {error}", path.display())]
    File {
        /// What was tried.
        what: &'static str,
        /// The file.
        path: PathBuf,
        /// What the system says.
        error: io::Error,
    },
    /// Flash could not be brought to a clean stop, without which FILE is worth nothing.
    #[error("the memory file was not kept: the flash tier did not stop cleanly")]
    FlashUnclean,
}

/// `FILE.ending`.
pub(super) fn beside(file: &Path, ending: &str) -> PathBuf {
    let mut name = file.as_os_str().to_owned();
    name.push(ending);
    PathBuf::from(name)
}

/// What describes the memory file `file`, and makes it count.
pub(super) fn meta_path(file: &Path) -> PathBuf {
    beside(file, ".meta")
}

/// Makes what was renamed or removed beside `file` last.
pub(super) fn sync_directory(file: &Path) -> Result<(), MemoryFileError> {
    let parent = file.parent().filter(|parent| !parent.as_os_str().is_empty());
    let directory = parent.unwrap_or(Path::new("."));
    std::fs::File::open(directory)
        .and_then(|opened| opened.sync_all())
        .map_err(|error| MemoryFileError::File { what: "synced", path: directory.to_owned(), error })
}

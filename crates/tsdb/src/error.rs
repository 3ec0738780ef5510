//! Why a file of a block cannot be read.

/// A file of a block that cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Reading failed.
    #[error("cannot be read at byte {offset}: {reason}")]
    Io {
        /// The position.
        offset: u64,
        /// The reason.
        reason: String,
    },
    /// The file is not of this kind, or of an unknown version.
    #[error("is not {what}, or of a version that is not known")]
    Kind {
        /// The kind.
        what: &'static str,
    },
    /// The file ends too early.
    #[error("ends too early: {what} at byte {offset} needs {needed} bytes more than there are")]
    Truncated {
        /// The part.
        what: &'static str,
        /// Its position.
        offset: u64,
        /// The missing bytes.
        needed: u64,
    },
    /// A part has another checksum.
    #[error("{what} at byte {offset} is damaged: its checksum is {found:08x}, the file says {expected:08x}")]
    Checksum {
        /// The part.
        what: &'static str,
        /// Its position.
        offset: u64,
        /// The checksum in the file.
        expected: u32,
        /// The checksum of the bytes.
        found: u32,
    },
    /// A part is larger than a limit.
    #[error("{what} is {found}, the limit is {limit}")]
    TooLarge {
        /// The value.
        what: &'static str,
        /// Its size.
        found: u64,
        /// The limit.
        limit: u64,
    },
    /// A part is not valid.
    #[error("{what} is not valid")]
    Malformed {
        /// The part.
        what: &'static str,
    },
    /// A chunk has an unknown encoding.
    #[error("a chunk has the encoding {encoding}, which is not known (1 is XOR, 2 and 3 are histograms)")]
    Encoding {
        /// The number of the encoding.
        encoding: u8,
    },
}

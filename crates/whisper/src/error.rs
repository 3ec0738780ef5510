//! Errors of reading a file.

/// Why a file cannot be read. As in whisper's tools, archives are counted from zero.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The operating system reported an error.
    #[error("cannot read it: {0}")]
    Io(#[from] std::io::Error),
    /// The file ends before its header does.
    #[error("it has {size} bytes, and its header needs {needed}: it is truncated, or not a whisper file")]
    Short {
        /// Bytes of the file.
        size: u64,
        /// Bytes of the header.
        needed: u64,
    },
    /// The header has an impossible value.
    #[error("it is not a whisper file, or damaged: {0}")]
    Header(String),
    /// The description of an archive is impossible.
    #[error("archive {archive} is damaged: {what}")]
    Archive {
        /// The archive's index.
        archive: usize,
        /// The reason.
        what: String,
    },
    /// A block of a compressed archive cannot be decoded.
    #[error(
        "archive {archive}, block {block} is damaged, or was being written: {what}; read it again, or \
         without checksums"
    )]
    Block {
        /// The archive's index.
        archive: usize,
        /// The block's index within the archive.
        block: usize,
        /// The reason.
        what: String,
    },
    /// The checksum of a compressed file's header does not match.
    #[error(
        "the checksum of its header is {found:08x} instead of {stated:08x}: it is damaged, or was being \
         written; read it again, or without checksums"
    )]
    HeaderChecksum {
        /// The checksum of the header's bytes.
        found: u32,
        /// The checksum that the file states.
        stated: u32,
    },
}

impl Error {
    pub(crate) fn archive(archive: usize, what: impl Into<String>) -> Self {
        Self::Archive { archive, what: what.into() }
    }
}

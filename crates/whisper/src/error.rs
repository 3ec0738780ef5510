//! What may be wrong with a file.

/// Why a file cannot be read. The texts name the archive, counted from zero as whisper's tools do.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The system could not read it.
    #[error("cannot read it: {0}")]
    Io(#[from] std::io::Error),
    /// It ends before its header does.
    #[error("it has {size} bytes, and its header needs {needed}: it is cut, or no whisper file")]
    Short {
        /// Bytes of the file.
        size: u64,
        /// Bytes of the header.
        needed: u64,
    },
    /// Its header says what cannot be.
    #[error("it is no whisper file, or damaged: {0}")]
    Header(String),
    /// An archive's description cannot be.
    #[error("archive {archive} is damaged: {what}")]
    Archive {
        /// Which.
        archive: usize,
        /// What is wrong.
        what: String,
    },
    /// A block of a compressed archive cannot be decoded.
    #[error(
        "archive {archive}, block {block} is damaged, or was being written: {what}; read it again, or \
         without checksums"
    )]
    Block {
        /// Which archive.
        archive: usize,
        /// Which block of it.
        block: usize,
        /// What is wrong.
        what: String,
    },
    /// The checksum of a compressed file's header is another.
    #[error(
        "the checksum of its header is {found:08x} and not {told:08x}: it is damaged, or was being written; \
         read it again, or without checksums"
    )]
    HeaderChecksum {
        /// What the bytes give.
        found: u32,
        /// What the file says.
        told: u32,
    },
}

impl Error {
    pub(crate) fn archive(archive: usize, what: impl Into<String>) -> Self {
        Self::Archive { archive, what: what.into() }
    }
}

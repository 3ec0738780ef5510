//! Errors of stored bytes. Every error names the part, its offset in its object, the expected and the
//! found value.

use sandur_base::ErrorKind;

/// Bytes that cannot be read, or incorrect use of a writer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The part is shorter than required.
    #[error(
        "{part} is cut short at offset {offset}: {needed} bytes needed, {available} left; run 'sandur check'"
    )]
    Truncated {
        /// Name of the part.
        part: &'static str,
        /// Offset in the object at which bytes are missing.
        offset: u64,
        /// Bytes that were needed there.
        needed: u64,
        /// Bytes that were left there.
        available: u64,
    },
    /// The checksum of the bytes differs from the stored one.
    #[error(
        "{part} at offset {offset} is damaged: checksum {found:#010x}, expected {expected:#010x}; \
         run 'sandur check'"
    )]
    Checksum {
        /// Name of the part.
        part: &'static str,
        /// Offset of the part in the object.
        offset: u64,
        /// The stored checksum.
        expected: u32,
        /// The checksum of the bytes.
        found: u32,
    },
    /// The first bytes differ from those of the format.
    #[error(
        "{part} at offset {offset} has the wrong magic: found {found:02x?}, expected {expected:02x?}; \
         this is another kind of object"
    )]
    Magic {
        /// Name of the part.
        part: &'static str,
        /// Offset in the object.
        offset: u64,
        /// The magic of the format.
        expected: [u8; 4],
        /// The found bytes.
        found: [u8; 4],
    },
    /// The magic belongs to no format.
    #[error(
        "{part}: the magic {found:02x?} at offset {offset} is of no known kind; it is damaged, or a newer \
         program wrote it: run 'sandur check' of that version"
    )]
    UnknownMagic {
        /// Name of the part.
        part: &'static str,
        /// Offset in the object, or in the part of it that was read.
        offset: u64,
        /// The found bytes.
        found: [u8; 4],
    },
    /// A newer version, which this program cannot read.
    #[error("{part} has format version {found}, this program reads up to {supported}; upgrade it")]
    Version {
        /// Name of the part.
        part: &'static str,
        /// The found version.
        found: u16,
        /// The newest version that can be read.
        supported: u16,
    },
    /// A codec id that this program does not know.
    #[error("{part} at offset {offset} uses codec {codec}, which this program does not know; upgrade it")]
    UnknownCodec {
        /// Name of the part.
        part: &'static str,
        /// Offset of the part in the object.
        offset: u64,
        /// The found id.
        codec: u8,
    },
    /// A tag that this program does not know.
    #[error("{part} at offset {offset} has an unknown {what}, {tag}: a newer version wrote it, upgrade")]
    UnknownTag {
        /// Name of the part.
        part: &'static str,
        /// Offset in the object.
        offset: u64,
        /// The field that the tag selects.
        what: &'static str,
        /// The tag.
        tag: u8,
    },
    /// The bytes violate a rule of the format.
    #[error("{part} at offset {offset} is malformed: {what}; run 'sandur check'")]
    Malformed {
        /// Name of the part.
        part: &'static str,
        /// Offset in the object, or in the decompressed part.
        offset: u64,
        /// The violation.
        what: &'static str,
    },
    /// A size exceeds the bound of the format.
    #[error("{part}: {what} is {found}, the format allows {limit}")]
    TooLarge {
        /// Name of the part that was read or written.
        part: &'static str,
        /// The name of the size.
        what: &'static str,
        /// The found size.
        found: u64,
        /// The bound of the format.
        limit: u64,
    },
    /// A file of frames ends in the middle of a frame, as after a crash during a write; the frames before
    /// it are complete.
    #[error(
        "the WAL file ends in a frame that was not written completely; {valid_len} bytes before it are sound"
    )]
    Torn {
        /// Bytes of complete frames.
        valid_len: u64,
    },
    /// Incorrect use of a writer: a defect of this program.
    #[error("defect: {0}")]
    Misuse(&'static str),
}

impl Error {
    /// Returns the kind that decides status codes and retries.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Misuse(_) => ErrorKind::Internal,
            Self::TooLarge { .. } => ErrorKind::Limit,
            _ => ErrorKind::Corrupt,
        }
    }
}

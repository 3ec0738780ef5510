//! What can be wrong with stored bytes. Every error names the part, where it is in its object,
//! what was expected and what was found.

use sandur_base::ErrorKind;

/// Bytes that cannot be read, or a writer that was used wrongly.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The part ends before it should.
    #[error(
        "{part} is cut short at offset {offset}: {needed} bytes needed, {available} left; run 'sandur check'"
    )]
    Truncated {
        /// What was read.
        part: &'static str,
        /// Offset in the object at which bytes are missing.
        offset: u64,
        /// Bytes that were needed there.
        needed: u64,
        /// Bytes that were left there.
        available: u64,
    },
    /// The checksum of the bytes is not the one that was stored.
    #[error(
        "{part} at offset {offset} is damaged: checksum {found:#010x}, expected {expected:#010x}; \
         run 'sandur check'"
    )]
    Checksum {
        /// What was read.
        part: &'static str,
        /// Offset of the part in the object.
        offset: u64,
        /// The stored checksum.
        expected: u32,
        /// The checksum of the bytes.
        found: u32,
    },
    /// The first bytes are not those of the format.
    #[error(
        "{part} at offset {offset} does not begin as it must: found {found:02x?}, expected {expected:02x?}; \
         this is another kind of object"
    )]
    Magic {
        /// What was read.
        part: &'static str,
        /// Offset in the object.
        offset: u64,
        /// The bytes of the format.
        expected: [u8; 4],
        /// The bytes that are there.
        found: [u8; 4],
    },
    /// The magic is that of no format.
    #[error(
        "{part}: the magic {found:02x?} at offset {offset} is of no known kind; it is damaged, or a newer \
         program wrote it: run 'sandur check' of that version"
    )]
    UnknownMagic {
        /// What was read.
        part: &'static str,
        /// Offset in the object, or in the part of it that was read.
        offset: u64,
        /// The bytes that are there.
        found: [u8; 4],
    },
    /// Written by a version that this one cannot read.
    #[error("{part} has format version {found}, this program reads up to {supported}; upgrade it")]
    Version {
        /// What was read.
        part: &'static str,
        /// The version that is there.
        found: u16,
        /// The newest version that can be read.
        supported: u16,
    },
    /// A codec id that this program does not know.
    #[error("{part} at offset {offset} uses codec {codec}, which this program does not know; upgrade it")]
    UnknownCodec {
        /// What was read.
        part: &'static str,
        /// Offset of the part in the object.
        offset: u64,
        /// The id that is there.
        codec: u8,
    },
    /// A tag that this program does not know.
    #[error("{part} at offset {offset} has an unknown {what}, {tag}: a newer version wrote it, upgrade")]
    UnknownTag {
        /// What was read.
        part: &'static str,
        /// Offset in the object.
        offset: u64,
        /// What the tag selects.
        what: &'static str,
        /// The tag.
        tag: u8,
    },
    /// The bytes break a rule of the format.
    #[error("{part} at offset {offset} is malformed: {what}; run 'sandur check'")]
    Malformed {
        /// What was read.
        part: &'static str,
        /// Offset in the object, or in the decompressed part.
        offset: u64,
        /// The rule.
        what: &'static str,
    },
    /// A size exceeds the bound of the format.
    #[error("{part}: {what} is {found}, the format allows {limit}")]
    TooLarge {
        /// What was read or written.
        part: &'static str,
        /// Which size.
        what: &'static str,
        /// The size.
        found: u64,
        /// The bound.
        limit: u64,
    },
    /// A file of frames ends in the middle of a frame, as after a crash while writing: the frames
    /// before are whole.
    #[error(
        "the WAL file ends in a frame that was not written completely; {valid_len} bytes before it are whole"
    )]
    Torn {
        /// Bytes of whole frames.
        valid_len: u64,
    },
    /// A writer was used wrongly: a defect of ours.
    #[error("defect: {0}")]
    Misuse(&'static str),
}

impl Error {
    /// The kind that decides status codes and retries.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Misuse(_) => ErrorKind::Internal,
            Self::TooLarge { .. } => ErrorKind::Limit,
            _ => ErrorKind::Corrupt,
        }
    }
}

//! Why bytes are not the object they claim to be.

use sandur_base::ErrorKind;

/// Bytes that cannot be read. The caller knows the object's name and puts it before the message.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FormatError {
    /// The object ends before it should.
    #[error("truncated at byte {at} while reading {what}")]
    Truncated {
        /// What was being read.
        what: &'static str,
        /// Offset in bytes from the start of the decoded part.
        at: usize,
    },
    /// The first four bytes are another object's.
    #[error("not a {what}: it begins with {found:02x?}")]
    Magic {
        /// What was expected.
        what: &'static str,
        /// The first four bytes.
        found: [u8; 4],
    },
    /// Written by a version that this program does not know.
    #[error("{what} has format version {found}, this program reads up to {known}: upgrade it")]
    Version {
        /// Which object.
        what: &'static str,
        /// The object's version.
        found: u8,
        /// The newest version that is known.
        known: u8,
    },
    /// The checksum does not fit the bytes.
    #[error("checksum of the {what} is {found:08x}, expected {expected:08x}: the bytes are damaged")]
    Checksum {
        /// Which object.
        what: &'static str,
        /// As stored.
        expected: u32,
        /// As computed.
        found: u32,
    },
    /// A tag that this program does not know.
    #[error("unknown {what} {tag}: written by a newer version, upgrade this program")]
    Tag {
        /// What the tag selects.
        what: &'static str,
        /// The tag.
        tag: u8,
    },
    /// A value outside its range.
    #[error("{what} is out of range: {value}")]
    Range {
        /// Which field.
        what: &'static str,
        /// The value.
        value: u64,
    },
    /// A text that is not UTF-8, too long, or not a tenant id.
    #[error("{what} is not a valid text")]
    Text {
        /// Which field.
        what: &'static str,
    },
    /// Compressed bytes that do not decompress to the declared length.
    #[error("the compressed {what} does not decompress to its declared length")]
    Compression {
        /// Which object.
        what: &'static str,
    },
    /// Bytes after the end.
    #[error("{count} unexpected bytes after the end of the {what}")]
    Trailing {
        /// Which object.
        what: &'static str,
        /// How many bytes.
        count: usize,
    },
    /// The value does not fit the format's bound and was not written.
    #[error("{what} has {found}, more than the limit of {limit}: split it")]
    TooLarge {
        /// Which object.
        what: &'static str,
        /// How many there are.
        found: usize,
        /// How many there may be.
        limit: usize,
    },
}

impl FormatError {
    /// The kind of failure: damaged or unknown bytes, or a value that is too large to write.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::TooLarge { .. } => ErrorKind::Limit,
            _ => ErrorKind::Corrupt,
        }
    }
}

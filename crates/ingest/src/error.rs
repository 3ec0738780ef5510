//! Why a whole request is refused. Entries that break a limit are not errors: see [`crate::Refused`].

use sandur_base::ErrorKind;
use sandur_base::units::ByteSize;

/// A request that cannot be decoded. Nothing of it is kept; the message is what the client reads.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The `Content-Type` is none that the endpoint reads.
    #[error("content type '{got}' is not supported: send {accepted}")]
    ContentType {
        /// As the client sent it.
        got: String,
        /// What would have been accepted.
        accepted: &'static str,
    },
    /// The `Content-Encoding` is none that the endpoint reads.
    #[error("content encoding '{got}' is not supported: send {accepted}")]
    ContentEncoding {
        /// As the client sent it.
        got: String,
        /// What would have been accepted.
        accepted: &'static str,
    },
    /// The body as sent is larger than the tenant's limit.
    #[error(
        "request body too large: {size} bytes, limit: {limit} bytes (max_body_size); send smaller batches"
    )]
    BodyTooLarge {
        /// Bytes of the body.
        size: u64,
        /// `Limits::max_body_size`.
        limit: u64,
    },
    /// The body is larger than the tenant's limit once it is decompressed.
    #[error(
        "request body too large: more than {limit} bytes after decompression \
         (max_decompressed_size, and at most 100 times the compressed size); send smaller batches"
    )]
    DecompressedTooLarge {
        /// Bytes that were allowed for this body.
        limit: u64,
    },
    /// The body holds more of something than a request may hold.
    #[error("request body too large: more than {limit} {what} in one request; send smaller batches")]
    TooMany {
        /// Plural of what is counted.
        what: &'static str,
        /// How many are allowed.
        limit: u64,
    },
    /// There is no memory for the request now.
    #[error(
        "not enough memory to decode the request now ({} more needed); send it again later",
        ByteSize(*.asked)
    )]
    MemoryShort {
        /// Bytes that were asked for.
        asked: u64,
    },
    /// Values are nested deeper than is read.
    #[error("values are nested more than {limit} levels deep")]
    TooDeep {
        /// Levels that are read.
        limit: u32,
    },
    /// The bytes do not follow the format that the headers name.
    #[error("{format} body is malformed at byte {offset}: {what}")]
    Malformed {
        /// The format: `snappy`, `gzip`, `protobuf`, `JSON`, ...
        format: &'static str,
        /// Where the decoder stopped; of the decompressed body unless the format is a compression.
        offset: u64,
        /// What was wrong there.
        what: String,
    },
    /// The request holds no stream at all.
    #[error("error at least one valid stream is required for ingestion")]
    NoStreams,
}

impl Error {
    /// The kind that decides the status code: `Limit` means that the request is too large.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::BodyTooLarge { .. } | Self::DecompressedTooLarge { .. } | Self::TooMany { .. } => {
                ErrorKind::Limit
            }
            Self::MemoryShort { .. } => ErrorKind::Busy,
            Self::ContentType { .. }
            | Self::ContentEncoding { .. }
            | Self::TooDeep { .. }
            | Self::Malformed { .. }
            | Self::NoStreams => ErrorKind::Invalid,
        }
    }

    pub(crate) fn malformed(format: &'static str, offset: usize, what: impl Into<String>) -> Self {
        Self::Malformed { format, offset: offset as u64, what: what.into() }
    }
}

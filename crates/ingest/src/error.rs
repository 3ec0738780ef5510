//! Errors that refuse a complete request. Entries that break a limit are not errors: see
//! [`crate::Refused`].

use sandur_base::ErrorKind;
use sandur_base::units::ByteSize;
use sandur_protobuf::Malformed;

/// A request that cannot be decoded. None of its entries is kept; the client reads the message.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The endpoint does not read this `Content-Type`.
    #[error("content type '{got}' is not supported: send {accepted}")]
    ContentType {
        /// As the client sent it.
        got: String,
        /// The content types that the endpoint reads.
        accepted: &'static str,
    },
    /// The endpoint does not read this `Content-Encoding`.
    #[error("content encoding '{got}' is not supported: send {accepted}")]
    ContentEncoding {
        /// As the client sent it.
        got: String,
        /// The encodings that the endpoint reads.
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
    /// The decompressed body is larger than the tenant's limit.
    #[error(
        "request body too large: more than {limit} bytes after decompression \
         (max_decompressed_size, and at most 100 times the compressed size); send smaller batches"
    )]
    DecompressedTooLarge {
        /// Most bytes that this body could decompress to.
        limit: u64,
    },
    /// The request exceeds a bound on the number of its parts.
    #[error("request body too large: more than {limit} {what} in one request; send smaller batches")]
    TooMany {
        /// What is counted, in the plural.
        what: &'static str,
        /// The bound.
        limit: u64,
    },
    /// Too little memory is free for the request now.
    #[error(
        "not enough memory to decode the request now ({} more needed); send it again later",
        ByteSize(*.asked)
    )]
    MemoryShort {
        /// Bytes that the failed reservation requested.
        asked: u64,
    },
    /// Values are nested deeper than the bound.
    #[error("values are nested more than {limit} levels deep")]
    TooDeep {
        /// Most levels that are read.
        limit: u32,
    },
    /// The bytes do not follow the format that the headers name.
    #[error("{format} body is malformed at byte {offset}: {what}")]
    Malformed {
        /// The format: `snappy`, `gzip`, `protobuf`, `JSON`, ...
        format: &'static str,
        /// Where the decoder stopped: an offset into the decompressed body, or into the body as sent if
        /// the format is a compression.
        offset: u64,
        /// The fault at that offset.
        what: String,
    },
    /// The request holds no stream.
    #[error("error at least one valid stream is required for ingestion")]
    NoStreams,
}

impl Error {
    /// Returns the kind that decides the status code: `Limit` means that the request is too large.
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

impl From<Malformed> for Error {
    #[cold]
    fn from(Malformed { offset, what }: Malformed) -> Self {
        Self::malformed("protobuf", offset, what)
    }
}

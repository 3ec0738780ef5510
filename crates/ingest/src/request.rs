//! Headers, size and encoding of a request, and the decoded request.

use bytes::Bytes;
use sandur_model::{Arena, ArenaCodec, Limits, LogBatch, TenantId};

use crate::error::Error;
use crate::memory::DecoderMemory;
use crate::refused::Refused;
use crate::text::ADDRESSABLE_MAX;
use crate::{decompress, snappy};

/// The headers that determine how a body is read.
#[derive(Clone, Copy, Debug, Default)]
pub struct PushHeaders<'a> {
    /// `Content-Type`, parameters included; absent means protobuf.
    pub content_type: Option<&'a str>,
    /// `Content-Encoding`.
    pub content_encoding: Option<&'a str>,
}

/// A request without its body.
#[derive(Clone, Copy, Debug)]
pub struct Push<'a> {
    /// The tenant that the request writes to.
    pub tenant: &'a TenantId,
    /// The tenant's limits.
    pub limits: &'a Limits,
    /// The wall clock in nanoseconds since the epoch.
    pub now_ns: i64,
    /// The headers of the body.
    pub headers: PushHeaders<'a>,
}

/// The contents of a request.
#[derive(Clone, Debug)]
pub struct Decoded {
    /// The accepted entries.
    pub batch: LogBatch,
    /// The refused entries.
    pub refused: Refused,
    /// Accepted lines.
    pub lines: u64,
    /// Raw bytes of the accepted entries: lines and structured metadata as they were sent.
    pub bytes: u64,
}

/// The serialization of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Format {
    Protobuf,
    Json,
}

/// The accepted content types, for messages.
const ACCEPTED_TYPES: &str = "application/x-protobuf or application/json";

impl PushHeaders<'_> {
    /// Returns the serialization that the content type names.
    pub(crate) fn format(&self) -> Result<Format, Error> {
        let sent = self.content_type.unwrap_or("").trim();
        let essence = sent.split(';').next().unwrap_or("").trim();
        match essence.to_ascii_lowercase().as_str() {
            "application/json" => Ok(Format::Json),
            ""
            | "application/x-protobuf"
            | "application/protobuf"
            | "application/vnd.google.protobuf"
            | "application/octet-stream" => Ok(Format::Protobuf),
            _ => Err(Error::ContentType { got: sent.to_owned(), accepted: ACCEPTED_TYPES }),
        }
    }

    /// Returns the encoding in lower case; empty for none.
    fn encoding(&self) -> String {
        let encoding = self.content_encoding.unwrap_or("").trim().to_ascii_lowercase();
        if encoding == "identity" { String::new() } else { encoding }
    }

    fn unsupported(&self, accepted: &'static str) -> Error {
        let got = self.content_encoding.unwrap_or("").to_owned();
        Error::ContentEncoding { got, accepted }
    }
}

/// A decompressed body: the decoders' input, from which the arena is made.
#[derive(Debug)]
pub(crate) enum Body {
    /// The body as received.
    Plain(Bytes),
    /// The body after decompression or translation.
    Opened(Vec<u8>),
    /// The body after decompression, and the snappy block that held it.
    Snappy { plain: Vec<u8>, block: Bytes },
}

impl Body {
    /// Returns the bytes to decode.
    pub(crate) fn bytes(&self) -> &[u8] {
        match self {
            Self::Plain(bytes) => bytes,
            Self::Opened(plain) | Self::Snappy { plain, .. } => plain,
        }
    }

    /// Returns the arena: the body followed by the text that was added while decoding.
    pub(crate) fn into_arena(self, tail: &[u8], memory: &DecoderMemory) -> Result<Arena, Error> {
        Ok(match self {
            Self::Plain(bytes) if tail.is_empty() => Arena { bytes, compressed: None },
            Self::Plain(bytes) => {
                memory.take((bytes.len() + tail.len()) as u64)?;
                Arena { bytes: [&bytes, tail].concat().into(), compressed: None }
            }
            Self::Opened(mut plain) => {
                append(&mut plain, tail, memory)?;
                Arena { bytes: plain.into(), compressed: None }
            }
            Self::Snappy { plain, block } if tail.is_empty() => {
                Arena { bytes: plain.into(), compressed: Some((ArenaCodec::Snappy, block)) }
            }
            Self::Snappy { mut plain, block } => {
                append(&mut plain, tail, memory)?;
                memory.take(snappy::extended_bytes(&block, tail) as u64)?;
                let block = snappy::extend(&block, tail);
                Arena { bytes: plain.into(), compressed: Some((ArenaCodec::Snappy, block)) }
            }
        })
    }

    /// Returns the body in its protobuf form.
    pub(crate) fn translated(
        self,
        translate: impl FnOnce(&[u8], &DecoderMemory) -> Result<Vec<u8>, Error>,
        memory: &DecoderMemory,
    ) -> Result<Self, Error> {
        let protobuf = translate(self.bytes(), memory)?;
        if let Self::Opened(json) | Self::Snappy { plain: json, .. } = self {
            memory.give(json.capacity() as u64);
        }
        Ok(Self::Opened(protobuf))
    }
}

/// Appends with exact capacity: the head keeps the buffer, so doubling it for a short tail would waste
/// memory.
fn append(plain: &mut Vec<u8>, tail: &[u8], memory: &DecoderMemory) -> Result<(), Error> {
    let most = plain.len() + tail.len();
    memory.widen(plain, tail.len(), most)?;
    plain.extend_from_slice(tail);
    Ok(())
}

/// Returns the most plain bytes that a body of the tenant may have.
pub(crate) fn plain_limit(limits: &Limits) -> u64 {
    match limits.max_decompressed_size {
        0 => ADDRESSABLE_MAX,
        limit => limit.min(ADDRESSABLE_MAX),
    }
}

/// Fails when a body is larger than the tenant's limit.
pub(crate) fn check_size(limits: &Limits, body: &[u8]) -> Result<(), Error> {
    let (size, limit) = (body.len() as u64, limits.max_body_size);
    if limit > 0 && size > limit {
        return Err(Error::BodyTooLarge { size, limit });
    }
    if size > plain_limit(limits) {
        return Err(Error::DecompressedTooLarge { limit: plain_limit(limits) });
    }
    Ok(())
}

/// Decompresses the body of a Loki push. A protobuf body is a snappy block, whichever encoding encloses
/// it.
pub(crate) fn open_loki(
    headers: PushHeaders<'_>,
    limits: &Limits,
    body: Bytes,
    memory: &DecoderMemory,
) -> Result<(Format, Body), Error> {
    let format = headers.format()?;
    check_size(limits, &body)?;
    let limit = plain_limit(limits);
    let body = match headers.encoding().as_str() {
        "" => Body::Plain(body),
        "snappy" if format == Format::Protobuf => Body::Plain(body),
        "gzip" => Body::Opened(decompress::gzip(&body, limit, memory)?),
        "deflate" => Body::Opened(decompress::deflate(&body, limit, memory)?),
        _ => return Err(headers.unsupported("snappy (protobuf only), gzip, deflate or none")),
    };
    if format == Format::Json {
        return Ok((format, body));
    }
    let block = match body {
        Body::Plain(bytes) => bytes,
        Body::Opened(plain) | Body::Snappy { plain, .. } => plain.into(),
    };
    let plain = snappy::open(&block, limit, memory)?;
    Ok((format, Body::Snappy { plain, block }))
}

const OTLP_ENCODINGS: &str = "gzip, zstd, deflate, zlib, lz4, snappy, x-snappy-framed or none";
/// The first bytes of a stream of snappy's framing format.
const SNAPPY_STREAM: &[u8] = b"\xff\x06\0\0sNaPpY";

/// Decompresses the body of an OTLP request, in any encoding that the collectors' exporters can send.
pub(crate) fn open_otlp(
    headers: PushHeaders<'_>,
    limits: &Limits,
    body: Bytes,
    memory: &DecoderMemory,
) -> Result<(Format, Body), Error> {
    let format = headers.format()?;
    Ok((format, open_text(headers, limits, body, memory)?))
}

/// Decompresses a body in any of these encodings, whatever its format is.
pub(crate) fn open_text(
    headers: PushHeaders<'_>,
    limits: &Limits,
    body: Bytes,
    memory: &DecoderMemory,
) -> Result<Body, Error> {
    check_size(limits, &body)?;
    let limit = plain_limit(limits);
    Ok(match headers.encoding().as_str() {
        "" => Body::Plain(body),
        "gzip" => Body::Opened(decompress::gzip(&body, limit, memory)?),
        "deflate" | "zlib" => Body::Opened(decompress::deflate(&body, limit, memory)?),
        "zstd" => Body::Opened(decompress::zstd(&body, limit, memory)?),
        "lz4" => Body::Opened(decompress::lz4(&body, limit, memory)?),
        // Collectors from before 2025 send the framing format under the block format's name.
        "snappy" | "x-snappy-framed" if body.starts_with(SNAPPY_STREAM) => {
            Body::Opened(decompress::framed_snappy(&body, limit, memory)?)
        }
        "snappy" => Body::Opened(snappy::open(&body, limit, memory)?),
        _ => return Err(headers.unsupported(OTLP_ENCODINGS)),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers<'a>(content_type: &'a str, content_encoding: &'a str) -> PushHeaders<'a> {
        PushHeaders { content_type: Some(content_type), content_encoding: Some(content_encoding) }
    }

    #[test]
    fn the_content_type_decides_the_format() {
        for json in ["application/json", "application/JSON; charset=utf-8", " application/json ;x=y"] {
            assert_eq!(headers(json, "").format(), Ok(Format::Json));
        }
        for protobuf in ["application/x-protobuf", "", "application/octet-stream"] {
            assert_eq!(headers(protobuf, "").format(), Ok(Format::Protobuf));
        }
        assert_eq!(PushHeaders::default().format(), Ok(Format::Protobuf));
        let error = headers("text/plain", "").format().unwrap_err().to_string();
        assert_eq!(
            error,
            "content type 'text/plain' is not supported: send application/x-protobuf or application/json"
        );
    }

    #[test]
    fn the_size_and_the_encoding_are_checked() {
        let limits = Limits { max_body_size: 4, max_decompressed_size: 8, ..Limits::default() };
        let body = Bytes::from_static(b"12345");
        let error =
            open_otlp(headers("application/json", ""), &limits, body.clone(), &DecoderMemory::default())
                .unwrap_err();
        assert_eq!(error, Error::BodyTooLarge { size: 5, limit: 4 });
        let limits = Limits::default();
        let error =
            open_loki(headers("application/json", "br"), &limits, body.clone(), &DecoderMemory::default())
                .unwrap_err();
        assert!(error.to_string().contains("'br' is not supported: send snappy"), "{error}");
        let error = open_loki(
            headers("application/json", "snappy"),
            &limits,
            body.clone(),
            &DecoderMemory::default(),
        )
        .unwrap_err();
        assert!(matches!(error, Error::ContentEncoding { .. }));
        let (_, opened) =
            open_otlp(headers("", "identity"), &limits, body, &DecoderMemory::default()).unwrap();
        assert_eq!(opened.bytes(), b"12345");
    }

    #[test]
    fn both_snappy_formats_are_recognized() {
        let block = snap::raw::Encoder::new().compress_vec(b"body").unwrap();
        let mut framed = snap::write::FrameEncoder::new(Vec::new());
        std::io::Write::write_all(&mut framed, b"body").unwrap();
        let framed = framed.into_inner().unwrap();
        for (encoding, body) in [("snappy", block), ("snappy", framed.clone()), ("x-snappy-framed", framed)] {
            let (_, opened) =
                open_otlp(headers("", encoding), &Limits::default(), body.into(), &DecoderMemory::default())
                    .unwrap();
            assert_eq!(opened.bytes(), b"body", "{encoding}");
        }
    }

    #[test]
    fn the_arena_is_the_body_followed_by_the_tail() {
        let block: Bytes = snap::raw::Encoder::new().compress_vec(b"body").unwrap().into();
        let arena = Body::Snappy { plain: b"body".to_vec(), block: block.clone() }
            .into_arena(b"", &DecoderMemory::default())
            .unwrap();
        assert_eq!(arena.compressed.unwrap().1, block);
        let arena = Body::Snappy { plain: b"body".to_vec(), block }
            .into_arena(b"tail", &DecoderMemory::default())
            .unwrap();
        assert_eq!(arena.bytes, "bodytail");
        let again = snappy::open(&arena.compressed.unwrap().1, 100, &DecoderMemory::default()).unwrap();
        assert_eq!(again, b"bodytail");
        assert_eq!(
            Body::Plain(Bytes::from_static(b"body"))
                .into_arena(b"tail", &DecoderMemory::default())
                .unwrap()
                .bytes,
            "bodytail"
        );
    }
}

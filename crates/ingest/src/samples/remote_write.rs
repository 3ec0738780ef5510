//! Decodes remote write of both versions: headers, compression, and the decoder that the content type
//! names.
//!
//! Bodies that are not snappy or not protobuf are refused with Prometheus's messages, for which the
//! status is 415.

use std::rc::Rc;

use bytes::Bytes;
use sandur_model::LabelText;

use super::builder::{SampleBuilder, SamplePush};
use super::decoded::DecodedSamples;
use super::{remote_write_1, remote_write_2};
use crate::error::Error;
use crate::memory::{DecoderMemory, Memory};
use crate::request::{PushHeaders, check_size, plain_limit};
use crate::snappy;

/// The message type of a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RemoteWriteVersion {
    /// `prometheus.WriteRequest`.
    V1,
    /// `io.prometheus.write.v2.Request`.
    V2,
}

const PROTOBUF: &str = "application/x-protobuf";

/// Returns the version that the content type names; without a content type version 1, which old clients
/// send. Fails when the body is in another format or in another encoding than snappy.
pub fn remote_write_version(headers: PushHeaders<'_>) -> Result<RemoteWriteVersion, Error> {
    let encoding = headers.content_encoding.unwrap_or("").trim();
    if !(encoding.is_empty() || encoding.eq_ignore_ascii_case("snappy")) {
        return Err(Error::ContentEncoding { got: encoding.to_owned(), accepted: "snappy" });
    }
    let sent = headers.content_type.unwrap_or("").trim();
    let mut parts = sent.split(';').map(str::trim);
    let essence = parts.next().unwrap_or("");
    if !(essence.is_empty() || essence.eq_ignore_ascii_case(PROTOBUF)) {
        return Err(unsupported(sent));
    }
    let message = parts.find_map(|part| {
        let (name, value) = part.split_once('=')?;
        name.trim().eq_ignore_ascii_case("proto").then_some(value.trim())
    });
    match message {
        None | Some("prometheus.WriteRequest") => Ok(RemoteWriteVersion::V1),
        Some("io.prometheus.write.v2.Request") => Ok(RemoteWriteVersion::V2),
        Some(_) => Err(unsupported(sent)),
    }
}

fn unsupported(sent: &str) -> Error {
    let accepted = "application/x-protobuf, or with proto=prometheus.WriteRequest or \
                    proto=io.prometheus.write.v2.Request";
    Error::ContentType { got: sent.to_owned(), accepted }
}

/// Decodes a request of remote write; reserves memory before it is used.
pub fn remote_write(
    push: SamplePush<'_>,
    body: Bytes,
    memory: Rc<dyn Memory>,
) -> Result<DecodedSamples, Error> {
    decode(push, body, &DecoderMemory::new(memory))
}

fn decode(push: SamplePush<'_>, body: Bytes, memory: &DecoderMemory) -> Result<DecodedSamples, Error> {
    let (headers, limits) = (push.push.headers, push.push.limits);
    let version = remote_write_version(headers)?;
    check_size(limits, &body)?;
    let plain = snappy::open(&body, plain_limit(limits), memory)?;
    let mut builder = SampleBuilder::new(push, plain.len(), memory);
    match version {
        RemoteWriteVersion::V1 => {
            remote_write_1::request(&mut builder, &plain)?;
            builder.finish_over(plain, body, LabelText::Messages)
        }
        RemoteWriteVersion::V2 => {
            let symbols = remote_write_2::request(&mut builder, &plain)?;
            builder.finish_over(plain, body, LabelText::References { symbols })
        }
    }
}

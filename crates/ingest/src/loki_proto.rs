//! Decodes Loki's push protocol in protobuf; the entry point for its JSON form too.
//!
//! `PushRequest{streams=1:{labels=1, entries=2:{timestamp=1:{seconds=1, nanos=2}, line=2,
//! structuredMetadata=3:{name=1, value=2}, parsed=4}, hash=3}, format=2}`. Lines, names and values become
//! spans of the decompressed body; `parsed`, `hash` and `format` are ignored.

use std::rc::Rc;

use bytes::Bytes;
use sandur_model::{Labels, LabelsError, Limits, SECOND_NS, Span, TenantId};
use sandur_protobuf::{Reader, Wire};

use crate::batch_builder::{BatchBuilder, OpenStream, RawEntry};
use crate::error::Error;
use crate::labels_cache::{Naming, Rules, stream_of};
use crate::limits_check::LABELS_TEXT_MAX;
use crate::loki_json::{self, Streams};
use crate::memory::{DecoderMemory, Memory};
use crate::refused::Reason;
use crate::request::{Decoded, Format, Push, PushHeaders, open_loki, plain_limit};
use crate::service_name;
use crate::text::Text;

/// Decodes a request to `/loki/api/v1/push`. `now_ns` is the wall clock in nanoseconds since the epoch.
/// Entries that break a limit are left out and reported; after an error no entry is kept.
pub fn loki_push(
    tenant: &TenantId,
    limits: &Limits,
    now_ns: i64,
    headers: PushHeaders<'_>,
    body: Bytes,
) -> Result<Decoded, Error> {
    decode(Push { tenant, limits, now_ns, headers }, body, Streams::Version1, &DecoderMemory::default())
}

/// Like [`loki_push`], but reserves memory from `memory` before it is used.
pub fn loki_push_within(push: Push<'_>, body: Bytes, memory: Rc<dyn Memory>) -> Result<Decoded, Error> {
    decode(push, body, Streams::Version1, &DecoderMemory::new(memory))
}

/// Decodes a request to `/api/prom/push`, whose JSON may also have the form from before version 1.
pub fn loki_push_legacy_within(
    push: Push<'_>,
    body: Bytes,
    memory: Rc<dyn Memory>,
) -> Result<Decoded, Error> {
    decode(push, body, Streams::Legacy, &DecoderMemory::new(memory))
}

fn decode(push: Push<'_>, body: Bytes, streams: Streams, memory: &DecoderMemory) -> Result<Decoded, Error> {
    let limits = push.limits;
    let body = match open_loki(push.headers, limits, body, memory)? {
        (Format::Protobuf, body) => body,
        (Format::Json, body) => {
            body.translated(|json, memory| loki_json::translate(json, streams, memory), memory)?
        }
    };
    let text = Text::new(body.bytes(), plain_limit(limits), memory)?;
    let mut builder = BatchBuilder::new(text, limits, push.now_ns, memory);
    push_request(&mut builder)?;
    builder.finish().over(body, push.tenant)
}

fn push_request(builder: &mut BatchBuilder<'_>) -> Result<(), Error> {
    let mut request = Reader::new(builder.text.base());
    let rules = Rules::new(Naming::LabelText, builder.limits());
    let mut streams = 0u64;
    while let Some(key) = request.key()? {
        if key == (1, Wire::Bytes) {
            streams += 1;
            stream(builder, rules, request.message()?)?;
        } else {
            request.skip(key.1)?;
        }
    }
    if streams == 0 { Err(Error::NoStreams) } else { Ok(()) }
}

fn stream(builder: &mut BatchBuilder<'_>, rules: Rules, mut message: Reader<'_>) -> Result<(), Error> {
    let name = message.find(1)?.map_or(&b""[..], |span| message.bytes_of(span));
    builder.count_labels_text(name.len())?;
    let known = stream_of(rules, name, || parse_labels(name, builder.limits()));
    let mut stream = match known {
        Ok(known) => builder.begin(known)?,
        Err(refusal) => {
            let refused = measure(message)?;
            builder.refuse_stream(refusal, name, refused);
            return Ok(());
        }
    };
    while let Some(key) = message.key()? {
        if key == (2, Wire::Bytes) {
            entry(builder, &mut stream, message.message()?)?;
        } else {
            message.skip(key.1)?;
        }
    }
    builder.end(stream)
}

fn parse_labels(name: &[u8], limits: &Limits) -> Result<Labels, (Reason, String)> {
    let shown = || String::from_utf8_lossy(&name[..name.len().min(1024)]);
    let invalid = |what: String| {
        (Reason::InvalidLabels, format!("error parsing labels '{}' with error: {what}", shown()))
    };
    if name.len() > LABELS_TEXT_MAX {
        return Err(invalid(format!("{} bytes of labels, limit: {LABELS_TEXT_MAX} bytes", name.len())));
    }
    let text = std::str::from_utf8(name)
        .map_err(|e| invalid(format!("parse error at line 1, col {}: invalid UTF-8", e.valid_up_to() + 1)))?;
    let labels = Labels::parse(text).map_err(|error| match error {
        LabelsError::Duplicate { .. } => (Reason::DuplicateLabelNames, error.to_string()),
        LabelsError::Syntax { .. } => invalid(error.to_string()),
    })?;
    Ok(service_name::discover(labels, &limits.discover_service_name))
}

/// Counts the entries of a stream and the bytes of their lines.
fn measure(mut message: Reader<'_>) -> Result<(u64, u64), Error> {
    let (mut lines, mut bytes) = (0, 0);
    while let Some(key) = message.key()? {
        if key == (2, Wire::Bytes) {
            lines += 1;
            bytes += message.message()?.find(2)?.map_or(0, |line| u64::from(line.len));
        } else {
            message.skip(key.1)?;
        }
    }
    Ok((lines, bytes))
}

#[inline]
fn entry(
    builder: &mut BatchBuilder<'_>,
    stream: &mut OpenStream,
    mut message: Reader<'_>,
) -> Result<(), Error> {
    let mut raw = RawEntry::default();
    builder.pairs.clear();
    while let Some(key) = message.key()? {
        match key {
            (1, Wire::Bytes) => raw.timestamp = timestamp(message.message()?)?,
            (2, Wire::Bytes) => raw.line = message.span()?,
            (3, Wire::Bytes) => builder.add_pair(pair(message.message()?)?)?,
            (_, wire) => message.skip(wire)?,
        }
    }
    builder.entry(stream, raw)
}

/// Converts a `google.protobuf.Timestamp` to nanoseconds, saturating at the bounds of `i64`.
#[inline]
fn timestamp(mut message: Reader<'_>) -> Result<i64, Error> {
    let (mut seconds, mut nanos) = (0i64, 0i64);
    while let Some(key) = message.key()? {
        match key {
            (1, Wire::Varint) => seconds = message.varint()? as i64,
            (2, Wire::Varint) => nanos = i64::from(message.varint()? as i32),
            (_, wire) => message.skip(wire)?,
        }
    }
    Ok(seconds.saturating_mul(SECOND_NS).saturating_add(nanos))
}

fn pair(mut message: Reader<'_>) -> Result<(Span, Span), Error> {
    let (mut name, mut value) = (Span::default(), Span::default());
    while let Some(key) = message.key()? {
        match key {
            (1, Wire::Bytes) => name = message.span()?,
            (2, Wire::Bytes) => value = message.span()?,
            (_, wire) => message.skip(wire)?,
        }
    }
    Ok((name, value))
}

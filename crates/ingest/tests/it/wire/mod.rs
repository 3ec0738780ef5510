//! Messages in pieces that tests assemble, also wrongly, and shortcuts for tests.

#![allow(dead_code, clippy::unwrap_used)] // each test binary uses a part; all of it is test code

use bytes::Bytes;
use sandur_ingest::{Decoded, Error, PushHeaders, loki_push, otlp_logs};
use sandur_model::{Limits, SECOND_NS, TenantId};
use sandur_protobuf::{Writer as _, loki};

/// 2026-11-20T12:00:00Z.
pub const NOON: i64 = 1_795_176_000 * SECOND_NS;

fn written(write: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let mut bytes = Vec::new();
    write(&mut bytes);
    bytes
}

pub fn varint(value: u64) -> Vec<u8> {
    written(|out| out.raw_varint(value))
}

pub fn bytes(field: u32, value: impl AsRef<[u8]>) -> Vec<u8> {
    written(|out| out.bytes(field, value.as_ref()))
}

pub fn number(field: u32, value: u64) -> Vec<u8> {
    written(|out| out.varint(field, value))
}

pub fn fixed64(field: u32, value: u64) -> Vec<u8> {
    written(|out| out.fixed64(field, value))
}

pub fn fixed32(field: u32, value: u32) -> Vec<u8> {
    written(|out| out.fixed32(field, value))
}

pub fn message(field: u32, fields: &[Vec<u8>]) -> Vec<u8> {
    bytes(field, fields.concat())
}

/// An entry of a Loki push: timestamp, line, structured metadata.
pub fn entry(timestamp: i64, line: impl AsRef<[u8]>, metadata: &[(&str, &str)]) -> Vec<u8> {
    written(|out| loki::entry(out, timestamp, line.as_ref(), metadata.iter().copied()))
}

pub fn stream(labels: impl AsRef<[u8]>, entries: &[Vec<u8>]) -> Vec<u8> {
    message(1, &[bytes(1, labels), entries.concat()])
}

pub fn snappy(plain: &[u8]) -> Bytes {
    snap::raw::Encoder::new().compress_vec(plain).unwrap().into()
}

pub fn tenant() -> TenantId {
    TenantId::new("tenant").unwrap()
}

/// Limits without service-name discovery, so that labels stay as they are sent.
pub fn plain_limits() -> Limits {
    Limits { discover_service_name: Vec::new(), ..Limits::default() }
}

pub const PROTOBUF: PushHeaders<'static> =
    PushHeaders { content_type: Some("application/x-protobuf"), content_encoding: None };
pub const JSON: PushHeaders<'static> =
    PushHeaders { content_type: Some("application/json"), content_encoding: None };

pub fn push(limits: &Limits, streams: &[Vec<u8>]) -> Result<Decoded, Error> {
    loki_push(&tenant(), limits, NOON, PROTOBUF, snappy(&streams.concat()))
}

pub fn push_json(limits: &Limits, json: impl Into<Vec<u8>>) -> Result<Decoded, Error> {
    loki_push(&tenant(), limits, NOON, JSON, json.into().into())
}

pub fn otlp(limits: &Limits, resources: &[Vec<u8>]) -> Result<Decoded, Error> {
    otlp_logs(&tenant(), limits, NOON, PROTOBUF, resources.concat().into())
}

pub fn otlp_json(limits: &Limits, json: impl Into<Vec<u8>>) -> Result<Decoded, Error> {
    otlp_logs(&tenant(), limits, NOON, JSON, json.into().into())
}

/// A decoded entry as text: labels, nanoseconds after noon, line, level, metadata.
pub type Row = (String, i64, String, &'static str, Vec<(String, String)>);

/// Returns all entries of a batch, after checking the invariants of the crate.
pub fn rows(decoded: &Decoded) -> Vec<Row> {
    let batch = &decoded.batch;
    assert_eq!(decoded.lines, batch.rows() as u64);
    let mut rows = Vec::new();
    for stream in &batch.streams {
        assert_eq!(stream.id, stream.labels.stream_id());
        assert!(!stream.entries.is_empty());
        for entry in &stream.entries {
            let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
            let metadata: Vec<_> = batch.metadata_of(entry).map(|(n, v)| (text(n), text(v))).collect();
            assert!(metadata.windows(2).all(|w| w[0].0 < w[1].0), "sorted and unique: {metadata:?}");
            let line = String::from_utf8_lossy(entry.line.of(&batch.arena.bytes)).into_owned();
            rows.push((
                stream.labels.to_string(),
                entry.timestamp - NOON,
                line,
                entry.level.as_str(),
                metadata,
            ));
        }
    }
    rows
}

pub fn pairs(metadata: &[(&str, &str)]) -> Vec<(String, String)> {
    metadata.iter().map(|(n, v)| ((*n).to_owned(), (*v).to_owned())).collect()
}

/// Checks that the arena's compressed form, if present, holds the same bytes.
pub fn check_arena(decoded: &Decoded) {
    if let Some((_, block)) = &decoded.batch.arena.compressed {
        let plain = snap::raw::Decoder::new().decompress_vec(block).unwrap();
        assert_eq!(plain, decoded.batch.arena.bytes);
    }
}

//! Loki's push: snappy-compressed protobuf, plain protobuf that the target compresses, and JSON.

use std::rc::Rc;

use bytes::Bytes;
use sandur_ingest::{Decoded, Push, PushHeaders, loki_push, loki_push_legacy_within};
use sandur_model::{Limits, TenantId};

use super::counted::Counted;

/// Memory that a request may use, in bytes: a multiple of the largest body that is decompressed.
const MEMORY_MAX: u64 = 64 << 20;

/// 2026-01-01 in nanoseconds. Timestamps near it, which are not refused, are easy to find for a fuzzer.
pub const NOW_NS: i64 = 1_767_225_600_000_000_000;

/// The first byte chooses the form; the rest is the body.
pub fn run(input: &[u8]) {
    let Some((choice, body)) = input.split_first() else { return };
    let json = PushHeaders { content_type: Some("application/json"), content_encoding: None };
    let (headers, body) = match choice % 3 {
        0 => (PushHeaders::default(), Bytes::copy_from_slice(body)),
        1 => (PushHeaders::default(), compressed(body)),
        _ => (json, Bytes::copy_from_slice(body)),
    };
    let (tenant, limits) = (TenantId::default_tenant(), limits());
    if let Ok(decoded) = loki_push(&tenant, &limits, NOW_NS, headers, body.clone()) {
        check(&decoded);
    }
    // JSON may also have the form that Loki had before version 1.
    let push = Push { tenant: &tenant, limits: &limits, now_ns: NOW_NS, headers };
    if let Ok(decoded) = loki_push_legacy_within(push, body, Rc::new(Counted::up_to(MEMORY_MAX))) {
        check(&decoded);
    }
}

fn compressed(body: &[u8]) -> Bytes {
    snap::raw::Encoder::new().compress_vec(body).unwrap_or_default().into()
}

/// Returns limits that a small input can reach, and no limit on age, so that fewer inputs are refused.
pub fn limits() -> Limits {
    Limits {
        max_line_size: 64,
        max_label_names_per_series: 4,
        max_structured_metadata_size: 128,
        max_structured_metadata_entries_count: 4,
        max_decompressed_size: 1 << 20,
        reject_old_samples_max_age: 0,
        ..Limits::default()
    }
}

/// Checks that all parts of a batch are within its arena, sorted and within the limits.
pub fn check(decoded: &Decoded) {
    let batch = &decoded.batch;
    let arena = &batch.arena.bytes;
    let mut lines = 0;
    for stream in &batch.streams {
        assert_eq!(stream.id, stream.labels.stream_id());
        for entry in &stream.entries {
            lines += 1;
            assert!(entry.line.end() <= arena.len() && entry.line.len as u64 <= limits().max_line_size);
            let pairs: Vec<(&[u8], &[u8])> = batch.metadata_of(entry).collect();
            assert!(pairs.is_sorted_by(|a, b| a.0 < b.0), "names are sorted and unique");
            for (name, value) in pairs {
                assert!(std::str::from_utf8(name).is_ok() && std::str::from_utf8(value).is_ok());
                assert!(!name.is_empty() && !value.is_empty());
            }
        }
    }
    assert_eq!(lines, decoded.lines, "the number of lines is correct");
    if let Some((_, block)) = &batch.arena.compressed {
        let again = snap::raw::Decoder::new().decompress_vec(block);
        assert!(again.is_ok_and(|plain| plain == **arena), "the compressed arena equals the arena");
    }
    let _ = decoded.refused.text();
}

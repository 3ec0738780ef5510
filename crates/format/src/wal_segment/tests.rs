//! Tests of the complete layout: written batches are read back, and damage is detected and never used.

use std::sync::Arc;

use bytes::Bytes;
use proptest::prelude::*;
use sandur_base::Id;
use sandur_model::{
    Arena, ArenaCodec, Batch, Entry, Labels, Level, LogBatch, SampleBatch, SeriesSamples, Span,
    StreamEntries, TenantId,
};

use super::*;
use crate::error::Error;

fn id(sequence: u64) -> FrameId {
    FrameId { incarnation: Id::from_parts(1_700_000_000_000, 7), sequence }
}

/// A batch whose arena holds `rows` lines with metadata, like that of a request.
fn batch(tenant: &str, rows: usize, snappy: bool) -> LogBatch {
    let (mut arena, mut metadata, mut entries) = (Vec::new(), Vec::new(), Vec::new());
    let mut put = |text: &str| {
        let start = arena.len() as u32;
        arena.extend_from_slice(text.as_bytes());
        Span { start, len: text.len() as u32 }
    };
    for row in 0..rows {
        let metadata_start = metadata.len() as u32;
        let metadata_len = (row % 3) as u16;
        for pair in 0..metadata_len {
            let (name, value) = (put(&format!("key{pair}")), put(&format!("value {row}")));
            metadata.push((name, value));
        }
        put("ignored");
        let line = put(&format!("line {row} of {tenant}: \u{e9}\n"));
        let timestamp = 1_700_000_000_000_000_000 + (row as i64 * 7_919) % 1_000;
        let level = Level::EVERY[row % Level::EVERY.len()];
        entries.push(Entry { timestamp, line, metadata_start, metadata_len, level });
    }
    let half = entries.split_off(rows / 2);
    let stream = |app: &str, entries| {
        let labels = Arc::new(Labels::from_pairs([("app", app), ("env", "prod")]));
        StreamEntries { id: labels.stream_id(), labels, entries }
    };
    let streams = vec![stream("api", entries), stream("empty", Vec::new()), stream("web", half)];
    let compressed = snappy.then(|| snap::raw::Encoder::new().compress_vec(&arena).unwrap());
    let compressed = compressed.map(|bytes| (ArenaCodec::Snappy, Bytes::from(bytes)));
    let arena = Arena { bytes: Bytes::from(arena), compressed };
    LogBatch { tenant: TenantId::new(tenant).unwrap(), arena, metadata, streams }
}

/// Returns the contents of a batch for comparison: spans differ when unused metadata is left out.
#[allow(clippy::type_complexity)]
fn meaning(batch: &LogBatch) -> Vec<(String, Vec<(i64, Level, Vec<u8>, Vec<(Vec<u8>, Vec<u8>)>)>)> {
    let entry = |e: &Entry| {
        let pairs = batch.metadata_of(e).map(|(n, v)| (n.to_vec(), v.to_vec()));
        (e.timestamp, e.level, e.line.of(&batch.arena.bytes).to_vec(), pairs.collect())
    };
    let stream = |s: &StreamEntries| {
        assert_eq!(s.id, s.labels.stream_id());
        (s.labels.to_string(), s.entries.iter().map(entry).collect())
    };
    batch.streams.iter().map(stream).collect()
}

fn record(batch: &LogBatch) -> Record {
    Record::of_logs(batch).unwrap()
}

fn joined(pieces: &[Bytes]) -> Bytes {
    pieces.concat().into()
}

fn frame_of(batches: &[LogBatch], sequence: u64) -> Bytes {
    let records: Vec<Record> = batches.iter().map(record).collect();
    let mut pieces = Vec::new();
    let header = encode_frame(id(sequence), &records, &mut pieces).unwrap();
    let bytes = joined(&pieces);
    assert_eq!(header.frame_len(), bytes.len() as u64);
    bytes
}

#[test]
fn batches_of_several_tenants_round_trip() {
    let batches = [batch("b", 50, true), batch("a", 3, false), batch("b", 0, false), batch("c", 400, false)];
    let frame = Frame::from_object(frame_of(&batches, 9)).unwrap();
    assert_eq!((frame.header().id, frame.len()), (id(9), 4));
    let tenants: Vec<&str> = (0..4).map(|n| frame.tenant(n).as_str()).collect();
    assert_eq!(tenants, ["b", "a", "b", "c"]);
    for (read, written) in frame.batches().unwrap().iter().zip(&batches) {
        let read = read.as_logs().unwrap();
        assert_eq!(meaning(read), meaning(written));
        assert_eq!(read.arena.bytes, written.arena.bytes);
    }
    assert_eq!(frame.header().min_ts, 1_700_000_000_000_000_000);
    assert!(frame.header().max_ts > frame.header().min_ts);
}

#[test]
fn the_compressed_text_is_shared_and_not_copied() {
    let batch = batch("a", 100, true);
    let mut pieces = Vec::new();
    encode_frame(id(0), &[record(&batch)], &mut pieces).unwrap();
    let (_, compressed) = batch.arena.compressed.unwrap();
    assert_eq!(pieces[1].as_ptr(), compressed.as_ptr());
}

/// Samples whose values differ only in their bits.
fn samples(tenant: &str, rows: i64) -> SampleBatch {
    let mut batch = SampleBatch::new(TenantId::new(tenant).unwrap());
    let stale = f64::from_bits(0x7ff0_0000_0000_0002);
    let values = [0.0, -0.0, f64::NAN, stale, f64::INFINITY, 1.5, f64::MIN_POSITIVE / 2.0];
    for name in ["up", "http_requests_total"] {
        let labels = Arc::new(Labels::from_pairs([("__name__", name), ("job", "api")]));
        let at = |row: i64| 1_700_000_000_000 + row * 15_000 - (row % 3) * 100_000;
        batch.push(labels, (0..rows).map(|row| (at(row), values[row as usize % values.len()])));
    }
    batch
}

#[test]
fn samples_and_logs_round_trip_bit_for_bit() {
    let batches = [
        Batch::from(batch("a", 20, true)),
        Batch::from(samples("a", 100)),
        Batch::from(samples("b", 0)),
        Batch::from(batch("c", 3, false)),
    ];
    let records: Vec<Record> = batches.iter().map(|b| Record::of(b).unwrap()).collect();
    let mut pieces = Vec::new();
    let header = encode_frame(id(4), &records, &mut pieces).unwrap();
    assert_eq!(header.version, 2);
    let plain = Frame::from_object(joined(&pieces)).unwrap();
    assert_eq!(plain.stamp(), 0);
    pieces.clear();
    let header = encode_stamped_frame(id(4), 77 << 10, &records, &mut pieces).unwrap();
    assert_eq!(header.version, VERSION_MAX);
    let frame = Frame::from_object(joined(&pieces)).unwrap();
    assert_eq!((*frame.header(), frame.len(), frame.stamp()), (header, 4, 77 << 10));
    for (n, (read, written)) in frame.batches().unwrap().iter().zip(&batches).enumerate() {
        assert_eq!((read.dataset(), read.time_bounds()), (written.dataset(), written.time_bounds()));
        assert_eq!((frame.dataset(n), read.rows()), (written.dataset(), written.rows()));
        match (read, written) {
            (Batch::Logs(read), Batch::Logs(written)) => assert_eq!(meaning(read), meaning(written)),
            (Batch::Metrics(read), Batch::Metrics(written)) => {
                let bits = |b: &SampleBatch| b.values.iter().map(|v| v.to_bits()).collect::<Vec<_>>();
                assert_eq!((&read.timestamps, bits(read)), (&written.timestamps, bits(written)));
                let series = |b: &SampleBatch| {
                    let of = |s: &SeriesSamples| (s.id, s.labels.to_string(), s.samples.clone());
                    b.series.iter().map(of).collect::<Vec<_>>()
                };
                assert_eq!(series(read), series(written));
            }
            _ => panic!("the signal has changed"),
        }
    }
}

/// Programs without metrics can still read frames that hold none.
#[test]
fn frames_of_only_logs_keep_their_version() {
    let frame = Frame::from_object(frame_of(&[batch("a", 5, false)], 0)).unwrap();
    let fence = Frame::from_object(encode_fence(id(1))).unwrap();
    assert_eq!((frame.header().version, fence.header().version), (1, 1));
}

#[test]
fn damaged_samples_are_refused() {
    let record = Record::of(&Batch::from(samples("a", 50))).unwrap();
    let mut pieces = Vec::new();
    encode_frame(id(4), &[record], &mut pieces).unwrap();
    let whole = joined(&pieces);
    for at in 0..whole.len() {
        let mut bytes = whole.to_vec();
        bytes[at] ^= 0x55;
        assert!(Frame::from_object(bytes.into()).is_err(), "byte {at}");
    }
}

#[test]
fn a_fence_is_a_frame_without_batches() {
    let frame = Frame::from_object(encode_fence(id(3))).unwrap();
    assert_eq!((frame.header().kind, frame.header().id, frame.is_empty()), (FrameKind::Fence, id(3), true));
    assert_eq!(frame.batches().unwrap().len(), 0);
}

#[test]
fn a_file_of_frames_is_read_in_order_and_a_torn_end_is_not_corruption() {
    let frames: Vec<Bytes> = (0..3).map(|n| frame_of(&[batch("a", 20 + n, n == 1)], n as u64)).collect();
    let file = joined(&frames);
    let mut reader = FrameReader::new(file.clone());
    let mut sequences = Vec::new();
    while let Some(frame) = reader.next_frame().unwrap() {
        sequences.push(frame.header().id.sequence);
    }
    assert_eq!((sequences, reader.offset()), (vec![0, 1, 2], file.len() as u64));

    let second = frames[0].len();
    let third = second + frames[1].len();
    for cut in third + 1..file.len() {
        let error = read_to_error(file.slice(..cut));
        assert_eq!(error, Error::Torn { valid_len: third as u64 });
    }
    for (at, torn) in [(third + 5, true), (file.len() - 1, true), (second + 5, false), (third - 1, false)] {
        let mut damaged = file.to_vec();
        damaged[at] ^= 0x40;
        let error = read_to_error(damaged.into());
        assert_eq!(error == Error::Torn { valid_len: third as u64 }, torn, "byte {at}: {error}");
        assert!(torn || matches!(error, Error::Checksum { .. }), "{error}");
    }
}

fn read_to_error(file: Bytes) -> Error {
    let mut reader = FrameReader::new(file);
    loop {
        match reader.next_frame() {
            Ok(Some(_)) => {}
            Ok(None) => panic!("the damage was not detected"),
            Err(error) => return error,
        }
    }
}

#[test]
fn a_huge_stated_length_is_refused_with_the_bound_in_the_error() {
    let batch = batch("a", 10, true);
    let record = Record::of_logs(&batch).unwrap();
    let mut head = Vec::new();
    record.put(VERSION, &mut head);
    // The plain length follows the codec: state 3 GiB.
    let (_, snappy) = batch.arena.compressed.as_ref().unwrap();
    let mut body = vec![1, 1, b'a', 0, head[0]];
    crate::codec::varint::put_varint(&mut body, 3 << 30);
    let plain_len = batch.arena.bytes.len();
    let skip = 1 + if plain_len >= 128 { 2 } else { 1 };
    body.extend_from_slice(&head[skip..]);
    body.extend_from_slice(snappy);
    let error = record::StoredRecord::get_all(VERSION, &body.into(), 0, 1).unwrap_err();
    assert!(matches!(error, Error::TooLarge { limit, .. } if limit == ARENA_BYTES_MAX as u64), "{error}");
}

/// Reads hostile bytes as far as possible; fails only by panics and huge allocations.
fn read_everything(bytes: Bytes) {
    if let Ok(frame) = Frame::from_object(bytes.clone()) {
        let _ = frame.batches();
    }
    let mut reader = FrameReader::new(bytes);
    while let Ok(Some(frame)) = reader.next_frame() {
        let _ = frame.batches();
    }
}

/// A frame of version 1, stored in the repository, which every later version must still read.
const FIXTURE: &[u8] = include_bytes!("../../fixtures/wal-frame-v1.bin");

fn fixture_batches() -> [LogBatch; 3] {
    [batch("team-a", 40, true), batch("team-b", 60, false), batch("team-a", 1, false)]
}

/// Only for a new version of the format: version 1 stays unchanged.
#[test]
#[ignore = "writes into the repository"]
fn write_the_fixture() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/fixtures/wal-frame-v1.bin");
    std::fs::write(path, frame_of(&fixture_batches(), 42)).unwrap();
}

#[test]
fn version_1_is_read() {
    let frame = Frame::from_object(Bytes::from_static(FIXTURE)).unwrap();
    assert_eq!((frame.header().id, frame.header().kind), (id(42), FrameKind::Data));
    let batches = frame.batches().unwrap();
    assert_eq!(batches.len(), 3);
    for (read, written) in batches.iter().zip(&fixture_batches()) {
        let read = read.as_logs().unwrap();
        assert_eq!(read.tenant, written.tenant);
        assert_eq!(meaning(read), meaning(written));
    }
}

/// A frame of version 3, with a stamp.
const STAMPED_FIXTURE: &[u8] = include_bytes!("../../fixtures/wal-frame-v3.bin");
const FIXTURE_STAMP: u64 = 1_795_176_000_123 << 10 | 5;

fn stamped_frame() -> Bytes {
    let records: Vec<Record> =
        fixture_batches().iter().map(|batch| Record::of_logs(batch).unwrap()).collect();
    let mut pieces = Vec::new();
    encode_stamped_frame(id(43), FIXTURE_STAMP, &records, &mut pieces).unwrap();
    joined(&pieces)
}

#[test]
#[ignore = "writes into the repository"]
fn write_the_stamped_fixture() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/fixtures/wal-frame-v3.bin");
    std::fs::write(path, stamped_frame()).unwrap();
}

#[test]
fn version_3_is_read() {
    let frame = Frame::from_object(Bytes::from_static(STAMPED_FIXTURE)).unwrap();
    assert_eq!((frame.header().id, frame.header().version, frame.stamp()), (id(43), 3, FIXTURE_STAMP));
    let batches = frame.batches().unwrap();
    assert_eq!(batches.len(), 3);
    for (read, written) in batches.iter().zip(&fixture_batches()) {
        assert_eq!(meaning(read.as_logs().unwrap()), meaning(written));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn every_changed_byte_is_detected(at in any::<prop::sample::Index>(), bit in 0..8u8) {
        let bytes = frame_of(&[batch("a", 30, false), batch("b", 5, true)], 1);
        let mut damaged = bytes.to_vec();
        damaged[at.index(bytes.len())] ^= 1 << bit;
        prop_assert!(Frame::from_object(damaged.into()).is_err());
    }

    #[test]
    fn a_body_with_a_valid_checksum_and_random_content_never_panics(
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
        snappy in any::<bool>(),
        stamped in any::<bool>(),
    ) {
        let bytes = match stamped {
            true => stamped_frame(),
            false => frame_of(&[batch("a", 30, snappy), batch("b", 5, true)], 1),
        };
        let mut hostile = bytes.to_vec();
        for (at, byte) in changes {
            let at = HEADER_LEN + at.index(bytes.len() - HEADER_LEN);
            hostile[at] = byte;
        }
        let crc = crate::codec::crc32c(&hostile[HEADER_LEN..]).to_le_bytes();
        hostile[HEADER_LEN - 8..HEADER_LEN - 4].copy_from_slice(&crc);
        let crc = crate::codec::crc32c(&hostile[..HEADER_LEN - 4]).to_le_bytes();
        hostile[HEADER_LEN - 4..HEADER_LEN].copy_from_slice(&crc);
        read_everything(hostile.into());
    }

    #[test]
    fn random_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        read_everything(bytes.into());
    }
}

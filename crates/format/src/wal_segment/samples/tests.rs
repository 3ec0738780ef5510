//! Records of samples: every form is read back unchanged, and no bytes make a reader panic.

use std::sync::Arc;

use bytes::Bytes;
use proptest::prelude::*;
use sandur_base::Id;
use sandur_model::histogram::{Buckets, CUSTOM_SCHEMA, CounterReset, Span as BucketSpan};
use sandur_model::{
    ArenaCodec, Batch, Exemplar, FloatHistogram, GraphiteName, HistogramSample, LabelText, Labels,
    MetricKind, MetricMetadata, STALE_BITS, SampleBatch, Span, TenantId,
};

use super::*;
use crate::codec::varint::{put_blob, put_varint};
use crate::wal_segment::{Frame, FrameId, HEADER_LEN, Record, encode_frame};

const NOW: i64 = 1_700_000_000_000;

fn tenant() -> TenantId {
    TenantId::new("team-a").unwrap()
}

fn labels_of(n: usize) -> Arc<Labels> {
    let instance = format!("host-{}:9100", n / 3);
    Arc::new(Labels::from_pairs([("__name__", ["up", "go_gc", "node_cpu"][n % 3]), ("instance", &instance)]))
}

fn value_of(n: usize) -> f64 {
    let stale = f64::from_bits(STALE_BITS);
    [0.0, -0.0, f64::NAN, stale, f64::INFINITY, n as f64 / 3.0, f64::MIN_POSITIVE / 2.0][n % 7]
}

/// Returns a batch over the body of a remote write 1.0 request.
fn messages(series: usize) -> SampleBatch {
    let (mut batch, mut body) = (SampleBatch::new(tenant()), Vec::new());
    for n in 0..series {
        let labels = labels_of(n);
        body.extend_from_slice(&[0x0a, 99]);
        let start = body.len();
        for (name, value) in labels.iter() {
            let mut message = vec![0x0a];
            put_blob(&mut message, name.as_bytes());
            message.push(0x12);
            put_blob(&mut message, value.as_bytes());
            message.extend_from_slice(&[0x18, 7]); // an unknown field
            body.push(0x0a);
            put_blob(&mut body, &message);
        }
        let text = Span { start: start as u32, len: (body.len() - start) as u32 };
        batch.begin_series(labels.stream_id(), labels, text);
        for row in 0..1 + n % 2 {
            body.extend_from_slice(&[0x12, 17, 0x09]);
            batch.push_stored_sample(NOW + (n * row) as i64, value_of(n), body.len() as u32);
            body.extend_from_slice(&value_of(n).to_bits().to_le_bytes());
            body.extend_from_slice(&[0x10, 5]);
        }
    }
    let compressed = snap::raw::Encoder::new().compress_vec(&body).unwrap();
    batch.arena.bytes = body.into();
    batch.arena.compressed = Some((ArenaCodec::Snappy, compressed.into()));
    batch.label_text = LabelText::Messages;
    batch
}

/// Returns a batch over the body of a remote write 2.0 request.
fn references(series: usize) -> SampleBatch {
    let (mut batch, mut body, mut texts) = (SampleBatch::new(tenant()), Vec::new(), vec![String::new()]);
    let (mut starts, all): (Vec<Vec<u8>>, Vec<Arc<Labels>>) =
        (Vec::new(), (0..series).map(labels_of).collect());
    for labels in &all {
        let mut references = Vec::new();
        for text in labels.iter().flat_map(|(name, value)| [name, value]) {
            let known = texts.iter().position(|own| own == text);
            let number = known.unwrap_or_else(|| {
                texts.push(text.to_owned());
                texts.len() - 1
            });
            put_varint(&mut references, number as u64);
        }
        starts.push(references);
    }
    let symbol = |text: &String| {
        body.push(0x22);
        put_varint(&mut body, text.len() as u64);
        body.extend_from_slice(text.as_bytes());
        Span { start: (body.len() - text.len()) as u32, len: text.len() as u32 }
    };
    let symbols = texts.iter().map(symbol).collect();
    for (n, (labels, references)) in all.into_iter().zip(&starts).enumerate() {
        let text = Span { start: body.len() as u32, len: references.len() as u32 };
        body.extend_from_slice(references);
        batch.begin_series(labels.stream_id(), labels, text);
        batch.push_stored_sample(NOW, value_of(n), body.len() as u32);
        batch.set_start(if n % 4 == 1 { NOW - 5_000 } else { 0 });
        body.extend_from_slice(&value_of(n).to_bits().to_le_bytes());
    }
    batch.arena.bytes = body.into();
    batch.label_text = LabelText::References { symbols };
    batch
}

fn histogram(n: u32) -> FloatHistogram {
    let spans = [BucketSpan { offset: -2, length: 2 }, BucketSpan { offset: 3, length: 1 }];
    let counts = |scale: f64| vec![1.0 * scale, 4.0 * scale, 2.0 * scale];
    let mut histogram = FloatHistogram {
        reset: [CounterReset::Unknown, CounterReset::Reset, CounterReset::NotReset, CounterReset::Gauge]
            [n as usize % 4],
        schema: 3,
        zero_threshold: 1e-128,
        zero_count: 2.0,
        count: 16.0,
        sum: 18.4,
        positive: Buckets::from_spans(&spans, counts(if n.is_multiple_of(2) { 1.0 } else { 0.5 })).unwrap(),
        negative: Buckets::from_spans(&spans[..1], vec![3.0, 4.0]).unwrap(),
        bounds: Arc::default(),
    };
    match n % 5 {
        3 => {
            (histogram.schema, histogram.zero_threshold, histogram.zero_count) = (CUSTOM_SCHEMA, 0.0, 0.0);
            histogram.negative = Buckets::default();
            histogram.positive = Buckets::from_spans(
                &[BucketSpan { offset: 1, length: 2 }],
                vec![3.0, 9_007_199_254_740_993.0],
            )
            .unwrap();
            histogram.bounds = [f64::NEG_INFINITY, 0.5, 1.0].into();
        }
        4 => {
            histogram = FloatHistogram { sum: f64::from_bits(STALE_BITS), ..FloatHistogram::default() };
        }
        _ => {}
    }
    histogram
}

/// Returns a batch with all kinds of contents, without a body.
fn everything() -> SampleBatch {
    let mut batch = SampleBatch::new(tenant());
    for n in 0..40 {
        batch.push(labels_of(n), (0..n as i64 % 4).map(|row| (NOW + row * 15_000, value_of(n))));
        for row in 0..n as u32 % 3 {
            let (timestamp, start) = (NOW + i64::from(row) * 15_000, if row == 1 { NOW - 999 } else { 0 });
            let histogram = Arc::new(histogram(n as u32 + row));
            batch.push_histogram(HistogramSample { timestamp, start, integer: row == 0, histogram });
        }
        if n % 6 == 0 {
            let labels = Labels::from_pairs([("trace_id", format!("{n:08x}"))]);
            batch.push_exemplar(Exemplar { labels, value: value_of(n), timestamp: NOW - n as i64 });
        }
    }
    batch.set_start(NOW - 60_000);
    for (kind, help) in [(MetricKind::Counter, "Requests."), (MetricKind::StateSet, "")] {
        let (family, unit) = ("http_requests".into(), "requests".into());
        batch.metadata.push(MetricMetadata { family, kind, unit, help: help.into() });
    }
    batch
}

/// Returns the meaning of a batch, with floats as bits, independent of the places of its text.
fn meaning(batch: &SampleBatch) -> String {
    let bits = |values: &[f64]| values.iter().map(|v| v.to_bits()).collect::<Vec<_>>();
    let series =
        batch.series.iter().map(|s| format!("{:?} {} {:?} {:?}", s.id, s.labels, s.samples, s.histograms));
    let histogram = |sample: &HistogramSample| {
        let h = &sample.histogram;
        let floats = [h.zero_threshold, h.zero_count, h.count, h.sum];
        let counts = [bits(&floats), bits(&h.positive.counts), bits(&h.negative.counts), bits(&h.bounds)];
        let indices = (&h.positive.indices, &h.negative.indices);
        let times = (sample.timestamp, sample.start, sample.integer);
        format!("{times:?} {:?} {} {indices:?} {counts:?}", h.reset, h.schema)
    };
    let exemplar = |of: &sandur_model::SeriesExemplar| {
        let e = &of.exemplar;
        format!("{} {} {} {}", of.series, e.labels, e.value.to_bits(), e.timestamp)
    };
    format!(
        "{:?}\n{:?}\n{:?}\n{:?}\n{:?}\n{:?}\n{:?}",
        series.collect::<Vec<_>>(),
        batch.timestamps,
        bits(&batch.values),
        batch.starts,
        batch.histograms.iter().map(histogram).collect::<Vec<_>>(),
        batch.exemplars.iter().map(exemplar).collect::<Vec<_>>(),
        batch.metadata,
    )
}

fn frame_of(batches: Vec<SampleBatch>) -> Bytes {
    let records: Vec<Record> =
        batches.into_iter().map(|batch| Record::of(&Batch::from(batch)).unwrap()).collect();
    let mut pieces = Vec::new();
    encode_frame(FrameId { incarnation: Id(42), sequence: 7 }, &records, &mut pieces).unwrap();
    pieces.concat().into()
}

fn read(bytes: &Bytes) -> Vec<SampleBatch> {
    let frame = Frame::from_object(bytes.clone()).unwrap();
    let batches = frame.batches().unwrap().into_iter();
    batches
        .map(|batch| match batch {
            Batch::Metrics(batch) => batch,
            Batch::Logs(_) => panic!("the signal has changed"),
        })
        .collect()
}

fn all() -> Vec<SampleBatch> {
    vec![messages(200), references(150), everything(), SampleBatch::new(tenant()), names(120)]
}

/// Returns a batch of Graphite names, of paths and both notations of tags, each followed by a value.
fn names(series: usize) -> SampleBatch {
    let (mut batch, mut body) = (SampleBatch::new(tenant()), Vec::new());
    for n in 0..series {
        let name = match n % 4 {
            0 => format!("servers.web-{n}.cpu.idle"),
            1 => format!("disk.used;datacenter=dc{};rack=a{n}", n % 3),
            2 => format!(".site..é{n}.load."),
            _ => format!("requests{{host=\"h{n}\",code=\"200\"}}").replace(['{', '}', '"'], "_"),
        };
        let labels = Arc::new(GraphiteName::parse(&name).labels().unwrap());
        let text = Span { start: body.len() as u32, len: name.len() as u32 };
        body.extend_from_slice(name.as_bytes());
        batch.begin_series(labels.stream_id(), labels, text);
        for row in 0..1 + n % 2 {
            let value = value_of(n + row);
            batch.push_stored_sample(NOW + (n * row) as i64 * 1_000, value, body.len() as u32);
            body.extend_from_slice(&value.to_bits().to_le_bytes());
        }
    }
    batch.arena.bytes = body.into();
    batch.label_text = LabelText::Names;
    batch
}

#[test]
fn every_form_is_read_back_unchanged() {
    for (written, read) in all().iter().zip(read(&frame_of(all()))) {
        assert_eq!(meaning(written), meaning(&read));
        assert!(read.arena.bytes.is_empty(), "the text is not needed any more");
        assert_eq!(written.time_bounds(), read.time_bounds());
        // A batch that was read can be written again.
        assert_eq!(meaning(&read), meaning(&super::tests::read(&frame_of(vec![read.clone()]))[0]));
    }
}

#[test]
fn a_compressed_body_is_stored_unchanged_with_few_bytes_more() {
    let batch = messages(500);
    let (_, compressed) = batch.arena.compressed.clone().unwrap();
    let record = Record::of_samples(&batch).unwrap();
    assert_eq!(record.arena().as_ptr(), compressed.as_ptr());
    let added = record.frame_bytes() - compressed.len();
    assert!(added < 5 * batch.values.len(), "{added} bytes in addition to the body");
}

#[test]
fn spans_that_do_not_match_the_body_are_not_used() {
    let change = |change: fn(&mut SampleBatch)| {
        let mut batch = messages(20);
        change(&mut batch);
        batch
    };
    for batch in [
        change(|batch| batch.series[3].text = Span::default()),
        change(|batch| batch.series[3].text.len += 4_000),
        change(|batch| batch.value_offsets[2] = u32::MAX),
        change(|batch| batch.value_offsets.truncate(2)),
        change(|batch| batch.arena.bytes = Bytes::new()),
    ] {
        assert_eq!(meaning(&batch), meaning(&read(&frame_of(vec![batch.clone()]))[0]));
    }
}

#[test]
fn a_histogram_that_readers_refuse_is_not_written() {
    let mut batch = everything();
    let mut wrong = histogram(1);
    wrong.schema = 99;
    batch.histograms[0].histogram = Arc::new(wrong);
    assert!(matches!(Record::of_samples(&batch), Err(Error::Misuse(_))));
}

/// A symbol of 100 KB that many labels share would become gigabytes when read.
#[test]
fn labels_that_share_long_texts_are_bounded() {
    let long = "x".repeat(100_000);
    let labels: Vec<(String, &str)> = (0..100).map(|n| (format!("l{n:03}"), long.as_str())).collect();
    let labels = Arc::new(Labels::from_pairs(labels));
    let mut batch = SampleBatch::new(tenant());
    (0..30).for_each(|_| batch.push(Arc::clone(&labels), [(NOW, 1.0)]));
    assert!(matches!(Record::of_samples(&batch), Err(Error::TooLarge { .. })));
    batch.series.truncate(20);
    (batch.timestamps, batch.values) = (vec![NOW; 20], vec![1.0; 20]);
    let (arena, columns) = put_batch(&batch).unwrap();
    assert!(arena.bytes.len() < 110_000);
    let mut reader = Reader::new("test", 0, &columns);
    assert_eq!(get_batch(&mut reader, tenant(), &arena.bytes).unwrap().series.len(), 20);
}

#[test]
fn memory_is_known_before_decoding() {
    for batch in all() {
        let (arena, columns) = put_batch(&batch).unwrap();
        let announced = memory_bytes(&columns, arena.bytes.len());
        let mut reader = Reader::new("test", 0, &columns);
        let read = get_batch(&mut reader, tenant(), &arena.bytes).unwrap();
        let labels = read.series.iter().map(|s| s.labels.text_bytes() + s.labels.len() * 48).sum::<usize>();
        assert!(announced >= read.memory_bytes() + labels as u64, "{announced}");
    }
    assert!(memory_bytes(&[], 5) >= 5);
}

/// A frame of version 2, stored in the repository, which every later version must still read.
const FIXTURE: &[u8] = include_bytes!("../../../fixtures/wal-frame-v2.bin");

/// The same with a record of Graphite names, which were added later.
const FIXTURE_OF_NAMES: &[u8] = include_bytes!("../../../fixtures/wal-frame-v2-names.bin");

/// Only for a new version of the format: version 2 stays unchanged.
#[test]
#[ignore = "writes into the repository"]
fn write_the_fixture() {
    let directory = concat!(env!("CARGO_MANIFEST_DIR"), "/fixtures");
    let (of_names, others): (Vec<_>, Vec<_>) = all().into_iter().partition(is_of_names);
    std::fs::write(format!("{directory}/wal-frame-v2.bin"), frame_of(others)).unwrap();
    std::fs::write(format!("{directory}/wal-frame-v2-names.bin"), frame_of(of_names)).unwrap();
}

fn is_of_names(batch: &SampleBatch) -> bool {
    matches!(batch.label_text, LabelText::Names)
}

#[test]
fn version_2_is_read() {
    let (of_names, others): (Vec<_>, Vec<_>) = all().into_iter().partition(is_of_names);
    for (written, fixture) in [(others, FIXTURE), (of_names, FIXTURE_OF_NAMES)] {
        let read = read(&Bytes::from_static(fixture));
        assert_eq!(written.len(), read.len());
        for (written, read) in written.iter().zip(read) {
            assert_eq!(meaning(written), meaning(&read));
        }
    }
    let record = Record::of_samples(&names(3)).unwrap();
    assert_eq!(record.arena(), &names(3).arena.bytes, "the names are stored as sent");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn columns_with_any_content_never_panic(
        which in 0..5usize,
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
        in_arena in any::<bool>(),
    ) {
        let (arena, mut columns) = put_batch(&all()[which]).unwrap();
        let mut arena = arena.bytes.to_vec();
        for (at, byte) in changes {
            let bytes = if in_arena && !arena.is_empty() { &mut arena } else { &mut columns };
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        // A false number of series or samples must not reserve memory.
        prop_assume!(memory_bytes(&columns, arena.len()) < 1 << 30);
        let mut reader = Reader::new("test", HEADER_LEN as u64, &columns);
        if let Ok(batch) = get_batch(&mut reader, tenant(), &arena.into()) {
            let _ = meaning(&batch);
            let _ = put_batch(&batch);
        }
    }

    #[test]
    fn random_columns_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let mut reader = Reader::new("test", 0, &bytes);
        let _ = get_batch(&mut reader, tenant(), &Bytes::from_static(&[0; 64]));
    }
}

/// Regression: labels were read by stricter rules than the decoder of requests applies, so one request
/// with an odd encoding made its whole frame unreadable.
#[test]
fn labels_in_an_odd_encoding_are_read() {
    // 1 as a varint of ten bytes, whose last one has bits beyond the 64th.
    let long = b"\x81\x80\x80\x80\x80\x80\x80\x80\x80\x7e";
    let odd = [
        // A name twice, the first time not in UTF-8.
        b"\x0a\x0e\x0a\x01\xff\x0a\x03job\x12\x04prod".to_vec(),
        // An unknown field with such an integer.
        [&b"\x0a\x16\x0a\x03job\x12\x04prod\x48"[..], long].concat(),
    ];
    for label in odd {
        let mut body = b"\x0a\x0e\x0a\x08__name__\x12\x02up".to_vec();
        body.extend_from_slice(&label);
        let labels = Arc::new(Labels::from_pairs([("__name__", "up"), ("job", "prod")]));
        let mut batch = SampleBatch::new(tenant());
        batch.begin_series(labels.stream_id(), labels, Span { start: 0, len: body.len() as u32 });
        batch.push_stored_sample(NOW, 1.0, body.len() as u32);
        body.extend_from_slice(&1f64.to_le_bytes());
        batch.arena.bytes = body.into();
        batch.label_text = LabelText::Messages;
        let read = read(&frame_of(vec![batch]));
        let labels = read[0].series[0].labels.to_string();
        assert_eq!(labels, r#"{__name__="up", job="prod"}"#, "{label:?}");
    }
}

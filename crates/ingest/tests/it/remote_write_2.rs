//! Remote write 2.0, and the parts of both versions other than floats: histograms, exemplars, metadata,
//! start times.

#![allow(clippy::unwrap_used)] // a test may

use sandur_ingest::{DecodedSamples, PushHeaders, RemoteWriteEncoder, SeriesCache};
use sandur_model::histogram::{Buckets, CUSTOM_SCHEMA, CounterReset};
use sandur_model::{LabelText, Labels, Limits, MetricKind, MetricLimits};
use sandur_protobuf::zigzag;

use crate::remote_write::{NOON_MS, V1, cache, label, sample, stored, time_series, write_to};
use crate::wire::*;

pub const V2: PushHeaders<'static> = PushHeaders {
    content_type: Some("application/x-protobuf;proto=io.prometheus.write.v2.Request"),
    content_encoding: Some("snappy"),
};

fn symbols(symbols: &[&str]) -> Vec<u8> {
    symbols.iter().flat_map(|symbol| bytes(4, symbol)).collect()
}

fn references(references: &[u64]) -> Vec<u8> {
    bytes(1, references.iter().flat_map(|reference| varint(*reference)).collect::<Vec<u8>>())
}

fn series(fields: &[Vec<u8>]) -> Vec<u8> {
    message(5, fields)
}

fn write(cache: &SeriesCache, plain: &[u8]) -> DecodedSamples {
    write_to(cache, &Limits::default(), V2, plain).unwrap()
}

/// Encodes a `sint64`.
fn packed(field: u32, deltas: &[i64]) -> Vec<u8> {
    bytes(field, deltas.iter().flat_map(|delta| varint(zigzag(*delta))).collect::<Vec<u8>>())
}

fn spans(field: u32, spans: &[(i64, u64)]) -> Vec<u8> {
    spans.iter().flat_map(|(o, l)| message(field, &[number(1, zigzag(*o)), number(2, *l)])).collect()
}

#[test]
fn series_are_found_for_any_numbering_of_symbols() {
    let cache = cache();
    let start = NOON_MS - 60_000;
    let first = [
        symbols(&["", "__name__", "up", "job", "api"]),
        series(&[references(&[1, 2, 3, 4]), sample(1.5, NOON_MS)]),
    ];
    let with_start =
        message(2, &[fixed64(1, 2f64.to_bits()), number(2, NOON_MS as u64), number(3, start as u64)]);
    let second = [
        symbols(&["", "api", "job", "x", "__name__", "up"]),
        series(&[references(&[2, 1, 4, 5]), sample(0.0, NOON_MS - 1), with_start]),
    ];
    let (first, second) = (write(&cache, &first.concat()), write(&cache, &second.concat()));
    assert_eq!(first.batch.series[0].id, second.batch.series[0].id);
    assert_eq!(second.batch.starts, [0, start]);
    assert_eq!(
        stored(&first),
        [(r#"{__name__="up", job="api"}"#.to_owned(), vec![(NOON_MS, 1.5f64.to_bits())])]
    );
}

/// The WAL may store the body instead of the columns, so both must hold the same samples.
#[test]
fn the_arena_and_the_columns_hold_the_same_samples() {
    let v1 = [
        time_series(&[label("__name__", "up"), label("a", "b"), sample(1.5, NOON_MS), sample(0.0, NOON_MS)]),
        time_series(&[label("__name__", "down"), message(2, &[number(2, NOON_MS as u64)])]),
    ]
    .concat();
    let v2 = [
        symbols(&["", "__name__", "up", "job", "api"]),
        series(&[references(&[1, 2, 3, 4]), sample(1.5, NOON_MS), message(2, &[number(2, 7)])]),
    ]
    .concat();
    for (headers, plain) in [(V1, v1), (V2, v2)] {
        let batch = write_to(&cache(), &Limits::default(), headers, &plain).unwrap().batch;
        assert_eq!(&batch.arena.bytes[..plain.len()], &plain[..]);
        let (_, block) = batch.arena.compressed.as_ref().unwrap();
        assert_eq!(snap::raw::Decoder::new().decompress_vec(block).unwrap(), batch.arena.bytes);
        assert_eq!(batch.value_offsets.len(), batch.values.len());
        for (value, offset) in batch.values.iter().zip(&batch.value_offsets) {
            let stored = &batch.arena.bytes[*offset as usize..*offset as usize + 8];
            assert_eq!(u64::from_le_bytes(stored.try_into().unwrap()), value.to_bits());
        }
        for of_series in &batch.series {
            let text = of_series.text.of(&batch.arena.bytes);
            match &batch.label_text {
                LabelText::Messages => {
                    let labels = of_series.labels.iter();
                    let sent: Vec<u8> = labels.flat_map(|(name, value)| label(name, value)).collect();
                    assert_eq!(text, sent);
                }
                LabelText::References { symbols } => {
                    let texts =
                        text.iter().map(|number| symbols[usize::from(*number)].of(&batch.arena.bytes));
                    let sent: Vec<&[u8]> = texts.collect();
                    assert_eq!(sent, [b"__name__".as_slice(), b"up", b"job", b"api"]);
                }
                LabelText::None | LabelText::Names => panic!("the body is not kept"),
            }
        }
    }
}

#[test]
fn a_body_that_lacks_labels_or_values_is_not_kept() {
    let scattered = time_series(&[label("__name__", "up"), sample(1.0, NOON_MS), label("a", "b")]);
    let batch = write_to(&cache(), &Limits::default(), V1, &scattered).unwrap().batch;
    assert_eq!(
        (batch.label_text, batch.arena.bytes.len(), batch.value_offsets.len()),
        (LabelText::None, 0, 0)
    );
    assert_eq!(batch.series[0].labels.to_string(), r#"{__name__="up", a="b"}"#);
    let split = [
        symbols(&["", "__name__", "up", "job", "api"]),
        series(&[references(&[1, 2]), references(&[3, 4]), sample(1.0, NOON_MS)]),
    ];
    let batch = write(&cache(), &split.concat()).batch;
    assert_eq!((batch.label_text, batch.series[0].text.len), (LabelText::None, 0));
    assert_eq!(batch.series[0].labels.to_string(), r#"{__name__="up", job="api"}"#);
}

#[test]
fn native_histograms_of_both_kinds_are_read() {
    let integer = message(
        3,
        &[
            number(1, 13),
            fixed64(3, 100.5f64.to_bits()),
            number(4, zigzag(1)),
            fixed64(5, 0.001f64.to_bits()),
            number(6, 2),
            spans(8, &[(0, 1)]),
            packed(9, &[1]),
            spans(11, &[(-2, 2), (3, 1)]),
            packed(12, &[2, 1, 2]),
            number(14, 2),
            number(15, NOON_MS as u64),
            number(17, 5),
        ],
    );
    let custom = message(
        3,
        &[
            fixed64(2, 3.5f64.to_bits()),
            number(4, zigzag(-53)),
            spans(11, &[(0, 2)]),
            bytes(13, [1.5f64, 2.0].iter().flat_map(|count| count.to_le_bytes()).collect::<Vec<u8>>()),
            number(14, 3),
            number(15, NOON_MS as u64 + 1),
            bytes(16, 0.5f64.to_le_bytes()),
        ],
    );
    let request = [symbols(&["", "__name__", "h"]), series(&[references(&[1, 2]), integer, custom])].concat();
    let decoded = write(&cache(), &request);
    assert_eq!(decoded.refused.text(), None);
    assert_eq!((decoded.written.samples, decoded.written.histograms), (0, 2));
    let [first, second] = &decoded.batch.histograms[..] else { panic!("two histograms were sent") };
    assert!(first.integer && !second.integer);
    assert_eq!((first.timestamp, first.start), (NOON_MS, 5));
    let histogram = &first.histogram;
    assert_eq!((histogram.schema, histogram.count, histogram.sum), (1, 13.0, 100.5));
    assert_eq!((histogram.zero_count, histogram.reset), (2.0, CounterReset::NotReset));
    assert_eq!(histogram.positive, Buckets { indices: vec![-2, -1, 3], counts: vec![2.0, 3.0, 5.0] });
    assert_eq!(histogram.negative, Buckets { indices: vec![0], counts: vec![1.0] });
    assert_eq!(second.histogram.schema, CUSTOM_SCHEMA);
    assert_eq!((&second.histogram.bounds[..], second.histogram.reset), (&[0.5][..], CounterReset::Gauge));
}

#[test]
fn invalid_histograms_are_refused_alone() {
    let of = |fields: &[Vec<u8>]| message(3, &[fields.concat(), number(15, NOON_MS as u64)]);
    let cases = [
        (of(&[number(1, 3), spans(11, &[(0, 2)]), packed(12, &[1])]), "different number of buckets"),
        (of(&[number(1, 3), spans(11, &[(0, u64::from(u32::MAX))]), packed(12, &[1])]), "different number"),
        (of(&[number(1, 3), spans(11, &[(0, 1)]), packed(12, &[1])]), "observation count should equal"),
        (of(&[number(1, 1), spans(11, &[(0, 1), (-1, 1)]), packed(12, &[1, 0])]), "negative"),
        (of(&[number(1, 1), spans(11, &[(0, 2)]), packed(12, &[1, -2])]), "negative"),
        (of(&[number(1, 1), spans(11, &[(i64::from(i32::MAX), 2)]), packed(12, &[1, 0])]), "histogram"),
        (of(&[number(4, zigzag(-9))]), "invalid schema"),
        (of(&[number(4, zigzag(53))]), "invalid schema"),
        (of(&[number(1, 9), spans(11, &[(0, 9)]), packed(12, &[1, 0, 0, 0, 0, 0, 0, 0, 0])]), "max-native"),
    ];
    let metrics = MetricLimits { max_native_histogram_buckets: 8, ..MetricLimits::default() };
    let limits = Limits { metrics, ..Limits::default() };
    for (histogram, text) in cases {
        let good = of(&[number(1, 1), spans(11, &[(0, 1)]), packed(12, &[1])]);
        let request = [symbols(&["", "__name__", "h"]), series(&[references(&[1, 2]), histogram, good])];
        let decoded = write_to(&cache(), &limits, V2, &request.concat()).unwrap();
        let message = decoded.refused.text().unwrap();
        assert!(message.contains(text), "{message} should contain {text}");
        assert_eq!((decoded.refused.lines(), decoded.written.histograms), (1, 1), "{text}");
    }
}

#[test]
fn schemas_finer_than_the_stored_ones_become_coarser() {
    let fine = message(
        3,
        &[
            number(1, 3),
            number(4, zigzag(9)),
            spans(11, &[(1, 2)]),
            packed(12, &[1, 1]),
            number(15, NOON_MS as u64),
        ],
    );
    let request = [symbols(&["", "__name__", "h"]), series(&[references(&[1, 2]), fine])].concat();
    let decoded = write(&cache(), &request);
    assert_eq!(decoded.refused.text(), None);
    let histogram = &decoded.batch.histograms[0].histogram;
    assert_eq!((histogram.schema, &histogram.positive.counts[..]), (8, &[3.0][..]));
}

#[test]
fn exemplars_and_metadata_belong_to_their_series() {
    let described = |help| message(5, &[number(1, 1), number(3, help), number(4, 7)]);
    let exemplar =
        message(4, &[references(&[5, 6]), fixed64(2, 0.5f64.to_bits()), number(3, NOON_MS as u64)]);
    let long = message(4, &[references(&[8, 8]), fixed64(2, 0.5f64.to_bits()), number(3, NOON_MS as u64)]);
    let request = [
        symbols(&[
            "",
            "__name__",
            "requests_total",
            "pod",
            "a",
            "trace_id",
            "abc",
            "requests",
            &"x".repeat(65),
        ]),
        series(&[references(&[1, 2]), sample(1.0, NOON_MS), exemplar, long, described(7)]),
        series(&[references(&[1, 2, 3, 4]), sample(1.0, NOON_MS), described(7)]),
    ]
    .concat();
    let decoded = write(&cache(), &request);
    assert_eq!(decoded.written.exemplars, 1);
    assert_eq!(
        decoded.refused.by_reason().map(|(reason, n, _)| (reason.name(), n)).collect::<Vec<_>>(),
        [("exemplar_labels_invalid", 1)]
    );
    assert_eq!(decoded.refused.text(), None, "an exemplar that is too long does not fail the request");
    assert_eq!(decoded.batch.exemplars[0].exemplar.labels.to_string(), r#"{trace_id="abc"}"#);
    let [metadata] = &decoded.batch.metadata[..] else { panic!("not once: {:?}", decoded.batch.metadata) };
    assert_eq!((&*metadata.family, metadata.kind), ("requests_total", MetricKind::Counter));
    assert_eq!((&*metadata.help, &*metadata.unit), ("requests", "requests"));
}

#[test]
fn invalid_symbol_references_are_refused_alone() {
    let good = series(&[references(&[1, 2]), sample(1.0, NOON_MS)]);
    let cases = [
        (series(&[references(&[1, 9]), sample(1.0, NOON_MS)]), "outside of the symbols table"),
        (series(&[references(&[1, u64::MAX]), sample(1.0, NOON_MS)]), "outside of the symbols table"),
        (series(&[references(&[1, 2, 1]), sample(1.0, NOON_MS)]), "invalid labelRefs length 3"),
        (series(&[references(&[1, 2, 1, 2]), sample(1.0, NOON_MS)]), "duplicate label name"),
        (series(&[references(&[1, 2])]), "must contain at least one sample or histogram"),
        (series(&[sample(1.0, NOON_MS)]), "no metric name"),
    ];
    for (bad, text) in cases {
        let request = [symbols(&["", "__name__", "up"]), bad, good.clone()].concat();
        let decoded = write(&cache(), &request);
        let message = decoded.refused.text().unwrap();
        assert!(message.contains(text), "{message} should contain {text}");
        assert_eq!(decoded.written.samples, 1, "{text}");
    }
}

#[test]
fn very_long_lists_are_refused() {
    let many = vec![0u64; 40_000];
    let request = [symbols(&[""]), series(&[references(&many), sample(1.0, NOON_MS)])].concat();
    let error = write_to(&cache(), &Limits::default(), V2, &request).unwrap_err();
    assert!(error.to_string().contains("labels of one series"), "{error}");
    let exemplar = message(3, &vec![message(1, &[]); 40_000]);
    let request = time_series(&[label("__name__", "m"), exemplar]);
    let error = write_to(&cache(), &Limits::default(), V1, &request).unwrap_err();
    assert!(error.to_string().contains("labels of one series"), "{error}");
}

#[test]
fn encoded_requests_are_read_back() {
    let mut encoder = RemoteWriteEncoder::new();
    let labels = |name: &str| Labels::from_pairs([("__name__", name), ("__g0__", name)]);
    encoder.series(&labels("a"), [(NOON_MS, 1.5), (NOON_MS + 1, 0.0), (0, f64::INFINITY)]);
    encoder.series(&labels("b"), [(-1, -0.0)]);
    assert_eq!(encoder.samples(), 4);
    let body = encoder.finish().unwrap();
    let plain = snap::raw::Decoder::new().decompress_vec(&body).unwrap();
    let decoded = write(&cache(), &plain);
    assert!(decoded.refused.text().is_none());
    let batch = decoded.batch;
    assert_eq!(
        batch.series.iter().map(|s| s.labels.get("__g0__")).collect::<Vec<_>>(),
        [Some("a"), Some("b")]
    );
    assert_eq!(batch.timestamps, [NOON_MS, NOON_MS + 1, 0, -1]);
    let bits: Vec<u64> = batch.values.iter().map(|value| value.to_bits()).collect();
    assert_eq!(bits, [1.5, 0.0, f64::INFINITY, -0.0].map(f64::to_bits));
    assert_eq!(encoder.samples(), 0);
}

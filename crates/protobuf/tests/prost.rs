//! Goal: other implementations read what we write, and we read what they write.
//!
//! Method: the messages are declared for `prost`, apart from our code, and written by one side and read by
//! the other.

#![allow(clippy::unwrap_used)] // a test may

use proptest::prelude::*;
use prost::Message;
use sandur_model::FloatHistogram;
use sandur_model::histogram::{Buckets, CounterReset, Span};
use sandur_protobuf::{Malformed, Reader, Wire, Writer as _, loki, prometheus, unzigzag, zigzag};

#[derive(Clone, PartialEq, Message)]
struct PushRequest {
    #[prost(message, repeated, tag = "1")]
    streams: Vec<Stream>,
}

#[derive(Clone, PartialEq, Message)]
struct Stream {
    #[prost(string, tag = "1")]
    labels: String,
    #[prost(message, repeated, tag = "2")]
    entries: Vec<Entry>,
}

#[derive(Clone, PartialEq, Message)]
struct Entry {
    #[prost(message, required, tag = "1")]
    timestamp: Timestamp,
    #[prost(bytes = "vec", tag = "2")]
    line: Vec<u8>,
    #[prost(message, repeated, tag = "3")]
    metadata: Vec<Label>,
}

#[derive(Clone, PartialEq, Message)]
struct Timestamp {
    #[prost(int64, tag = "1")]
    seconds: i64,
    #[prost(int32, tag = "2")]
    nanos: i32,
}

#[derive(Clone, PartialEq, Message)]
struct WriteRequest {
    #[prost(message, repeated, tag = "1")]
    series: Vec<Series>,
}

#[derive(Clone, PartialEq, Message)]
struct Series {
    #[prost(message, repeated, tag = "1")]
    labels: Vec<Label>,
    #[prost(message, repeated, tag = "2")]
    samples: Vec<Sample>,
    #[prost(message, repeated, tag = "4")]
    histograms: Vec<Histogram>,
}

#[derive(Clone, PartialEq, Message)]
struct Label {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(string, tag = "2")]
    value: String,
}

#[derive(Clone, PartialEq, Message)]
struct Sample {
    #[prost(double, tag = "1")]
    value: f64,
    #[prost(int64, tag = "2")]
    time_ms: i64,
}

#[derive(Clone, PartialEq, Message)]
struct Histogram {
    #[prost(uint64, optional, tag = "1")]
    count: Option<u64>,
    #[prost(double, optional, tag = "2")]
    count_float: Option<f64>,
    #[prost(double, tag = "3")]
    sum: f64,
    #[prost(sint32, tag = "4")]
    schema: i32,
    #[prost(double, tag = "5")]
    zero_threshold: f64,
    #[prost(uint64, optional, tag = "6")]
    zero_count: Option<u64>,
    #[prost(double, optional, tag = "7")]
    zero_count_float: Option<f64>,
    #[prost(message, repeated, tag = "8")]
    negative_spans: Vec<BucketSpan>,
    #[prost(sint64, repeated, tag = "9")]
    negative_deltas: Vec<i64>,
    #[prost(double, repeated, tag = "10")]
    negative_counts: Vec<f64>,
    #[prost(message, repeated, tag = "11")]
    positive_spans: Vec<BucketSpan>,
    #[prost(sint64, repeated, tag = "12")]
    positive_deltas: Vec<i64>,
    #[prost(double, repeated, tag = "13")]
    positive_counts: Vec<f64>,
    #[prost(int32, tag = "14")]
    reset: i32,
    #[prost(int64, tag = "15")]
    time_ms: i64,
    #[prost(double, repeated, tag = "16")]
    bounds: Vec<f64>,
}

#[derive(Clone, Copy, PartialEq, Message)]
struct BucketSpan {
    #[prost(sint32, tag = "1")]
    offset: i32,
    #[prost(uint32, tag = "2")]
    length: u32,
}

/// One field of each kind.
#[derive(Clone, PartialEq, Message)]
struct Kinds {
    #[prost(uint64, optional, tag = "1")]
    varint: Option<u64>,
    #[prost(sint64, optional, tag = "2")]
    zigzag: Option<i64>,
    #[prost(fixed64, optional, tag = "3")]
    fixed64: Option<u64>,
    #[prost(fixed32, optional, tag = "15")]
    fixed32: Option<u32>,
    #[prost(double, optional, tag = "16")]
    double: Option<f64>,
    #[prost(bytes = "vec", optional, tag = "2048")]
    bytes: Option<Vec<u8>>,
    #[prost(uint64, repeated, tag = "536870911")]
    packed: Vec<u64>,
    #[prost(message, optional, boxed, tag = "20")]
    inner: Option<Box<Kinds>>,
}

fn read(mut message: Reader<'_>) -> Result<Kinds, Malformed> {
    let mut kinds = Kinds::default();
    while let Some(key) = message.key()? {
        match key {
            (1, Wire::Varint) => kinds.varint = Some(message.varint()?),
            (2, Wire::Varint) => kinds.zigzag = Some(unzigzag(message.varint()?)),
            (3, Wire::Fixed64) => kinds.fixed64 = Some(message.fixed64()?),
            (15, Wire::Fixed32) => kinds.fixed32 = Some(message.fixed32()?),
            (16, Wire::Fixed64) => kinds.double = Some(message.double()?),
            (2_048, Wire::Bytes) => kinds.bytes = Some(message.bytes()?.to_vec()),
            (536_870_911, Wire::Bytes) => {
                let mut packed = message.message()?;
                while !packed.is_at_end() {
                    kinds.packed.push(packed.varint()?);
                }
            }
            (20, Wire::Bytes) => kinds.inner = Some(Box::new(read(message.message()?)?)),
            other => panic!("{other:?}"),
        }
    }
    Ok(kinds)
}

fn write(out: &mut Vec<u8>, kinds: &Kinds) {
    kinds.varint.into_iter().for_each(|value| out.varint(1, value));
    kinds.zigzag.into_iter().for_each(|value| out.varint(2, zigzag(value)));
    kinds.fixed64.into_iter().for_each(|value| out.fixed64(3, value));
    kinds.fixed32.into_iter().for_each(|value| out.fixed32(15, value));
    kinds.double.into_iter().for_each(|value| out.double(16, value));
    kinds.inner.iter().for_each(|inner| out.message(20, |out| write(out, inner)));
    kinds.bytes.iter().for_each(|value| out.bytes(2_048, value));
    out.packed(536_870_911, kinds.packed.iter().copied());
}

fn kinds() -> impl Strategy<Value = Kinds> {
    let own = (
        any::<Option<u64>>(),
        any::<Option<i64>>(),
        any::<Option<u64>>(),
        any::<Option<u32>>(),
        proptest::option::of(proptest::num::f64::NORMAL),
        proptest::option::of(proptest::collection::vec(any::<u8>(), 0..300)),
        proptest::collection::vec(any::<u64>(), 0..20),
    );
    let one = own.prop_map(|(varint, zigzag, fixed64, fixed32, double, bytes, packed)| Kinds {
        varint,
        zigzag,
        fixed64,
        fixed32,
        double,
        bytes,
        packed,
        inner: None,
    });
    proptest::collection::vec(one, 1..4).prop_map(|all| {
        let nested = all.into_iter().reduce(|inner, outer| Kinds { inner: Some(Box::new(inner)), ..outer });
        nested.unwrap_or_default()
    })
}

proptest! {
    #[test]
    fn each_reads_every_kind_of_field_that_the_other_writes(kinds in kinds()) {
        prop_assert_eq!(read(Reader::new(&kinds.encode_to_vec())), Ok(kinds.clone()));
        let mut out = Vec::new();
        write(&mut out, &kinds);
        prop_assert_eq!(out, kinds.encode_to_vec(), "the shortest form, byte for byte");
    }
}

#[test]
fn prost_reads_pushes_of_lines() {
    let mut request = Vec::new();
    let long = "x".repeat(20_000);
    loki::stream(&mut request, r#"{app="a"}"#, |stream| {
        loki::entry(stream, -1, b"\xff", [("trace", "1"), ("", "")]);
        loki::entry(stream, 1_500_000_000_000_000_000, long.as_bytes(), []);
    });
    loki::stream(&mut request, "", |_| ());
    let label = |name: &str, value: &str| Label { name: name.to_owned(), value: value.to_owned() };
    let entry = |seconds, nanos, line: &[u8], metadata| Entry {
        timestamp: Timestamp { seconds, nanos },
        line: line.to_vec(),
        metadata,
    };
    let entries = vec![
        entry(-1, 999_999_999, b"\xff", vec![label("trace", "1"), label("", "")]),
        entry(1_500_000_000, 0, long.as_bytes(), vec![]),
    ];
    let streams = vec![Stream { labels: r#"{app="a"}"#.to_owned(), entries }, Stream::default()];
    assert_eq!(PushRequest::decode(&request[..]), Ok(PushRequest { streams }));
}

#[test]
fn prost_reads_series() {
    let spans = [Span { offset: -3, length: 2 }, Span { offset: 5, length: 1 }];
    let histogram = FloatHistogram {
        reset: CounterReset::Gauge,
        schema: -2,
        zero_threshold: 0.5,
        zero_count: 3.0,
        count: 17.0,
        sum: -1.5,
        positive: Buckets::from_spans(&spans, vec![4.0, 1.0, 9.0]).unwrap(),
        negative: Buckets::default(),
        bounds: [0.25, 4.0].into(),
    };
    let mut request = Vec::new();
    prometheus::series(&mut request, [("__name__", "up"), ("empty", "")], [(-5, 1.0), (0, f64::INFINITY)]);
    request.message(1, |series| {
        prometheus::histogram(series, 7, &histogram, true);
        prometheus::histogram(series, 8, &histogram, false);
    });
    let label = |name: &str, value: &str| Label { name: name.to_owned(), value: value.to_owned() };
    let floats = Series {
        labels: vec![label("__name__", "up"), label("empty", "")],
        samples: vec![Sample { value: 1.0, time_ms: -5 }, Sample { value: f64::INFINITY, time_ms: 0 }],
        histograms: vec![],
    };
    let both = Histogram {
        sum: -1.5,
        schema: -2,
        zero_threshold: 0.5,
        positive_spans: vec![BucketSpan { offset: -3, length: 2 }, BucketSpan { offset: 5, length: 1 }],
        reset: 3,
        bounds: vec![0.25, 4.0],
        ..Histogram::default()
    };
    let integers = Histogram {
        count: Some(17),
        zero_count: Some(3),
        positive_deltas: vec![4, -3, 8],
        time_ms: 7,
        ..both.clone()
    };
    let counts = Histogram {
        count_float: Some(17.0),
        zero_count_float: Some(3.0),
        positive_counts: vec![4.0, 1.0, 9.0],
        time_ms: 8,
        ..both
    };
    let histograms = Series { histograms: vec![integers, counts], ..Series::default() };
    assert_eq!(WriteRequest::decode(&request[..]), Ok(WriteRequest { series: vec![floats, histograms] }));
}

//! Goal: a decoder reserves all memory before it uses it, for any content and encoding of the body.
//!
//! Method: small bodies with a large content, in every protocol and encoding, are decoded under a
//! counting allocator with an owner of memory that counts reservations. The memory in use never exceeds
//! the reservations by more than a slack. Then the owner has too little memory: the request is refused,
//! and the memory in use exceeds the limit by no more than the slack.

#![allow(clippy::unwrap_used)]

#[path = "it/wire/mod.rs"]
mod wire;

use std::alloc::System;
use std::cell::Cell;
use std::io::Write;
use std::rc::Rc;

use bytes::Bytes;
use sandur_ingest::{
    Error, ImportOptions, Memory, Push, PushHeaders, SamplePush, SeriesCache, import, loki_push_within,
    otlp_logs_within, otlp_metrics, remote_write,
};
use sandur_memory::account::{Account, Counting};
use sandur_model::{Limits, MetricLimits};
use sandur_protobuf::Writer as _;
use wire::{JSON, NOON, bytes as field, fixed64, message, number, snappy, tenant};

#[global_allocator]
static ALLOCATOR: Counting<System> = Counting(System);

/// Memory that is used without a reservation: caches of the thread, texts of refusals, state of decoders.
const SLACK: u64 = 3 << 20;

struct LimitedMemory {
    limit: u64,
    held: Cell<u64>,
    peak: Cell<u64>,
}

impl Memory for LimitedMemory {
    fn take(&self, bytes: u64) -> bool {
        let held = self.held.get() + bytes;
        if held > self.limit {
            return false;
        }
        self.held.set(held);
        self.peak.set(self.peak.get().max(held));
        true
    }

    fn give(&self, bytes: u64) {
        self.held.set(self.held.get().checked_sub(bytes).expect("a decoder returns no more than it took"));
    }
}

/// Returns the bytes of the batch.
type Decoder = fn(Push<'_>, Bytes, Rc<dyn Memory>) -> Result<u64, Error>;

struct Case {
    name: &'static str,
    decode: Decoder,
    headers: PushHeaders<'static>,
    body: Bytes,
}

/// Returns the outcome, the most bytes reserved, the bytes reserved at the end, and the most bytes used.
fn decode(case: &Case, limit: u64) -> (Result<u64, Error>, u64, u64, u64) {
    let purse = Rc::new(LimitedMemory { limit, held: Cell::new(0), peak: Cell::new(0) });
    let metrics = MetricLimits { creation_grace_period: 0, ..MetricLimits::default() };
    let limits = Limits { max_line_size: 0, reject_old_samples_max_age: 0, metrics, ..Limits::default() };
    let tenant = tenant();
    let push = Push { tenant: &tenant, limits: &limits, now_ns: NOON, headers: case.headers };
    let account = Account::default();
    let outcome = account.run(|| (case.decode)(push, case.body.clone(), Rc::clone(&purse) as Rc<dyn Memory>));
    (outcome, purse.peak.get(), purse.held.get(), account.peak())
}

fn gzip(plain: &[u8]) -> Bytes {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    encoder.write_all(plain).unwrap();
    encoder.finish().unwrap().into()
}

/// A Loki push in protobuf with these entries in one stream.
fn protobuf(entry: impl Fn(usize) -> Vec<u8>, count: usize) -> Vec<u8> {
    let mut stream = field(1, br#"{app="a"}"#);
    (0..count).for_each(|n| stream.extend(field(2, entry(n))));
    field(1, &stream)
}

const PACKED_JSON: PushHeaders<'static> = PushHeaders { content_encoding: Some("gzip"), ..JSON };

fn cases() -> Vec<Case> {
    let loki: Decoder = |push, body, memory| Ok(loki_push_within(push, body, memory)?.batch.memory_bytes());
    let otlp: Decoder = |push, body, memory| Ok(otlp_logs_within(push, body, memory)?.batch.memory_bytes());
    let plain = PushHeaders { content_type: None, content_encoding: None };
    let line = field(2, "the same line over and over, which packs very well indeed ".repeat(4).as_bytes());
    let pairs = {
        let pair = field(3, [field(1, b"a"), field(2, b"b")].concat());
        [field(2, b"x"), pair.repeat(20)].concat()
    };
    let names = |n: usize| {
        [field(2, b"x"), field(3, [field(1, format!("a.{n}").as_bytes()), field(2, b"b")].concat())].concat()
    };
    let streams: Vec<u8> = (0..60_000)
        .flat_map(|n| {
            let name = format!(r#"{{a="{n}",b="x",c="y"}}"#);
            field(1, [field(1, name.as_bytes()), field(2, field(2, b"l"))].concat())
        })
        .collect();
    // Different enough that the body stays below the maximum ratio of decompression.
    let stamp = |n: u64| n.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 44;
    let entries: String =
        (0..300_000).map(|n| format!(r#"["1700000000000000000","a line of JSON {}"],"#, stamp(n))).collect();
    let json =
        format!(r#"{{"streams":[{{"stream":{{"app":"a"}},"values":[{}]}}]}}"#, entries.trim_end_matches(','));
    let record = |n: u64| {
        let attribute = format!(r#"{{"key":"a.b","value":{{"intValue":"{}"}}}}"#, stamp(n));
        let body = r#""timeUnixNano":"1700000000000000000","body":{"stringValue":"x"}"#;
        format!(r#"{{{body},"attributes":[{attribute}]}},"#)
    };
    let records: String = (0..100_000).map(record).collect();
    let records = format!(
        r#"{{"resourceLogs":[{{"scopeLogs":[{{"logRecords":[{}]}}]}}]}}"#,
        records.trim_end_matches(',')
    );
    let map: String = r#"{"key":"k","value":{"intValue":"7"}},"#.repeat(5_000);
    let body = format!(r#"{{"kvlistValue":{{"values":[{}]}}}}"#, map.trim_end_matches(','));
    let scope = format!(r#"{{"logRecords":[{{"body":{body}}}]}}"#);
    let nested = format!(r#"{{"resourceLogs":[{{"scopeLogs":[{scope}]}}]}}"#);
    vec![
        Case {
            name: "lines",
            decode: loki,
            headers: plain,
            body: snappy(&protobuf(|_| line.clone(), 100_000)),
        },
        Case {
            name: "empty entries",
            decode: loki,
            headers: plain,
            body: snappy(&protobuf(|_| vec![], 1_000_000)),
        },
        Case {
            name: "metadata",
            decode: loki,
            headers: plain,
            body: snappy(&protobuf(|_| pairs.clone(), 60_000)),
        },
        Case {
            name: "names to clean",
            decode: loki,
            headers: plain,
            body: snappy(&protobuf(names, 200_000)),
        },
        Case { name: "streams", decode: loki, headers: plain, body: snappy(&streams) },
        Case { name: "JSON", decode: loki, headers: JSON, body: json.clone().into() },
        Case { name: "packed JSON", decode: loki, headers: PACKED_JSON, body: gzip(json.as_bytes()) },
        Case { name: "OTLP", decode: otlp, headers: PACKED_JSON, body: gzip(records.as_bytes()) },
        Case { name: "OTLP values", decode: otlp, headers: JSON, body: nested.into() },
    ]
}

/// Small enough that the memory of its entries is within the slack.
fn cache() -> SeriesCache {
    SeriesCache::new(64 << 10, 7)
}

fn cases_of_samples() -> Vec<Case> {
    let write: Decoder = |push, body, memory| {
        Ok(remote_write(SamplePush::new(push, &cache()), body, memory)?.batch.memory_bytes())
    };
    let otlp: Decoder = |push, body, memory| {
        Ok(otlp_metrics(SamplePush::new(push, &cache()), body, memory)?.batch.memory_bytes())
    };
    let text: Decoder = |push, body, memory| {
        let options = ImportOptions::default();
        Ok(import(SamplePush::new(push, &cache()), &options, body, memory)?.batch.memory_bytes())
    };
    let plain = PushHeaders { content_type: None, content_encoding: None };
    let second = PushHeaders {
        content_type: Some("application/x-protobuf;proto=io.prometheus.write.v2.Request"),
        content_encoding: None,
    };
    let label = |name: &[u8], value: &[u8]| message(1, &[field(1, name), field(2, value)]);
    let name = label(b"__name__", b"m");
    let sample = message(2, &[fixed64(1, 1), number(2, 5)]);
    let series: Vec<u8> = (0..60_000)
        .flat_map(|n: u32| message(1, &[name.clone(), label(b"n", n.to_string().as_bytes()), sample.clone()]))
        .collect();
    let samples = message(1, &[name.clone(), message(2, &[number(2, 5)]).repeat(500_000)]);
    let delta = [vec![12 << 3 | 2], vec![0xA0, 0x8D, 0x06], vec![0; 100_000]].concat();
    let span = message(11, &[number(2, 100_000)]);
    let histogram = message(4, &[span, delta]);
    let histograms = message(1, &[name.clone(), histogram.repeat(20)]);
    let exemplar = message(3, &[label(b"trace_id", b"0123456789abcdef"), number(3, 5)]);
    let exemplars = message(1, &[name.clone(), sample, exemplar.repeat(100_000)]);
    let symbols: Vec<u8> = [&b""[..], b"__name__", b"m", b"n"].iter().flat_map(|s| field(4, s)).collect();
    let numbers: Vec<u8> = (0..200_000).flat_map(|n: u32| field(4, n.to_string().as_bytes())).collect();
    let by_symbols: Vec<u8> = (4..60_000)
        .flat_map(|n| {
            let mut references = vec![1, 2, 3];
            references.raw_varint(n);
            message(5, &[field(1, &references), message(2, &[number(2, 5)])])
        })
        .collect();
    let attribute = message(7, &[field(1, b"a.b"), message(2, &[field(1, b"c")])]);
    let points = message(1, &[fixed64(3, 1), attribute]).repeat(50_000);
    let metric = message(2, &[field(1, b"m"), field(5, &points)]);
    let buckets = [field(1, &[vec![0], vec![1; 200_000]].concat()[1..]), Vec::new()].concat();
    let exponential =
        message(1, &[fixed64(3, 1), fixed64(4, 200_000), field(8, [&[0x12][..], &buckets[1..]].concat())]);
    let exponential = message(2, &[field(1, b"e"), message(10, &[exponential.repeat(10), number(2, 2)])]);
    let export = |metric: Vec<u8>| Bytes::from(message(1, &[message(2, &[metric])]));
    let lines: String = (0..100_000).map(|n| format!("m{{n=\"{}\"}} {n}\n", n % 30_000)).collect();
    let families: String = (0..50_000).map(|n| format!("# HELP m{n} text\n")).collect();
    let case = |name, decode, headers, body| Case { name, decode, headers, body };
    vec![
        case("series", write, plain, snappy(&series)),
        case("samples", write, plain, snappy(&samples)),
        case("histograms", write, plain, snappy(&histograms)),
        case("exemplars", write, plain, snappy(&exemplars)),
        case("symbols", write, second, snappy(&[symbols, numbers, by_symbols].concat())),
        case("points", otlp, plain, export(metric)),
        case("exponential histograms", otlp, plain, export(exponential)),
        case("text", text, plain, lines.into()),
        case("descriptions", text, plain, families.into()),
    ]
}

#[test]
fn no_decoder_uses_more_memory_than_it_reserved() {
    for case in cases().into_iter().chain(cases_of_samples()) {
        let (outcome, asked, held, used) = decode(&case, u64::MAX);
        let batch = outcome.unwrap_or_else(|error| panic!("{}: {error}", case.name));
        println!("{}: asked {asked}, held {held}, used {used}, batch {batch}", case.name);
        assert!(used <= asked + SLACK, "{}: asked {asked}, used {used}", case.name);
        let body = case.body.len() as u64;
        assert!(batch <= held + body, "{}: held {held}", case.name);
    }
}

#[test]
fn a_decoder_stops_when_a_reservation_fails() {
    for case in cases().into_iter().chain(cases_of_samples()) {
        let (_, asked, ..) = decode(&case, u64::MAX);
        let limit = asked / 4;
        let (outcome, _, _, used) = decode(&case, limit);
        assert!(matches!(outcome, Err(Error::MemoryShort { .. })), "{}", case.name);
        assert!(used <= limit + SLACK, "{}: limit {limit}, used {used}", case.name);
    }
}

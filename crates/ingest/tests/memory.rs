//! Goal: a decoder asks for all memory before it takes it, whatever the body holds and however it is packed.
//!
//! Method: bodies that are small and hold much, of every protocol and encoding, decoded under a counting
//! allocator and in memory that counts what was asked for: what was used at any moment never exceeds it by
//! more than a slack. Then with too little memory: the request is refused, and little more than that was
//! used.

#![allow(clippy::unwrap_used)]

#[path = "it/wire/mod.rs"]
mod wire;

use std::alloc::System;
use std::cell::Cell;
use std::io::Write;
use std::rc::Rc;

use bytes::Bytes;
use sandur_base::account::{Account, Counting};
use sandur_ingest::{Decoded, Error, Memory, Push, PushHeaders, loki_push_within, otlp_logs_within};
use sandur_model::Limits;
use wire::{NOON, tenant};

#[global_allocator]
static ALLOCATOR: Counting<System> = Counting(System);

/// What is used and not asked for: caches of the thread, texts of refusals, state of decoders.
const SLACK: u64 = 3 << 20;

struct Purse {
    limit: u64,
    held: Cell<u64>,
    peak: Cell<u64>,
}

impl Memory for Purse {
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
        self.held.set(self.held.get().checked_sub(bytes).expect("no more is given than was taken"));
    }
}

type Decoder = fn(Push<'_>, Bytes, Rc<dyn Memory>) -> Result<Decoded, Error>;

struct Case {
    name: &'static str,
    decode: Decoder,
    headers: PushHeaders<'static>,
    body: Bytes,
}

/// The outcome, the most that was asked for, what is asked for in the end, and the most that was used.
fn decode(case: &Case, limit: u64) -> (Result<Decoded, Error>, u64, u64, u64) {
    let purse = Rc::new(Purse { limit, held: Cell::new(0), peak: Cell::new(0) });
    let limits = Limits { max_line_size: 0, reject_old_samples_max_age: 0, ..Limits::default() };
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

fn varint(mut value: usize, into: &mut Vec<u8>) {
    while value >= 0x80 {
        into.push(value as u8 | 0x80);
        value >>= 7;
    }
    into.push(value as u8);
}

fn field(number: u8, bytes: &[u8]) -> Vec<u8> {
    let mut message = vec![number << 3 | 2];
    varint(bytes.len(), &mut message);
    message.extend_from_slice(bytes);
    message
}

/// A Loki push in protobuf with these entries in one stream.
fn protobuf(entry: impl Fn(usize) -> Vec<u8>, count: usize) -> Vec<u8> {
    let mut stream = field(1, br#"{app="a"}"#);
    (0..count).for_each(|n| stream.extend(field(2, &entry(n))));
    field(1, &stream)
}

fn snappy(plain: &[u8]) -> Bytes {
    snap::raw::Encoder::new().compress_vec(plain).unwrap().into()
}

const JSON: PushHeaders<'static> =
    PushHeaders { content_type: Some("application/json"), content_encoding: None };
const PACKED_JSON: PushHeaders<'static> = PushHeaders { content_encoding: Some("gzip"), ..JSON };

fn cases() -> Vec<Case> {
    let loki = loki_push_within as Decoder;
    let otlp = otlp_logs_within as Decoder;
    let plain = PushHeaders { content_type: None, content_encoding: None };
    let line = field(2, "the same line over and over, which packs very well indeed ".repeat(4).as_bytes());
    let pairs = {
        let pair = field(3, &[field(1, b"a"), field(2, b"b")].concat());
        [field(2, b"x"), pair.repeat(20)].concat()
    };
    let names = |n: usize| {
        [field(2, b"x"), field(3, &[field(1, format!("a.{n}").as_bytes()), field(2, b"b")].concat())].concat()
    };
    let streams: Vec<u8> = (0..60_000)
        .flat_map(|n| {
            let name = format!(r#"{{a="{n}",b="x",c="y"}}"#);
            field(1, &[field(1, name.as_bytes()), field(2, &field(2, b"l"))].concat())
        })
        .collect();
    // Not so alike that the ratio of a bomb is reached.
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

#[test]
fn no_decoder_uses_more_than_it_asked_for() {
    for case in cases() {
        let (outcome, asked, held, used) = decode(&case, u64::MAX);
        let batch = outcome.unwrap_or_else(|error| panic!("{}: {error}", case.name)).batch;
        println!("{}: asked {asked}, held {held}, used {used}, batch {}", case.name, batch.memory_bytes());
        assert!(used <= asked + SLACK, "{}: asked {asked}, used {used}", case.name);
        let body = case.body.len() as u64;
        assert!(batch.memory_bytes() <= held + body, "{}: held {held}", case.name);
    }
}

#[test]
fn a_decoder_that_gets_no_memory_stops() {
    for case in cases() {
        let (_, asked, ..) = decode(&case, u64::MAX);
        let limit = asked / 4;
        let (outcome, _, _, used) = decode(&case, limit);
        assert!(matches!(outcome, Err(Error::MemoryShort { .. })), "{}", case.name);
        assert!(used <= limit + SLACK, "{}: limit {limit}, used {used}", case.name);
    }
}

//! Measures the decoding speed of pushes, on the packs of a generated data set.
//!
//! `cargo run --release -p sandur-ingest --example decode_speed -- PACK...`: one thread, all bodies in
//! memory. A pack is a sequence of frames: u32 length, u32 items, u64 raw bytes, i64 newest timestamp in
//! ms, all little-endian, then the body of a push (protobuf in snappy). Rates count raw line bytes.

use std::time::Duration;

use bytes::Bytes;
use sandur_ingest::{Decoded, PushHeaders, loki_push};
use sandur_model::{Limits, TenantId};
use sandur_runtime::Env;

const PROTOBUF: PushHeaders<'static> =
    PushHeaders { content_type: Some("application/x-protobuf"), content_encoding: None };
const JSON: PushHeaders<'static> =
    PushHeaders { content_type: Some("application/json"), content_encoding: None };

struct Request {
    body: Bytes,
    raw: u64,
    newest_ns: i64,
}

fn main() {
    let env = Env::system(1);
    let requests: Vec<Request> = std::env::args().skip(1).flat_map(|path| read_pack(&path)).collect();
    assert!(!requests.is_empty(), "name at least one pack");
    let lines: u64 = requests.iter().map(|r| decode(r, PROTOBUF).lines).sum();
    let raw: u64 = requests.iter().map(|r| r.raw).sum();
    println!("{} requests, {lines} lines, {:.1} MB raw", requests.len(), raw as f64 / 1e6);
    measure(&env, "snappy alone", &requests, |r| snappy(&r.body).len() as u64);
    measure(&env, "protobuf, level label", &requests, |r| decode(r, PROTOBUF).lines);
    let unlabelled: Vec<Request> = requests.iter().map(without_level_label).collect();
    measure(&env, "protobuf, level in lines", &unlabelled, |r| decode(r, PROTOBUF).lines);
    let json: Vec<Request> = requests.iter().map(as_json).collect();
    measure(&env, "JSON, level label", &json, |r| decode(r, JSON).lines);
}

fn measure(env: &Env, name: &str, requests: &[Request], work: impl Fn(&Request) -> u64) {
    let raw: u64 = requests.iter().map(|r| r.raw).sum();
    let mut rates: Vec<f64> = Vec::new();
    let started = env.monotonic();
    while rates.len() < 3 || env.monotonic() - started < Duration::from_secs(3) {
        let from = env.monotonic();
        let done: u64 = requests.iter().map(&work).sum();
        assert!(done > 0);
        rates.push(raw as f64 / 1e6 / (env.monotonic() - from).as_secs_f64());
    }
    rates.sort_by(f64::total_cmp);
    let (median, best) = (rates[rates.len() / 2], rates[rates.len() - 1]);
    println!("{name:>26}: {median:7.0} MB/s median, {best:7.0} best of {}", rates.len());
}

fn decode(request: &Request, headers: PushHeaders<'_>) -> Decoded {
    let tenant = TenantId::default_tenant();
    let limits = Limits::default();
    let decoded = loki_push(&tenant, &limits, request.newest_ns, headers, request.body.clone());
    let decoded = decoded.expect("a pack holds valid requests");
    assert!(decoded.refused.is_empty(), "{:?}", decoded.refused.text());
    decoded
}

fn snappy(body: &[u8]) -> Vec<u8> {
    snap::raw::Decoder::new().decompress_vec(body).expect("a pack holds valid requests")
}

fn without_level_label(request: &Request) -> Request {
    let mut plain = snappy(&request.body);
    let label = b"level=\"";
    let mut at = 0;
    while let Some(found) = memchr::memmem::find(&plain[at..], label) {
        plain[at + found + 1] = b'x';
        at += found + label.len();
    }
    let body = snap::raw::Encoder::new().compress_vec(&plain).expect("far below 4 GiB");
    Request { body: body.into(), ..*request }
}

fn as_json(request: &Request) -> Request {
    let batch = decode(request, PROTOBUF).batch;
    let streams: Vec<serde_json::Value> = batch
        .streams
        .iter()
        .map(|stream| {
            let labels: serde_json::Map<_, _> =
                stream.labels.iter().map(|(name, value)| (name.to_owned(), value.into())).collect();
            let line = |entry: &sandur_model::Entry| {
                String::from_utf8_lossy(entry.line.of(&batch.arena.bytes)).into_owned()
            };
            let entries = stream.entries.iter();
            let values: Vec<_> =
                entries.map(|entry| serde_json::json!([entry.timestamp.to_string(), line(entry)])).collect();
            serde_json::json!({"stream": labels, "values": values})
        })
        .collect();
    Request { body: serde_json::json!({"streams": streams}).to_string().into(), ..*request }
}

fn read_pack(path: &str) -> Vec<Request> {
    let bytes = Bytes::from(std::fs::read(path).expect("the pack can be read"));
    let mut requests = Vec::new();
    let mut at = 0;
    while at < bytes.len() {
        let u64_at = |from: usize| u64::from_le_bytes(bytes[from..from + 8].try_into().expect("eight bytes"));
        let length = u64_at(at) as u32 as usize;
        let (raw, newest_ms) = (u64_at(at + 8), u64_at(at + 16) as i64);
        let body = bytes.slice(at + 24..at + 24 + length);
        requests.push(Request { body, raw, newest_ns: newest_ms * 1_000_000 });
        at += 24 + length;
    }
    requests
}

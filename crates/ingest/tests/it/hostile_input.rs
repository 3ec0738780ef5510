//! Hostile requests: truncated ones, false lengths, decompression bombs, very large sets, random bytes.
//! Each ends in an error or in refusals that name the limit, and none panics.

use std::io::Write;
use std::rc::Rc;

use crate::remote_write::Endless;
use crate::wire::*;
use proptest::prelude::*;
use sandur_ingest::{Decoded, Error, Push, PushHeaders, loki_push, loki_push_legacy_within, otlp_logs};
use sandur_model::Limits;

fn request() -> Vec<u8> {
    let entries = [entry(NOON, "a line", &[("k.k", "v"), ("level", "odd")]), entry(NOON, "b", &[])];
    stream(r#"{app="a", level="notice"}"#, &entries)
}

#[test]
fn truncated_requests_are_refused() {
    let plain = request();
    for end in 1..plain.len() {
        // A cut between two fields is a shorter valid message: neither may panic.
        if let Ok(decoded) = push(&Limits::default(), &[plain[..end].to_vec()]) {
            rows(&decoded);
        }
    }
    let block = snappy(&plain);
    for end in 0..block.len() {
        let error = loki_push(&tenant(), &Limits::default(), NOON, PROTOBUF, block.slice(..end)).unwrap_err();
        assert!(matches!(error, Error::Malformed { format: "snappy", .. }), "{error}");
    }
    let json = br#"{"streams":[{"stream":{"a":"b"},"values":[["1795176000000000000","x",{"k":"v"}]]}]}"#;
    for end in 0..json.len() {
        assert!(push_json(&Limits::default(), &json[..end]).is_err());
    }
    let json =
        br#"{"streams":[{"labels":"{a=\"b\"}","entries":[{"ts":"2026-11-20T12:00:00Z","line":"x"}]}]}"#;
    for end in 0..json.len() {
        assert!(push_legacy(&json[..end]).is_err());
    }
    assert_eq!(push_legacy(json).unwrap().lines, 1);
}

fn push_legacy(json: &[u8]) -> Result<Decoded, Error> {
    let push = Push { tenant: &tenant(), limits: &Limits::default(), now_ns: NOON, headers: JSON };
    loki_push_legacy_within(push, bytes::Bytes::copy_from_slice(json), Rc::new(Endless))
}

#[test]
fn false_lengths_allocate_no_memory() {
    let huge = [varint(10), varint(u64::MAX / 2)].concat();
    let error = push(&Limits::default(), &[huge]).unwrap_err();
    assert!(matches!(error, Error::Malformed { format: "protobuf", .. }), "{error}");
    // A stream longer than the rest of the request, and an entry longer than its stream.
    let inner = [bytes(1, r#"{a="b"}"#), [varint(18), varint(100)].concat()].concat();
    assert!(push(&Limits::default(), &[bytes(1, inner)]).is_err());
    // a snappy block that declares 4 GiB
    let lie = vec![0xFF, 0xFF, 0xFF, 0xFF, 0x0F, 0x00, 0x41];
    let error = loki_push(&tenant(), &Limits::default(), NOON, PROTOBUF, lie.into()).unwrap_err();
    assert_eq!(error, Error::DecompressedTooLarge { limit: 64 << 20 });
}

#[test]
fn decompression_bombs_stop_at_the_limit() {
    let limits = Limits { max_decompressed_size: 1 << 20, ..Limits::default() };
    let line = vec![b'x'; 2 << 20];
    let error = push(&limits, &[stream(r#"{a="b"}"#, &[entry(NOON, &line, &[])])]).unwrap_err();
    assert_eq!(error, Error::DecompressedTooLarge { limit: 1 << 20 });
    assert!(error.to_string().contains("max_decompressed_size"), "{error}");
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    gzip.write_all(&vec![b' '; 100 << 20]).unwrap();
    let body: bytes::Bytes = gzip.finish().unwrap().into();
    let headers = PushHeaders { content_encoding: Some("gzip"), ..JSON };
    let error = loki_push(&tenant(), &Limits::default(), NOON, headers, body.clone()).unwrap_err();
    assert!(matches!(error, Error::DecompressedTooLarge { .. }), "{error}");
    let error = otlp_logs(&tenant(), &Limits::default(), NOON, headers, body).unwrap_err();
    assert!(matches!(error, Error::DecompressedTooLarge { .. }), "{error}");
    let small = Limits { max_body_size: 100, ..Limits::default() };
    let error = push_json(&small, vec![b' '; 101]).unwrap_err();
    assert_eq!(error, Error::BodyTooLarge { size: 101, limit: 100 });
}

#[test]
fn a_million_labels_are_refused_by_their_size() {
    let labels: String = (0..1_000_000).map(|n| format!("l{n}=\"\",")).collect();
    let streams = [
        stream(format!("{{{labels}}}"), &[entry(NOON, "x", &[])]),
        stream(r#"{a="b"}"#, &[entry(NOON, "kept", &[])]),
    ];
    let decoded = push(&Limits::default(), &streams).unwrap();
    assert_eq!(decoded.lines, 1);
    let text = decoded.refused.text().unwrap();
    assert!(text.contains("bytes of labels, limit: 65536 bytes") && text.len() < 3000, "{text}");
    // and many long ones by their sum
    let long = "v".repeat(60_000);
    let many: Vec<Vec<u8>> =
        (0..300).map(|n| stream(format!("{{a=\"{n}{long}\"}}"), &[entry(NOON, "x", &[])])).collect();
    let error = push(&Limits::default(), &many).unwrap_err();
    assert!(error.to_string().contains("16777216 bytes of stream labels"), "{error}");
}

#[test]
fn a_million_metadata_pairs_are_refused() {
    let pair = message(3, &[]);
    let fields = [message(1, &[number(1, (NOON / 1_000_000_000) as u64)]), pair.repeat(1_000_000)];
    let decoded = push(&Limits::default(), &[stream(r#"{a="b"}"#, &[message(2, &fields)])]).unwrap();
    let text = decoded.refused.text().unwrap();
    assert!(text.contains("too many structured metadata labels: '1000000', limit: '128'"), "{text}");
    // a resource whose attributes are multiplied by many tiny records
    let attributes: Vec<Vec<u8>> =
        (0..100).map(|n| message(1, &[bytes(1, format!("k{n}")), bytes(2, bytes(1, "v"))])).collect();
    let records = bytes(2, "").repeat(200_000);
    let request = message(1, &[message(1, &attributes), message(2, &[records])]);
    let error = otlp(&Limits::default(), &[request]).unwrap_err();
    assert!(error.to_string().contains("4000000 pairs of structured metadata"), "{error}");
}

#[test]
fn entries_and_streams_of_a_request_are_limited() {
    let tiny = entry(NOON, "", &[]);
    let error = push(&Limits::default(), &[stream(r#"{a="b"}"#, &[tiny.repeat(2_000_001)])]).unwrap_err();
    assert!(error.to_string().contains("2000000 entries"), "{error}");
    let streams = stream(r#"{a="b"}"#, &[tiny]).repeat(200_001);
    let error = push(&Limits::default(), &[streams]).unwrap_err();
    assert!(error.to_string().contains("200000 streams"), "{error}");
}

#[test]
fn text_that_expands_is_bounded() {
    // names joined along nested maps: every leaf repeats the long prefix
    let limits =
        Limits { max_decompressed_size: 1 << 20, max_structured_metadata_size: 0, ..Limits::default() };
    let leaves: Vec<Vec<u8>> = (0..1000).map(|n| message(1, &[bytes(1, format!("leaf{n}"))])).collect();
    let value = message(6, &leaves);
    let attribute = message(6, &[bytes(1, "p".repeat(10_000)), bytes(2, value)]);
    let request = message(1, &[message(2, &[bytes(2, attribute)])]);
    let error = otlp(&limits, &[request]).unwrap_err();
    assert_eq!(error, Error::DecompressedTooLarge { limit: 1 << 20 });
    // control characters in a body that becomes JSON: six bytes for each
    let body = message(5, &[bytes(1, bytes(1, vec![1; 300_000]))]);
    let request = message(1, &[message(2, &[bytes(2, bytes(5, body))])]);
    let error = otlp(&limits, &[request]).unwrap_err();
    assert_eq!(error, Error::DecompressedTooLarge { limit: 1 << 20 });
}

#[test]
fn unknown_json_members_may_be_nested_deeply() {
    let nested = format!(r#"{{"x":{}{},"streams":[]}}"#, "[".repeat(100_000), "]".repeat(100_000));
    assert_eq!(push_json(&Limits::default(), nested).unwrap_err(), Error::NoStreams);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn random_bytes_never_panic(body in proptest::collection::vec(any::<u8>(), 0..200)) {
        let _ = push(&Limits::default(), std::slice::from_ref(&body));
        let _ = otlp(&Limits::default(), std::slice::from_ref(&body));
        let _ = push_json(&Limits::default(), body.clone());
        let _ = push_legacy(&body);
        let _ = otlp_json(&Limits::default(), body.clone());
        let _ = loki_push(&tenant(), &Limits::default(), NOON, PROTOBUF, body.into());
    }

    #[test]
    fn damaged_requests_never_panic(at in 0usize..200, byte: u8, cut in 0usize..200) {
        let mut plain = request();
        let at = at % plain.len();
        plain[at] = byte;
        plain.truncate(plain.len().max(cut) - cut);
        if let Ok(decoded) = push(&Limits::default(), &[plain.clone()]) {
            rows(&decoded);
            check_arena(&decoded);
        }
        if let Ok(decoded) = otlp(&Limits::default(), &[plain]) {
            rows(&decoded);
        }
    }
}

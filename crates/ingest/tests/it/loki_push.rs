//! Loki's push protocol through the crate's interface: requests by an independent encoder, in both forms.

use std::io::Write;
use std::rc::Rc;

use crate::remote_write::Endless;
use crate::wire::*;
use bytes::Bytes;
use proptest::prelude::*;
use sandur_ingest::{Error, Push, PushHeaders, loki_push, loki_push_legacy_within};
use sandur_model::{ArenaCodec, Labels, Limits};

#[test]
fn a_request_becomes_a_batch_without_copying_lines() {
    let streams = [
        stream(
            r#"{app="api", level="warn"}"#,
            &[entry(NOON, "first", &[]), entry(NOON - 1, "second", &[("trace_id", "t1"), ("a", "")])],
        ),
        stream(r#"{job="j"}"#, &[entry(NOON + 5, "level=error x=y", &[])]),
    ];
    let block = snappy(&streams.concat());
    let decoded = loki_push(&tenant(), &Limits::default(), NOON, PROTOBUF, block.clone()).unwrap();
    let api = r#"{app="api", level="warn", service_name="api"}"#;
    let job = r#"{job="j", service_name="j"}"#;
    assert_eq!(
        rows(&decoded),
        [
            (api.to_owned(), 0, "first".to_owned(), "warn", vec![]),
            (api.to_owned(), -1, "second".to_owned(), "warn", pairs(&[("trace_id", "t1")])),
            (job.to_owned(), 5, "level=error x=y".to_owned(), "error", vec![]),
        ]
    );
    assert!(decoded.refused.is_empty());
    assert_eq!((decoded.lines, decoded.bytes), (3, 5 + 6 + 10 + 1 + 15));
    // The arena is the decompressed body and keeps the block as received.
    assert_eq!(decoded.batch.arena.bytes, streams.concat());
    assert_eq!(decoded.batch.arena.compressed, Some((ArenaCodec::Snappy, block)));
    assert_eq!(decoded.batch.tenant, tenant());
}

#[test]
fn json_gives_the_same_entries_as_protobuf() {
    let json = r#" {"ignored":[{}],"streams":[
        {"stream":{"app":"a\"b\\c","n":5,"empty":"","none":null},
         "values":[["1795176000000000000","line \u00e9 \n",{"k":"v\t","a":"b"}],null,
                   ["1795175999999999999",""]]},
        {"values":[["1795176000000000001","labels come last"]],"stream":{"app":"z"},"other":1},
        {"stream":{"app":"none"},"values":null}
    ]} "#;
    let from_json = push_json(&plain_limits(), json).unwrap();
    let from_protobuf = push(
        &plain_limits(),
        &[
            stream(
                r#"{app="a\"b\\c", n="5"}"#,
                &[entry(NOON, "line é \n", &[("k", "v\t"), ("a", "b")]), entry(NOON - 1, "", &[])],
            ),
            stream(r#"{app="z"}"#, &[entry(NOON + 1, "labels come last", &[])]),
        ],
    )
    .unwrap();
    assert_eq!(rows(&from_json), rows(&from_protobuf));
    assert_eq!(from_json.batch.arena.compressed, None);
    assert_eq!(from_json.bytes, from_protobuf.bytes);
}

#[test]
fn json_that_is_not_a_push_is_refused_with_an_offset() {
    let limits = Limits::default();
    for (json, text) in [
        (
            r#"{"streams":[{"stream":{"a":"b"},"values":[[1795176000000000000,"x"]]}]}"#,
            "nanoseconds since the epoch as a string",
        ),
        (
            r#"{"streams":[{"stream":{"a":"b"},"values":[["12x","x"]]}]}"#,
            "nanoseconds since the epoch as a string",
        ),
        (r#"{"streams":[{"stream":{"a":"b"},"values":[["1",2]]}]}"#, "a string"),
        (r#"{"streams":[{"stream":{"a":"b"},"values":[["1"]]}]}"#, "an entry"),
        (r#"{"streams":[{"stream":{"a":"b"},"values":[["1","x",{"k":1}]]}]}"#, "a string"),
        (r#"{"streams":[{"stream":{"a":"b"},"values":[["1","x","y"]]}]}"#, "structured metadata"),
        (r#"{"streams":[{"stream":{"a":{}},"values":[]}]}"#, "a label value"),
        (r#"{"streams":[{"stream":"{a=\"b\"}","values":[]}]}"#, "an object of labels"),
        (r#"{"streams":{}}"#, "a list of streams"),
        ("[]", "streams"),
        ("{\"streams\":[]} x", "trailing characters"),
        ("{\"streams\":[", "EOF"),
        ("", "EOF"),
    ] {
        let error = push_json(&limits, json).unwrap_err();
        assert!(matches!(error, Error::Malformed { format: "JSON", .. }), "{json}: {error}");
        assert!(error.to_string().contains(text), "{json}: {error}");
    }
    let error = push_json(&limits, "{\n\"streams\":\n  7}").unwrap_err();
    assert!(
        error.to_string().starts_with("JSON body is malformed at byte 16: invalid type: integer `7`"),
        "{error}"
    );
    assert_eq!(push_json(&limits, r#"{"streams":[]}"#).unwrap_err(), Error::NoStreams);
    assert_eq!(push_json(&limits, "{}").unwrap_err(), Error::NoStreams);
}

#[test]
fn json_of_before_version_1_was_accepted_and_stored_nowhere() {
    let json = r#" {"streams":[
        {"labels":"{app=\"x\", level=\"warn\"}","entries":[
            {"ts":"2026-11-20T12:00:00.000000001Z","line":"one","structuredMetadata":{"a":"1"}},
            {"Line":"two","Ts":"2026-11-20T13:00:00+01:00","structuredMetadata":null,"parsed":{}}]},
        {"Entries":null,"Labels":"{app=\"none\"}"},
        {"stream":{"app":"y"},"values":[["1795176000000000003","three"]]},
        {"labels":"{app=","entries":[{"ts":"2026-11-20T12:00:00Z","line":"four"}]}
    ]} "#;
    let limits = plain_limits();
    let legacy = |json: &str, headers: PushHeaders<'_>, body: Vec<u8>| {
        let push = Push { tenant: &tenant(), limits: &limits, now_ns: NOON, headers };
        let decoded = loki_push_legacy_within(push, body.into(), Rc::new(Endless));
        decoded.map_err(|error| format!("{json}: {error}"))
    };
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gzip.write_all(json.as_bytes()).unwrap();
    let bodies = [
        (JSON, json.as_bytes().to_vec()),
        (PushHeaders { content_encoding: Some("gzip"), ..JSON }, gzip.finish().unwrap()),
    ];
    for (headers, body) in bodies {
        let decoded = legacy(json, headers, body).unwrap();
        let x = r#"{app="x", level="warn"}"#;
        assert_eq!(
            rows(&decoded),
            [
                (x.to_owned(), 1, "one".to_owned(), "warn", pairs(&[("a", "1")])),
                (x.to_owned(), 0, "two".to_owned(), "warn", vec![]),
                (r#"{app="y"}"#.to_owned(), 3, "three".to_owned(), "unknown", vec![]),
            ]
        );
        assert!(decoded.refused.text().unwrap().starts_with("error parsing labels '{app='"));
    }
    for (json, text) in [
        (r#"{"streams":[{"labels":"{a=\"b\"}","entries":[{"line":"x"}]}]}"#, r#"an entry needs "ts""#),
        (
            r#"{"streams":[{"labels":"{a=\"b\"}","entries":[{"ts":"2026-11-20T12:00:00Z","msg":"x"}]}]}"#,
            r#"an entry needs "line""#,
        ),
        (r#"{"streams":[{"labels":"{}","entries":[{"ts":"1795176000","line":"x"}]}]}"#, "a time in RFC 3339"),
        (r#"{"streams":[{"labels":{"a":"b"},"entries":[]}]}"#, "a string"),
        (r#"{"streams":[{"labels":"{a=\"b\"}","entrys":[]}]}"#, r#"needs "stream" and "values""#),
    ] {
        let error = legacy(json, JSON, json.into()).unwrap_err();
        assert!(error.contains(text), "{error}");
    }
    let legacy =
        r#"{"streams":[{"labels":"{app=\"x\"}","entries":[{"ts":"2026-11-20T12:00:00Z","line":"x"}]}]}"#;
    let error = push_json(&limits, legacy).unwrap_err().to_string();
    assert!(
        error.contains("this one has 'labels'") && error.contains("is read at /api/prom/push"),
        "{error}"
    );
}

#[test]
fn a_stream_of_misspelt_members_was_accepted_and_stored_nowhere() {
    for (json, refused) in [
        (r#"{"streams":[{"stream":{"a":"b"},"value":[["1795176000000000000","x"]]}]}"#, true),
        (r#"{"streams":[{"stream":{"a":"b"},"Values":[]}]}"#, true),
        (r#"{"streams":[{"stream":{"a":"b"},"values":[],"hash":1}]}"#, false),
        (r#"{"streams":[{"stream":{"a":"b"}}]}"#, false),
    ] {
        let outcome = push_json(&Limits::default(), json);
        assert_eq!(outcome.is_err(), refused, "{json}: {outcome:?}");
    }
    let long = format!(r#"{{"streams":[{{"{}":1}}]}}"#, "ä".repeat(1_000));
    assert!(push_json(&Limits::default(), long).unwrap_err().to_string().len() < 200);
}

#[test]
fn compressed_json_is_decompressed() {
    let json = br#"{"streams":[{"stream":{"a":"b"},"values":[["1795176000000000000","x"]]}]}"#;
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gzip.write_all(json).unwrap();
    let mut deflate = flate2::write::DeflateEncoder::new(Vec::new(), flate2::Compression::fast());
    deflate.write_all(json).unwrap();
    for (encoding, body) in [("gzip", gzip.finish().unwrap()), ("deflate", deflate.finish().unwrap())] {
        let headers = PushHeaders { content_encoding: Some(encoding), ..JSON };
        let decoded = loki_push(&tenant(), &plain_limits(), NOON, headers, body.into()).unwrap();
        assert_eq!(rows(&decoded).len(), 1, "{encoding}");
    }
    let body = snappy(&stream(r#"{a="b"}"#, &[entry(NOON, "x", &[])]));
    let headers = PushHeaders { content_encoding: Some("snappy"), ..PROTOBUF };
    assert_eq!(loki_push(&tenant(), &plain_limits(), NOON, headers, body).unwrap().lines, 1);
}

#[test]
fn valid_entries_are_kept_when_others_are_refused() {
    let limits = Limits { max_line_size: 10, ..plain_limits() };
    let week = 7 * 86_400 * 1_000_000_000;
    let decoded = push(
        &limits,
        &[
            stream(
                r#"{app="a"}"#,
                &[
                    entry(NOON, "good", &[]),
                    entry(NOON, "far too long", &[("k", "v")]),
                    entry(NOON, "far too long", &[]),
                    entry(NOON - 2 * week, "old", &[]),
                    entry(NOON + week, "new", &[]),
                ],
            ),
            stream("{app=", &[entry(NOON, "unreadable", &[]), entry(NOON, "again", &[])]),
            stream(r#"{a="1", a="2"}"#, &[entry(NOON, "twice", &[])]),
            stream("{}", &[entry(NOON, "no label", &[])]),
            stream(b"{a=\"\xff\"}", &[entry(NOON, "no text", &[])]),
            stream("{broken", &[]),
            stream(r#"{app="a"}"#, &[entry(NOON + 1, "also good", &[])]),
        ],
    )
    .unwrap();
    let kept: Vec<String> = rows(&decoded).into_iter().map(|row| row.2).collect();
    assert_eq!(kept, ["good", "also good"]);
    let refused: Vec<_> =
        decoded.refused.by_reason().map(|(r, lines, bytes)| (r.name(), lines, bytes)).collect();
    assert_eq!(
        refused,
        [
            ("invalid_labels", 3, 15 + 7),
            ("missing_labels", 1, 8),
            ("duplicate_label_names", 1, 5),
            ("greater_than_max_sample_age", 1, 3),
            ("too_far_in_future", 1, 3),
            ("line_too_long", 2, 26),
        ]
    );
    let text = decoded.refused.text().unwrap();
    for part in [
        "2 errors like: max entry size '10' bytes exceeded for stream '{app=\"a\"}' while adding an \
         entry with length '12' bytes; ",
        "1 errors like: entry for stream '{app=\"a\"}' has timestamp too old: 2026-11-06T12:00:00Z, \
         oldest acceptable timestamp is: 2026-11-13T12:00:00Z; ",
        "1 errors like: entry for stream '{app=\"a\"}' has timestamp too new: 2026-11-27T12:00:00Z; ",
        "1 errors like: error parsing labels '{app=' with error: parse error at line 1, \
         col 6: syntax error: unexpected $end",
        "1 errors like: stream '{a=\"1\", a=\"2\"}' has duplicate label name: 'a'; ",
        "1 errors like: error at least one label pair is required per stream; ",
        "invalid UTF-8",
    ] {
        assert!(text.contains(part), "{part} is not in {text}");
    }
}

#[test]
fn a_request_of_refused_entries_only_is_an_empty_batch() {
    let decoded = push(&Limits::default(), &[stream(r#"{a="b"}"#, &[entry(0, "x", &[])])]).unwrap();
    assert!(decoded.batch.streams.is_empty() && !decoded.refused.is_empty());
    assert_eq!(push(&Limits::default(), &[]).unwrap_err(), Error::NoStreams);
    let empty = push(&Limits::default(), &[stream(r#"{a="b"}"#, &[])]).unwrap();
    assert!(empty.batch.streams.is_empty() && empty.refused.is_empty());
}

#[test]
fn lines_are_truncated_if_the_limits_say_so() {
    let limits = Limits { max_line_size: 5, max_line_size_truncate: true, ..plain_limits() };
    let decoded = push(&limits, &[stream(r#"{a="b"}"#, &[entry(NOON, "1234567", &[])])]).unwrap();
    assert_eq!(rows(&decoded)[0].2, "12345");
    assert!(decoded.refused.is_empty());
}

#[test]
fn metadata_is_normalized() {
    let limits = plain_limits();
    let sent = [
        ("z", "1"),
        ("span.id", "s"),
        ("a", "2"),
        ("9lives", "3"),
        ("span_id", "later"),
        ("z", "later"),
        ("empty", ""),
    ];
    let decoded = push(&limits, &[stream(r#"{a="b", level="info"}"#, &[entry(NOON, "x", &sent)])]).unwrap();
    assert_eq!(
        rows(&decoded)[0].4,
        pairs(&[("a", "2"), ("key_9lives", "3"), ("span_id", "later"), ("z", "later")])
    );
    check_arena(&decoded);
    // Bytes that are not UTF-8 are removed from values, and kept in lines.
    let value = [bytes(1, "k"), bytes(2, b"a\xff\xfeb")].concat();
    let fields =
        [message(1, &[number(1, (NOON / 1_000_000_000) as u64)]), bytes(2, b"\xff line"), bytes(3, value)];
    let decoded = push(&limits, &[stream(r#"{a="b"}"#, &[message(2, &fields)])]).unwrap();
    let batch = &decoded.batch;
    let entry = &batch.streams[0].entries[0];
    assert_eq!(entry.line.of(&batch.arena.bytes), b"\xff line");
    assert_eq!(batch.metadata_of(entry).collect::<Vec<_>>(), [(&b"k"[..], &b"ab"[..])]);
    check_arena(&decoded);
}

/// The source of the level: label, then metadata, then severity number, then line; values that are no
/// known level.
#[test]
fn the_level_has_the_same_source_as_in_loki() {
    type Pairs = &'static [(&'static str, &'static str)];
    let cases: [(&str, &str, Pairs, &str, Pairs); 14] = [
        (r#"{a="b"}"#, "plain", &[], "unknown", &[]),
        (r#"{a="b"}"#, "an error", &[], "error", &[]),
        (r#"{a="b", level="Info"}"#, "an error", &[], "info", &[]),
        (r#"{a="b", level="Info"}"#, "an error", &[("level", "debug")], "info", &[("level", "debug")]),
        (
            r#"{a="b"}"#,
            "an error",
            &[("lvl", "fatal"), ("severity", "WRN")],
            "warn",
            &[("lvl", "fatal"), ("severity", "WRN")],
        ),
        (r#"{a="b"}"#, "an error", &[("severity_number", "5")], "debug", &[("severity_number", "5")]),
        (
            r#"{a="b"}"#,
            "an error",
            &[("severity_number", "5"), ("level", "trace")],
            "trace",
            &[("level", "trace"), ("severity_number", "5")],
        ),
        (r#"{a="b"}"#, "an error", &[("severity_number", "")], "error", &[]),
        // The client's own: a known level becomes the entry's level, other values are kept.
        (r#"{a="b", level="info"}"#, "x", &[("detected_level", "WaRn"), ("z", "1")], "warn", &[("z", "1")]),
        (r#"{a="b", level="info"}"#, "x", &[("detected_level", "odd")], "", &[("detected_level", "odd")]),
        // Values that are no known level.
        (r#"{a="b", level="notice"}"#, "an error", &[], "", &[("detected_level", "notice")]),
        (r#"{a="b", level="notice"}"#, "x", &[("z", "1")], "", &[("detected_level", "notice"), ("z", "1")]),
        (
            r#"{a="b"}"#,
            "an error",
            &[("a", "1"), ("severity", "alert")],
            "",
            &[("a", "1"), ("detected_level", "alert"), ("severity", "alert")],
        ),
        (r#"{a="b"}"#, "an error", &[("level", ""), ("detected_level", "")], "error", &[]),
    ];
    for (labels, line, metadata, level, kept) in cases {
        let entries = [entry(NOON, line, metadata), entry(NOON + 1, line, metadata)];
        let decoded = push(&plain_limits(), &[stream(labels, &entries)]).unwrap();
        for row in rows(&decoded) {
            assert_eq!((row.3, row.4), (level, pairs(kept)), "{labels} {line} {metadata:?}");
        }
        check_arena(&decoded);
    }
    let off = Limits { discover_log_levels: false, ..plain_limits() };
    let sent = [("detected_level", "warn")];
    let decoded = push(&off, &[stream(r#"{level="info"}"#, &[entry(NOON, "error", &sent)])]).unwrap();
    assert_eq!((rows(&decoded)[0].3, &rows(&decoded)[0].4), ("", &pairs(&sent)));
}

#[test]
fn field_order_and_unknown_fields_do_not_matter() {
    let late_labels = message(
        1,
        &[
            number(3, 77),
            message(
                2,
                &[
                    bytes(9, "unknown"),
                    bytes(2, "line"),
                    fixed32(8, 1),
                    message(1, &[number(1, (NOON / 1_000_000_000) as u64)]),
                ],
            ),
            bytes(1, r#"{a="b"}"#),
            fixed64(7, 1),
        ],
    );
    let decoded = push(&plain_limits(), &[bytes(2, "loki"), late_labels]).unwrap();
    assert_eq!(rows(&decoded), [(r#"{a="b"}"#.to_owned(), 0, "line".to_owned(), "unknown", vec![])]);
}

#[test]
fn a_missing_content_type_means_protobuf_and_unknown_ones_are_refused() {
    let body = snappy(&stream(r#"{a="b"}"#, &[entry(NOON, "x", &[])]));
    assert!(loki_push(&tenant(), &plain_limits(), NOON, PushHeaders::default(), body.clone()).is_ok());
    let headers = PushHeaders { content_type: Some("application/x-www-form-urlencoded"), ..PROTOBUF };
    let error = loki_push(&tenant(), &plain_limits(), NOON, headers, body).unwrap_err();
    assert!(matches!(error, Error::ContentType { .. }), "{error}");
    let error = loki_push(&tenant(), &plain_limits(), NOON, PROTOBUF, Bytes::from_static(b"{}")).unwrap_err();
    assert!(matches!(error, Error::Malformed { format: "snappy", .. }), "{error}");
}

/// Labels, then entries of timestamp, line and metadata.
type Sent = Vec<(Vec<(String, String)>, Vec<(i64, String, Vec<(String, String)>)>)>;

fn requests() -> impl Strategy<Value = Sent> {
    let labels = proptest::collection::vec(("[a-z]{1,4}", "[a-zä\"\\\\ \n]{0,6}"), 1..4);
    let metadata = proptest::collection::vec(("[a-zA-Z_.9]{1,5}", "\\PC{0,6}"), 0..4);
    let entry = (-1000i64..1000, "\\PC{0,40}", metadata);
    proptest::collection::vec((labels, proptest::collection::vec(entry, 0..6)), 1..5)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    /// Random requests: the batch holds the sent entries, in both forms.
    #[test]
    fn encoded_requests_are_decoded(sent in requests()) {
        let limits = Limits { discover_log_levels: false, ..plain_limits() };
        let mut streams = Vec::new();
        let mut json = Vec::new();
        let mut expected = Vec::new();
        for (pairs, entries) in &sent {
            let labels = Labels::from_pairs(pairs.iter().map(|(n, v)| (n.as_str(), v.as_str())));
            let encoded: Vec<Vec<u8>> = entries.iter().map(|(t, line, metadata)| {
                let pairs = metadata.iter().map(|(n, v)| (n.as_str(), v.as_str()));
                let metadata: Vec<(&str, &str)> = pairs.collect();
                entry(NOON + t, line, &metadata)
            }).collect();
            streams.push(stream(labels.to_string(), &encoded));
            let pairs = labels.iter().map(|(n, v)| (n.to_owned(), v.into()));
            let object: serde_json::Map<_, _> = pairs.collect();
            let values: Vec<serde_json::Value> = entries.iter().map(|(t, line, metadata)| {
                // A JSON object keeps only one pair of equal names: compare without repetitions.
                let pairs = metadata.iter().map(|(n, v)| (n.clone(), v.as_str().into()));
                let metadata: serde_json::Map<_, _> = pairs.collect();
                serde_json::json!([(NOON + t).to_string(), line, metadata])
            }).collect();
            json.push(serde_json::json!({"stream": object, "values": values}));
            if !labels.is_empty() {
                for (t, line, _) in entries {
                    expected.push((labels.to_string(), *t, line.clone()));
                }
            }
        }
        let decoded = push(&limits, &streams).unwrap();
        let short = |rows: Vec<Row>| rows.into_iter().map(|r| (r.0, r.1, r.2)).collect::<Vec<_>>();
        prop_assert_eq!(short(rows(&decoded)), expected.clone());
        check_arena(&decoded);
        let json = serde_json::json!({"streams": json}).to_string();
        prop_assert_eq!(short(rows(&push_json(&limits, json).unwrap())), expected);
    }
}

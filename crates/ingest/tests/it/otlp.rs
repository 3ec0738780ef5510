//! OTLP logs through the crate's interface: requests by an independent encoder, in both forms.

use std::io::Write;

use crate::wire::*;
use sandur_ingest::{Error, PushHeaders, VALUE_DEPTH_MAX, otlp_logs, otlp_status};
use sandur_model::Limits;

fn text(value: &str) -> Vec<u8> {
    bytes(1, value)
}

/// A `KeyValue` in a field.
fn attribute(field: u32, key: &str, value: Vec<u8>) -> Vec<u8> {
    message(field, &[bytes(1, key), bytes(2, value)])
}

fn map(pairs: &[(&str, Vec<u8>)]) -> Vec<u8> {
    let pairs: Vec<Vec<u8>> = pairs.iter().map(|(key, value)| attribute(1, key, value.clone())).collect();
    message(6, &pairs)
}

fn list(values: &[Vec<u8>]) -> Vec<u8> {
    let values: Vec<Vec<u8>> = values.iter().map(|value| bytes(1, value)).collect();
    message(5, &values)
}

fn request(resource: &[Vec<u8>], scope: &[Vec<u8>], records: &[Vec<u8>]) -> Vec<u8> {
    let records: Vec<u8> = records.iter().flat_map(|record| bytes(2, record)).collect();
    let scope_logs = message(2, &[message(1, scope), records]);
    message(1, &[message(1, resource), scope_logs])
}

#[test]
fn attributes_become_labels_and_metadata() {
    let resource = [
        attribute(1, "service.name", text("cart")),
        attribute(1, "k8s.pod.name", text("cart-1")),
        attribute(1, "host.arch", text("arm64")),
        attribute(1, "deployment.environment", text("")),
    ];
    let scope = [bytes(1, "lib"), bytes(2, "1.2"), attribute(3, "scope.attr", text("s")), number(4, 3)];
    let record = [
        fixed64(1, NOON as u64),
        fixed64(11, NOON as u64 + 7),
        number(2, 17),
        bytes(3, "Error"),
        bytes(5, text("it broke")),
        attribute(6, "http.status", number(3, 500)),
        attribute(
            6,
            "user",
            map(&[("id", text("u1")), ("geo.ip", map(&[("lat", fixed64(4, 1.5f64.to_bits()))]))]),
        ),
        attribute(6, "tags", list(&[text("a"), number(3, 1)])),
        attribute(6, "ok", number(2, 1)),
        number(7, 2),
        fixed32(8, 1),
        bytes(9, [0xAB; 16]),
        bytes(10, [1; 8]),
        bytes(12, "checkout"),
        attribute(6, "event_name", text("loses against the field")),
    ]
    .concat();
    let decoded = otlp(&Limits::default(), &[request(&resource, &scope, &[record])]).unwrap();
    let labels = r#"{k8s_pod_name="cart-1", service_name="cart"}"#;
    let metadata = pairs(&[
        ("dropped_attributes_count", "2"),
        ("event_name", "checkout"),
        ("flags", "1"),
        ("host_arch", "arm64"),
        ("http_status", "500"),
        ("observed_timestamp", "1795176000000000007"),
        ("ok", "true"),
        ("scope_attr", "s"),
        ("scope_dropped_attributes_count", "3"),
        ("scope_name", "lib"),
        ("scope_version", "1.2"),
        ("severity_number", "17"),
        ("severity_text", "Error"),
        ("span_id", "0101010101010101"),
        ("tags", r#"["a",1]"#),
        ("trace_id", "abababababababababababababababab"),
        ("user_geo_ip_lat", "1.5"),
        ("user_id", "u1"),
    ]);
    assert_eq!(rows(&decoded), [(labels.to_owned(), 0, "it broke".to_owned(), "error", metadata)]);
}

#[test]
fn json_gives_the_same_entries_as_protobuf() {
    let json = r#"{"resourceLogs":[{"scopeLogs":[{"logRecords":[
        {"timeUnixNano":"1795176000000000000","observedTimeUnixNano":1795176000000000007,"severityNumber":13,
         "severityText":"warn","body":{"stringValue":"line \"one\"\n"},"flags":1,"droppedAttributesCount":1,
         "attributes":[{"key":"n","value":{"intValue":"-5"}},{"key":"m","value":{"kvlistValue":{"values":[
            {"key":"b","value":{"bytesValue":"Zm9v"}},{"key":"l","value":{"arrayValue":
                {"values":[{"boolValue":false},{}]}}}]}}},
            {"key":"d","value":{"doubleValue":2.5}}],
         "traceId":"ABABABABABABABABABABABABABABABAB","spanId":"0101010101010101","eventName":null},
        {"body":{"kvlistValue":{"values":[{"key":"z","value":{"intValue":1}},
            {"key":"a","value":{"stringValue":"x"}}]}},
         "observed_time_unix_nano":1795176000000000001,"traceId":""}
      ],"scope":{"name":"lib"},"unknown":[1,{"a":[]}]}],
      "resource":{"attributes":[{"key":"service.name","value":{"stringValue":"cart"}}]}}]}"#;
    let inner = map(&[("b", bytes(7, "foo")), ("l", list(&[number(2, 0), vec![]]))]);
    let one = [
        fixed64(1, NOON as u64),
        fixed64(11, NOON as u64 + 7),
        number(2, 13),
        bytes(3, "warn"),
        bytes(5, text("line \"one\"\n")),
        fixed32(8, 1),
        number(7, 1),
        attribute(6, "n", number(3, -5i64 as u64)),
        attribute(6, "m", inner),
        attribute(6, "d", fixed64(4, 2.5f64.to_bits())),
        bytes(9, [0xAB; 16]),
        bytes(10, [1; 8]),
    ]
    .concat();
    let two =
        [bytes(5, map(&[("z", number(3, 1)), ("a", text("x"))])), fixed64(11, NOON as u64 + 1)].concat();
    let protobuf = request(&[attribute(1, "service.name", text("cart"))], &[bytes(1, "lib")], &[one, two]);
    let from_json = rows(&otlp_json(&Limits::default(), json).unwrap());
    assert_eq!(from_json, rows(&otlp(&Limits::default(), &[protobuf]).unwrap()));
    assert_eq!(
        from_json[0].4,
        pairs(&[
            ("d", "2.5"),
            ("dropped_attributes_count", "1"),
            ("flags", "1"),
            ("m_b", "Zm9v"),
            ("m_l", "[false,null]"),
            ("n", "-5"),
            ("observed_timestamp", "1795176000000000007"),
            ("scope_name", "lib"),
            ("severity_number", "13"),
            ("severity_text", "warn"),
            ("span_id", "0101010101010101"),
            ("trace_id", "abababababababababababababababab"),
        ])
    );
    assert_eq!((from_json[1].1, from_json[1].2.as_str()), (1, r#"{"a":"x","z":1}"#));
}

#[test]
fn times_and_bodies_have_fallbacks() {
    let record = |fields: &[Vec<u8>]| fields.concat();
    let records = [
        record(&[fixed64(1, NOON as u64 - 2), bytes(5, number(3, 42))]),
        record(&[fixed64(11, NOON as u64 - 1), bytes(5, number(2, 1))]),
        record(&[bytes(5, fixed64(4, 0.5f64.to_bits()))]),
        record(&[bytes(5, bytes(7, [0xFF; 3]))]),
        record(&[bytes(5, list(&[text("<&>"), map(&[("k", vec![])])]))]),
        record(&[bytes(9, [0; 16])]),
    ];
    let decoded = otlp(&Limits::default(), &[request(&[], &[], &records)]).unwrap();
    let seen: Vec<(i64, String)> = rows(&decoded).into_iter().map(|row| (row.1, row.2)).collect();
    let expected = [(-2, "42"), (-1, "true"), (0, "0.5"), (0, "////"), (0, r#"["<&>",{"k":null}]"#), (0, "")];
    assert_eq!(seen, expected.map(|(t, line)| (t, line.to_owned())));
    assert_eq!(rows(&decoded)[0].0, r#"{service_name="unknown_service"}"#);
    assert!(rows(&decoded).iter().all(|row| row.4.is_empty()));
    let late = record(&[fixed64(1, u64::MAX), bytes(5, text("far"))]);
    let refused = otlp(&Limits::default(), &[request(&[], &[], &[late])]).unwrap().refused;
    assert!(refused.text().unwrap().contains("too new: 2262-04-11T23:47:16Z"), "{refused:?}");
}

#[test]
fn severity_decides_the_level() {
    let record =
        |fields: &[Vec<u8>]| [vec![bytes(5, text("an info line"))], fields.to_vec()].concat().concat();
    let records = [
        record(&[]),
        record(&[number(2, 17)]),
        record(&[number(2, 17), bytes(3, "DEBUG")]),
        record(&[number(2, 17), bytes(3, "NOTICE")]),
    ];
    let decoded = otlp(&Limits::default(), &[request(&[], &[], &records)]).unwrap();
    let levels: Vec<&str> = rows(&decoded).iter().map(|row| row.3).collect();
    assert_eq!(levels, ["info", "error", "debug", ""]);
    assert!(rows(&decoded)[3].4.contains(&("detected_level".to_owned(), "NOTICE".to_owned())));
}

#[test]
fn precedence_of_attributes_is_record_scope_resource() {
    let resource = [attribute(1, "k", text("resource")), attribute(1, "r", text("resource"))];
    let scope = [attribute(3, "k", text("scope")), attribute(3, "r", text("scope"))];
    let record = [bytes(5, text("x")), attribute(6, "k", text("record"))].concat();
    let decoded = otlp(&Limits::default(), &[request(&resource, &scope, &[record])]).unwrap();
    assert_eq!(rows(&decoded)[0].4, pairs(&[("k", "record"), ("r", "scope")]));
}

#[test]
fn resources_without_labels_are_refused_when_none_is_added() {
    let records = [bytes(5, text("one")), bytes(5, text("two"))];
    let decoded = otlp(&plain_limits(), &[request(&[], &[], &records)]).unwrap();
    assert_eq!(decoded.lines, 0);
    assert_eq!(decoded.refused.text().unwrap(), "error at least one label pair is required per stream");
    assert_eq!(decoded.refused.lines(), 2);
    let huge = attribute(1, "service.name", text(&"x".repeat(70_000)));
    let decoded = otlp(&Limits::default(), &[request(&[huge], &[], &records)]).unwrap();
    assert!(decoded.refused.text().unwrap().contains("limit: 65536 bytes"), "{:?}", decoded.refused);
    assert_eq!(decoded.refused.lines(), 2);
}

#[test]
fn encodings_are_read_and_unknown_ones_refused() {
    let body = request(&[attribute(1, "service.name", text("a"))], &[], &[bytes(5, text("x"))]);
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gzip.write_all(&body).unwrap();
    let bodies = [("gzip", gzip.finish().unwrap()), ("zstd", zstd::encode_all(&body[..], 1).unwrap())];
    for (encoding, body) in bodies {
        let headers = PushHeaders { content_encoding: Some(encoding), ..PROTOBUF };
        let decoded = otlp_logs(&tenant(), &Limits::default(), NOON, headers, body.into()).unwrap();
        assert_eq!(decoded.lines, 1, "{encoding}");
    }
    let headers = PushHeaders { content_encoding: Some("br"), ..PROTOBUF };
    let error = otlp_logs(&tenant(), &Limits::default(), NOON, headers, body.into()).unwrap_err();
    assert!(matches!(error, Error::ContentEncoding { .. }), "{error}");
    assert_eq!(otlp(&Limits::default(), &[]).unwrap().lines, 0);
    assert_eq!(otlp_status("bad"), [vec![0x12, 3], b"bad".to_vec()].concat());
}

#[test]
fn json_of_another_shape_is_refused() {
    let record =
        |fields: &str| format!(r#"{{"resourceLogs":[{{"scopeLogs":[{{"logRecords":[{{{fields}}}]}}]}}]}}"#);
    assert_eq!(otlp_json(&Limits::default(), record("")).unwrap().lines, 1);
    for (fields, text) in [
        (r#""timeUnixNano":"x""#, "a whole number, as such or in a string for \"timeUnixNano\""),
        (r#""timeUnixNano":1.5"#, "a whole number"),
        (r#""timeUnixNano":-1"#, "a whole number"),
        (r#""traceId":"xyz""#, "hexadecimal"),
        (r#""severityText":5"#, "a string for \"severityText\""),
        (r#""body":"plain""#, "an object"),
        (r#""body":{"stringValue":["x"]}"#, "a string"),
        (r#""body":{"boolValue":"true"}"#, "true or false"),
        (r#""attributes":[{"key":"k","value":{"bytesValue":"!"}}]"#, "base64"),
    ] {
        let error = otlp_json(&Limits::default(), record(fields)).unwrap_err();
        assert!(error.to_string().contains(text), "{fields}: {error}");
    }
}

#[test]
fn nesting_is_bounded_in_both_forms() {
    let nested = |depth: u32| (1..depth).fold(text("leaf"), |value, _| map(&[("k", value)]));
    let as_attribute = |depth| [bytes(5, text("x")), attribute(6, "a", nested(depth))].concat();
    let as_body = |depth| bytes(5, nested(depth));
    let limit = VALUE_DEPTH_MAX;
    for record in [as_attribute(limit), as_body(limit)] {
        assert_eq!(otlp(&Limits::default(), &[request(&[], &[], &[record])]).unwrap().lines, 1);
    }
    for record in [as_attribute(limit + 1), as_body(limit + 1), as_body(5000)] {
        let error = otlp(&Limits::default(), &[request(&[], &[], &[record])]).unwrap_err();
        assert_eq!(error, Error::TooDeep { limit });
    }
    let json = |depth: u32| {
        let value = (1..depth).fold(r#"{"stringValue":"leaf"}"#.to_owned(), |value, _| {
            format!(r#"{{"kvlistValue":{{"values":[{{"key":"k","value":{value}}}]}}}}"#)
        });
        format!(r#"{{"resourceLogs":[{{"scopeLogs":[{{"logRecords":[{{"body":{value}}}]}}]}}]}}"#)
    };
    assert_eq!(otlp_json(&Limits::default(), json(limit)).unwrap().lines, 1);
    for depth in [limit + 1, 40, 10_000] {
        assert_eq!(otlp_json(&Limits::default(), json(depth)).unwrap_err(), Error::TooDeep { limit });
    }
}

#[test]
fn a_body_without_records_for_misspelt_members_was_accepted_and_stored_nowhere() {
    for (json, text) in [
        (r#"{"resourceLog":[]}"#, r#"'resourceLog' stands where "resourceLogs" is expected"#),
        (r#"{"resourceMetrics":[{}]}"#, r#""resourceLogs" is expected"#),
        (
            r#"{"resourceLogs":[{"resource":{},"scopeLog":[{"logRecords":[{}]}]}]}"#,
            r#"'scopeLog' stands where "scopeLogs" is expected"#,
        ),
        (
            r#"{"resource_logs":[{"scopeLogs":[{"logrecords":[{}]}]}]}"#,
            r#"'logrecords' stands where "logRecords" is expected"#,
        ),
    ] {
        let error = otlp_json(&Limits::default(), json).unwrap_err().to_string();
        assert!(error.contains(text), "{json}: {error}");
    }
    let with_record = r#"{"x":1,"resourceLogs":[{"scopeLogs":[{"y":1,"logRecords":[{"z":1}]}]}]}"#;
    for (json, lines) in [
        ("{}", 0),
        (r#"{"resourceLogs":[]}"#, 0),
        (r#"{"resourceLogs":[{"resource":{"entityRefs":[]},"scopeLogs":[]}]}"#, 0),
        (with_record, 1),
    ] {
        assert_eq!(otlp_json(&Limits::default(), json).unwrap().lines, lines, "{json}");
    }
}

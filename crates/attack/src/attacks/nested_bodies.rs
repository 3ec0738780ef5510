//! Bodies and lines whose nesting determines the depth of a parser: JSON, OTLP values, lines for `|
//! json`.

use anyhow::Result;
use sandur_protobuf::Writer as _;

use super::Attack;
use crate::ground::Ground;

/// This attack.
pub static ATTACK: Attack =
    Attack { name: "nested-bodies", about: "deeply nested JSON, protobuf and stored lines", run };

fn run(ground: &Ground<'_>) -> Result<()> {
    let json_type = [("Content-Type", "application/json")];
    let protobuf_type = [("Content-Type", "application/x-protobuf")];
    for depth in ground.pick(vec![100, 100_000], vec![10, 100, 1_000, 10_000, 100_000, 1_000_000]) {
        for (open, close) in [("[", "]"), (r#"{"streams":["#, "]}"), (r#"{"a":"#, "}")] {
            let body = [open.repeat(depth), "1".to_owned(), close.repeat(depth)].concat();
            for path in ["/loki/api/v1/push", "/otlp/v1/logs"] {
                ground.ask("POST", path, &json_type, body.as_bytes());
            }
        }
        let value = [
            r#"{"arrayValue":{"values":["#.repeat(depth),
            r#"{"stringValue":"x"}"#.to_owned(),
            "]}}".repeat(depth),
        ]
        .concat();
        let time = ground.env.now_ns();
        let record = format!(r#"{{"timeUnixNano":"{time}","body":{value}}}"#);
        let otlp = format!(r#"{{"resourceLogs":[{{"scopeLogs":[{{"logRecords":[{record}]}}]}}]}}"#);
        ground.ask("POST", "/otlp/v1/logs", &json_type, otlp.as_bytes());
        if depth <= 20_000 {
            ground.ask("POST", "/otlp/v1/logs", &protobuf_type, &nested_protobuf(depth));
        }
    }
    stored_lines(ground)
}

/// Encodes an OTLP request of nested array values, from the inside out.
fn nested_protobuf(depth: usize) -> Vec<u8> {
    let mut value = Vec::new();
    value.text(1, "x");
    // body of a record, array value, its values: each a field of its own
    for field in std::iter::repeat_n([1, 5], depth).flatten() {
        let mut outer = Vec::new();
        outer.bytes(field, &value);
        value = outer;
    }
    value
}

/// Stores lines that parsers process at query time.
fn stored_lines(ground: &Ground<'_>) -> Result<()> {
    let lines = [
        "{\"a\":".repeat(10_000) + "1" + &"}".repeat(10_000),
        "[".repeat(100_000),
        "{\"a\":{\"b\":".repeat(5_000),
        "a=\"".to_owned() + &"\\\"".repeat(100_000),
        (0..20_000).map(|n| format!("k{n}=v ")).collect(),
        format!("{{{}\"z\":1}}", (0..10_000).map(|n| format!("\"k{n}\":{n},")).collect::<String>()),
    ];
    for line in lines {
        ground.store_lines("nested", &[line]);
    }
    for stage in ["json", "logfmt", "unpack", "json a=`a.a.a[0].b`", "pattern `<a>=<b>`", "decolorize"] {
        ground.form("/loki/api/v1/query_range", &[("query", &format!("{{job=\"nested\"}} | {stage}"))]);
    }
    for path in ["patterns", "detected_fields"] {
        ground.ask("GET", &format!("/loki/api/v1/{path}?query=%7Bjob%3D%22nested%22%7D"), &[], b"");
    }
    Ok(())
}

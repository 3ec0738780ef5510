//! Compares with the inputs that carbon 1.1.10 accepted, recorded in `../shared/conformance/graphite`.

#![allow(clippy::unwrap_used)] // tests fail that way

use std::ops::ControlFlow;
use std::path::Path;

use sandur_carbon::{FRAME_BYTES_MAX, PICKLE, PLAINTEXT, Point, Refusal, Sink};
use sandur_model::GraphiteName;
use serde_json::Value;

/// The time of the recording, in seconds since the epoch.
const NOW: i64 = 1_615_809_637;

#[derive(Default)]
struct Accepted(Vec<(String, String, f64, f64)>);

impl Sink for Accepted {
    fn point(&mut self, point: Point<'_>) -> ControlFlow<()> {
        let canonical = GraphiteName::parse(point.name).canonical();
        self.0.push((point.name.to_owned(), canonical, point.seconds, point.value));
        ControlFlow::Continue(())
    }

    fn refused(&mut self, _: Refusal, _: &[u8]) {}
}

fn number(value: &Value) -> f64 {
    match value.as_str() {
        Some(text) => text.parse().unwrap(),
        None => value.as_f64().unwrap(),
    }
}

fn input(case: &Value) -> Vec<u8> {
    match case["text"].as_str() {
        Some(text) => text.as_bytes().to_vec(),
        None => {
            let hex = case["hex"].as_str().unwrap().as_bytes();
            let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap();
            hex.chunks(2).map(byte).collect()
        }
    }
}

/// Feeds a connection in pieces. It ends at a message that is too long.
fn received(case: &Value, bytes: &[u8]) -> Vec<(String, String, f64, f64)> {
    let mut accepted = Accepted::default();
    let protocol = match case["kind"].as_str().unwrap() {
        "udp" => {
            let _ = (PLAINTEXT.read_alone)(bytes, NOW, &mut accepted);
            return accepted.0;
        }
        "pickle" => &PICKLE,
        _ => &PLAINTEXT,
    };
    let lengths: Vec<usize> = case["chunk_lengths"]
        .as_array()
        .map(|all| all.iter().map(|length| length.as_u64().unwrap() as usize).collect())
        .unwrap_or_else(|| vec![bytes.len()]);
    let (mut buffer, mut rest) = (Vec::new(), bytes);
    for length in lengths {
        let (piece, after) = rest.split_at(length.min(rest.len()));
        buffer.extend_from_slice(piece);
        rest = after;
        match protocol.framing.cut(&buffer, FRAME_BYTES_MAX) {
            Ok(cut) => {
                let _ = (protocol.read)(&buffer[..cut.whole], NOW, &mut accepted);
                buffer.drain(..cut.whole);
            }
            Err(endless) => {
                let _ = (protocol.read)(&buffer[..endless.whole], NOW, &mut accepted);
                break;
            }
        }
    }
    accepted.0
}

#[test]
fn recorded_inputs_are_accepted_as_by_carbon() {
    let places = ["../../../shared", "../../../../shared"];
    let paths = places.map(|place| {
        Path::new(env!("CARGO_MANIFEST_DIR")).join(place).join("conformance/graphite/carbon-line.jsonl")
    });
    let Some(text) = paths.iter().find_map(|path| std::fs::read_to_string(path).ok()) else {
        println!("SKIPPED: no conformance data (../shared/conformance/graphite/carbon-line.jsonl)");
        return;
    };
    let (mut cases, mut wrong) = (0, Vec::new());
    for line in text.lines() {
        let case: Value = serde_json::from_str(line).unwrap();
        let expected: Vec<(String, String, f64, f64)> = case["accepted"]
            .as_array()
            .unwrap()
            .iter()
            .map(|point| {
                let text = |field: &str| point[field].as_str().unwrap().to_owned();
                (text("metric"), text("stored_metric"), number(&point["timestamp"]), number(&point["value"]))
            })
            .collect();
        let mut found = received(&case, &input(&case));
        // Carbon closed the connection at its first error; here the messages after it are decoded.
        if case["disconnect"].as_bool() == Some(true) {
            found.truncate(expected.len());
        }
        cases += 1;
        if found != expected {
            wrong.push(format!("{}: {found:?} is not {expected:?}", case["id"]));
        }
    }
    assert!(wrong.is_empty(), "{} of {cases}:\n{}", wrong.len(), wrong.join("\n"));
    assert!(cases > 0);
}

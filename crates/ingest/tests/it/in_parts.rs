//! Goal: the parts of a body together hold each item of the body once, for any size of the parts.

#![allow(clippy::unwrap_used)] // a test may

use std::cell::Cell;
use std::rc::Rc;

use bytes::Bytes;
use sandur_ingest::{
    DecodedSamples, ImportOptions, Items, Memory, Push, PushHeaders, SamplePush, import, otlp_metrics,
    remote_write,
};
use sandur_model::Limits;

use crate::remote_write::{Endless, NOON_MS, V1, cache, label, sample, time_series};
use crate::wire::*;

type Decode = fn(SamplePush<'_>, Bytes, Rc<dyn Memory>) -> DecodedSamples;

fn decode_some(
    decode: Decode,
    headers: PushHeaders<'_>,
    body: &Bytes,
    (first, most): (u64, u64),
) -> (DecodedSamples, u64) {
    let (limits, cache, met) = (Limits::default(), cache(), Cell::new(0));
    let push = Push { tenant: &tenant(), limits: &limits, now_ns: NOON, headers };
    let items = Items { first, most, met: Some(&met) };
    let decoded = decode(SamplePush { push, series: &cache, items }, body.clone(), Rc::new(Endless));
    (decoded, met.get())
}

/// Samples, descriptions and what was refused, sorted.
fn said(decoded: &[DecodedSamples]) -> Vec<String> {
    let mut all = Vec::new();
    for DecodedSamples { batch, refused, .. } in decoded {
        for series in &batch.series {
            let samples = batch.samples_of(series);
            all.extend(samples.map(|(time, value)| format!("{} {time} {value}", series.labels)));
        }
        all.extend(batch.metadata.iter().map(|of| format!("{of:?}")));
        for (reason, samples, _) in refused.by_reason() {
            all.extend((0..samples).map(|_| reason.name().to_owned()));
        }
    }
    all.sort();
    all
}

fn same_in_parts(decode: Decode, headers: PushHeaders<'_>, body: &Bytes, items: u64) {
    let (whole, met) = decode_some(decode, headers, body, (0, u64::MAX));
    assert_eq!(met, items);
    for most in 1..=items + 1 {
        let firsts = (0..items).step_by(most as usize);
        let parts = firsts.map(|first| decode_some(decode, headers, body, (first, most)));
        let (parts, met): (Vec<_>, Vec<_>) = parts.unzip();
        assert!(met.iter().all(|met| *met == items), "all items are met");
        assert_eq!(said(&parts), said(std::slice::from_ref(&whole)), "{most} at a time");
    }
}

#[test]
fn series_of_remote_write_are_read_in_parts() {
    let series = |n: u64| {
        let name = label("__name__", format!("m{n}"));
        // Every third sample is too new.
        let time_ms = if n % 3 == 2 { NOON_MS + 1_000_000 } else { NOON_MS + n as i64 };
        time_series(&[name, sample(n as f64, time_ms)])
    };
    let about = message(3, &[number(1, 1), bytes(2, "m1"), bytes(4, "help")]);
    let body = snappy(&[(0..7).flat_map(series).collect(), about].concat());
    same_in_parts(|push, body, memory| remote_write(push, body, memory).unwrap(), V1, &body, 8);
}

#[test]
fn lines_of_a_text_are_read_in_parts() {
    let text = "# TYPE up gauge\nup{n=\"1\"} 1\nup{n=\"2\"} 2\nup{n= 3\nup{n=\"4\"} 4\n";
    let headers = PushHeaders { content_type: Some("text/plain"), content_encoding: None };
    let decode: Decode = |push, body, memory| {
        let options = ImportOptions { time_ms: Some(NOON_MS), ..ImportOptions::default() };
        import(push, &options, body, memory).unwrap()
    };
    same_in_parts(decode, headers, &Bytes::from_static(text.as_bytes()), 5);
}

#[test]
fn points_of_otlp_are_read_in_parts() {
    let point = |n: u32| {
        let attribute = format!(r#"{{"key":"n","value":{{"stringValue":"{n}"}}}}"#);
        format!(r#"{{"timeUnixNano":"{NOON}","asInt":"{n}","attributes":[{attribute}]}}"#)
    };
    let points = |range: std::ops::Range<u32>| range.map(point).collect::<Vec<_>>().join(",");
    let gauge = format!(r#"{{"name":"g","gauge":{{"dataPoints":[{}]}}}}"#, points(0..4));
    // A sum without a temporality is refused.
    let refused = format!(r#"{{"name":"r","sum":{{"dataPoints":[{}]}}}}"#, points(0..2));
    let sum =
        format!(r#"{{"name":"s","sum":{{"aggregationTemporality":2,"dataPoints":[{}]}}}}"#, points(4..6));
    let metrics = [gauge, refused, sum].join(",");
    let body = format!(r#"{{"resourceMetrics":[{{"scopeMetrics":[{{"metrics":[{metrics}]}}]}}]}}"#);
    let decode: Decode = |push, body, memory| otlp_metrics(push, body, memory).unwrap();
    // Four and two points, two descriptions, and a metric that is refused.
    same_in_parts(decode, JSON, &Bytes::from(body), 9);
}

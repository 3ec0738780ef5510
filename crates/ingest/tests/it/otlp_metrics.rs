//! OTLP metrics through the crate's interface, mapped as by Prometheus.

#![allow(clippy::unwrap_used)] // a test may

use std::rc::Rc;

use sandur_ingest::{DecodedSamples, Error, Push, PushHeaders, SamplePush, otlp_metrics};
use sandur_model::{Limits, MetricKind, MetricLimits, STALE_BITS, TranslationStrategy};

use crate::remote_write::{Endless, NOON_MS, cache};
use crate::wire::*;

fn decode(metrics: MetricLimits, headers: PushHeaders<'_>, body: &[u8]) -> Result<DecodedSamples, Error> {
    let limits = Limits { metrics, ..Limits::default() };
    let push = Push { tenant: &tenant(), limits: &limits, now_ns: NOON, headers };
    otlp_metrics(SamplePush::new(push, &cache()), bytes::Bytes::copy_from_slice(body), Rc::new(Endless))
}

fn json(metrics: MetricLimits, metric: &str) -> DecodedSamples {
    let resource = r#"{"attributes":[
        {"key":"service.name","value":{"stringValue":"shop"}},
        {"key":"service.namespace","value":{"stringValue":"eu"}},
        {"key":"service.instance.id","value":{"stringValue":"i-1"}},
        {"key":"host.name","value":{"stringValue":"h"}}]}"#;
    let scope = r#"{"name":"lib","version":"1"}"#;
    let scopes = format!(r#"[{{"scope":{scope},"metrics":[{metric}]}}]"#);
    let body = format!(r#"{{"resourceMetrics":[{{"resource":{resource},"scopeMetrics":{scopes}}}]}}"#);
    decode(metrics, JSON, body.as_bytes()).unwrap()
}

/// Every sample as `series value`, sorted.
fn lines(decoded: &DecodedSamples) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for series in &decoded.batch.series {
        let labels = series.labels.iter().filter(|(name, _)| *name != "__name__");
        let labels: Vec<String> = labels.map(|(name, value)| format!("{name}={value}")).collect();
        let name = series.labels.get("__name__").unwrap();
        for (time, value) in decoded.batch.samples_of(series) {
            assert_eq!(time, NOON_MS);
            lines.push(format!("{name}{{{}}} {value}", labels.join(",")));
        }
    }
    lines.sort();
    lines
}

fn point(rest: &str) -> String {
    format!(r#"{{"timeUnixNano":"{NOON}","attributes":[{{"key":"a.b","value":{{"intValue":"7"}}}}],{rest}}}"#)
}

const TARGET: &str = "target_info{host_name=h,instance=i-1,job=eu/shop} 1";

#[test]
fn gauges_and_sums_become_series_of_their_resource() {
    let gauge = format!(
        r#"{{"name":"cpu.load","unit":"1","gauge":{{"dataPoints":[{}]}}}}"#,
        point(r#""asDouble":0.5"#)
    );
    let decoded = json(MetricLimits::default(), &gauge);
    assert_eq!(lines(&decoded), ["cpu_load_ratio{a_b=7,instance=i-1,job=eu/shop} 0.5", TARGET]);
    let sum = format!(
        r#"{{"name":"io","unit":"By","description":"Bytes.","sum":{{
            "aggregationTemporality":2,"isMonotonic":true,
            "dataPoints":[{}]}}}}"#,
        point(r#""asInt":"-3","startTimeUnixNano":"5000000""#)
    );
    let decoded = json(MetricLimits::default(), &sum);
    assert_eq!(lines(&decoded)[0], "io_bytes_total{a_b=7,instance=i-1,job=eu/shop} -3");
    assert_eq!(decoded.batch.starts, [5, 0]);
    let metadata = &decoded.batch.metadata[0];
    assert_eq!((&*metadata.family, metadata.kind), ("io_bytes_total", MetricKind::Counter));
    assert_eq!((&*metadata.unit, &*metadata.help), ("bytes", "Bytes."));
}

#[test]
fn names_and_promoted_labels_follow_the_limits() {
    let metrics = MetricLimits {
        otlp_translation_strategy: TranslationStrategy::NoTranslation,
        promote_otel_resource_attributes: vec!["host.name".to_owned()],
        promote_otel_scope_metadata: true,
        otel_keep_identifying_resource_attributes: true,
        ..MetricLimits::default()
    };
    let gauge = format!(
        r#"{{"name":"cpu.load","unit":"1","gauge":{{"dataPoints":[{}]}}}}"#,
        point(r#""asDouble":1"#)
    );
    let lines = lines(&json(metrics, &gauge));
    assert_eq!(
        lines[0],
        "cpu.load{a.b=7,host.name=h,instance=i-1,job=eu/shop,otel_scope_name=lib,otel_scope_version=1} 1"
    );
    assert!(lines[1].contains("service.instance.id=i-1"), "{}", lines[1]);
    let ignoring = MetricLimits {
        promote_all_otel_resource_attributes: true,
        ignore_otel_resource_attributes: vec!["host.name".to_owned()],
        ..MetricLimits::default()
    };
    let lines = self::lines(&json(ignoring, &gauge));
    assert!(lines[0].contains("service_name=shop") && !lines[0].contains("host_name"), "{}", lines[0]);
}

#[test]
fn histograms_become_buckets_or_native_ones() {
    let exemplar =
        format!(r#"{{"timeUnixNano":"{NOON}","asDouble":0.7,"traceId":"0af7651916cd43dd8448eb211c80319c"}}"#);
    let metric = format!(
        r#"{{"name":"d","unit":"s","histogram":{{"aggregationTemporality":2,"dataPoints":[{}]}}}}"#,
        point(&format!(
            r#""count":"6","sum":9.5,"bucketCounts":["1","2","3"],"explicitBounds":[0.5,1],
               "exemplars":[{exemplar}]"#
        ))
    );
    let decoded = json(MetricLimits::default(), &metric);
    let of = |rest: &str| rest.replace("@", "a_b=7,instance=i-1,job=eu/shop");
    assert_eq!(
        lines(&decoded),
        [
            of("d_seconds_bucket{@,le=+Inf} 6"),
            of("d_seconds_bucket{@,le=0.5} 1"),
            of("d_seconds_bucket{@,le=1} 3"),
            of("d_seconds_count{@} 6"),
            of("d_seconds_sum{@} 9.5"),
            TARGET.to_owned(),
        ]
    );
    let [exemplar] = &decoded.batch.exemplars[..] else { panic!("one exemplar was sent") };
    let bucket = &decoded.batch.series[exemplar.series as usize].labels;
    assert_eq!((bucket.get("le"), exemplar.exemplar.value), (Some("1"), 0.7));
    assert_eq!(exemplar.exemplar.labels.get("trace_id"), Some("0af7651916cd43dd8448eb211c80319c"));
    let native =
        json(MetricLimits { otel_convert_histograms_to_nhcb: true, ..MetricLimits::default() }, &metric);
    let histogram = &native.batch.histograms[0].histogram;
    assert_eq!((histogram.schema, &histogram.bounds[..], histogram.count), (-53, &[0.5, 1.0][..], 6.0));
    assert_eq!(histogram.positive.counts, [1.0, 2.0, 3.0]);
}

#[test]
fn exponential_histograms_become_native_ones() {
    let metric = |scale: i32| {
        format!(
            r#"{{"name":"e","exponentialHistogram":{{"aggregationTemporality":2,"dataPoints":[{}]}}}}"#,
            point(&format!(
                r#""count":"7","sum":9.5,"scale":{scale},"zeroCount":"1",
                   "positive":{{"offset":-2,"bucketCounts":["1","0","2","3"]}}"#
            ))
        )
    };
    let decoded = json(MetricLimits::default(), &metric(3));
    let histogram = &decoded.batch.histograms[0].histogram;
    assert_eq!((histogram.schema, &histogram.positive.indices[..]), (3, &[-1, 1, 2][..]));
    assert_eq!((histogram.zero_count, &histogram.positive.counts[..]), (1.0, &[1.0, 2.0, 3.0][..]));
    let finer = json(MetricLimits::default(), &metric(9));
    let histogram = &finer.batch.histograms[0].histogram;
    assert_eq!((histogram.schema, &histogram.positive.indices[..]), (8, &[0, 1][..]));
    assert_eq!(histogram.positive.counts, [1.0, 5.0]);
    let coarse = json(MetricLimits::default(), &metric(-5));
    assert!(coarse.refused.text().unwrap().contains("Scale must be >= -4, was -5"));
}

#[test]
fn summaries_and_stale_markers_are_stored() {
    let metric = format!(
        r#"{{"name":"s","summary":{{"dataPoints":[{}]}}}}"#,
        point(r#""count":"2","sum":3,"quantileValues":[{"quantile":0.99,"value":2.5}]"#)
    );
    let decoded = json(MetricLimits::default(), &metric);
    let expected =
        ["s_count{", "s_sum{", "s{a_b=7,instance=i-1,job=eu/shop,quantile=0.99} 2.5", "target_info{"];
    for (line, expected) in lines(&decoded).iter().zip(expected) {
        assert!(line.starts_with(expected), "{line}");
    }
    let ended = format!(r#"{{"name":"g","gauge":{{"dataPoints":[{}]}}}}"#, point(r#""flags":1"#));
    assert_eq!(json(MetricLimits::default(), &ended).batch.values[0].to_bits(), STALE_BITS);
}

#[test]
fn delta_temporality_is_refused_unless_enabled() {
    let sum = format!(
        r#"{{"name":"io","sum":{{"aggregationTemporality":1,"isMonotonic":true,"dataPoints":[{}]}}}}"#,
        point(r#""asInt":"3""#)
    );
    let decoded = json(MetricLimits::default(), &sum);
    let message = decoded.refused.text().unwrap();
    assert!(message.contains("invalid temporality and type combination for metric \"io\""), "{message}");
    assert_eq!(decoded.written.samples, 0);
    let kept = json(MetricLimits { otel_native_delta_ingestion: true, ..MetricLimits::default() }, &sum);
    assert_eq!((kept.written.samples, kept.refused.text()), (2, None));
}

/// An attribute of a resource is part of each of its series, so a small body can expand without bound.
#[test]
fn labels_repeated_in_many_series_are_bounded() {
    let attribute = message(1, &[bytes(1, "service.name"), message(2, &[bytes(1, vec![b'x'; 60 << 10])])]);
    let resource = message(1, &[attribute]);
    let points: Vec<u8> = (0..50_000).flat_map(|_| message(1, &[fixed64(3, NOON as u64)])).collect();
    let metric = message(2, &[bytes(1, "m"), message(5, &[points])]);
    let body = message(1, &[resource, message(2, &[metric])]);
    let metrics = MetricLimits { max_label_value_length: 0, ..MetricLimits::default() };
    let error = decode(metrics, PROTOBUF_OTLP, &body).unwrap_err();
    assert!(error.to_string().contains("bytes of labels"), "{error}");
}

const PROTOBUF_OTLP: PushHeaders<'static> =
    PushHeaders { content_type: Some("application/x-protobuf"), content_encoding: None };

#[test]
fn truncated_requests_never_panic() {
    let point = message(1, &[fixed64(3, NOON as u64), fixed64(4, 1), message(7, &[bytes(1, "k")])]);
    let metric = message(2, &[bytes(1, "m"), message(5, &[point])]);
    let body = message(1, &[message(1, &[]), message(2, &[metric])]);
    for end in 0..body.len() {
        let _ = decode(MetricLimits::default(), PROTOBUF_OTLP, &body[..end]);
    }
    assert_eq!(decode(MetricLimits::default(), PROTOBUF_OTLP, &body).unwrap().written.samples, 1);
}

#[test]
fn metrics_without_points_for_misspelt_members_were_accepted_and_stored_nowhere() {
    let of_metric =
        |metric: &str| format!(r#"{{"resourceMetrics":[{{"scopeMetrics":[{{"metrics":[{metric}]}}]}}]}}"#);
    for (body, message) in [
        (r#"{"resourceLogs":[{}]}"#.to_owned(), r#""resourceMetrics" is expected"#),
        (
            of_metric(r#"{"name":"a","guage":{"dataPoints":[]}}"#),
            r#"'guage' stands where "gauge" is expected"#,
        ),
        (of_metric(r#"{"name":"a","sum":{"datapoints":[{}]}}"#), r#""dataPoints" is expected"#),
    ] {
        let error = decode(MetricLimits::default(), JSON, body.as_bytes()).unwrap_err().to_string();
        assert!(error.contains(message), "{body}: {error}");
    }
    for body in ["{}".to_owned(), of_metric(""), of_metric(r#"{"name":"a","gauge":{"dataPoints":[]}}"#)] {
        assert!(decode(MetricLimits::default(), JSON, body.as_bytes()).unwrap().batch.is_empty(), "{body}");
    }
}

//! Texts of samples through the crate's interface.

#![allow(clippy::unwrap_used)] // a test may

use std::rc::Rc;

use sandur_ingest::{
    DecodedSamples, ImportOptions, Push, PushHeaders, Reason, SamplePush, SeriesCache, import,
};
use sandur_model::{Limits, MetricKind};

use crate::remote_write::{Endless, NOON_MS, cache, stored};
use crate::wire::*;

fn imported(cache: &SeriesCache, options: &ImportOptions, content_type: &str, text: &str) -> DecodedSamples {
    let headers = PushHeaders { content_type: Some(content_type), content_encoding: None };
    let push = Push { tenant: &tenant(), limits: &Limits::default(), now_ns: NOON, headers };
    let body = bytes::Bytes::copy_from_slice(text.as_bytes());
    import(SamplePush::new(push, cache), options, body, Rc::new(Endless)).unwrap()
}

#[test]
fn samples_without_a_time_get_the_time_of_the_request() {
    let text = "# HELP up Is it.\n# TYPE up gauge\nup{a=\"b\"} 1\nup{a=\"b\"} 2 1795176000001\n";
    let cache = cache();
    for options in [ImportOptions::default(), ImportOptions { time_ms: Some(5), ..ImportOptions::default() }]
    {
        let decoded = imported(&cache, &options, "text/plain", text);
        let first = options.time_ms.unwrap_or(NOON_MS);
        let series = r#"{__name__="up", a="b"}"#.to_owned();
        assert_eq!(
            stored(&decoded),
            [(series.clone(), vec![(first, 1f64.to_bits())]), (series, vec![(NOON_MS + 1, 2f64.to_bits())]),]
        );
        assert_eq!(decoded.batch.metadata[0].kind, MetricKind::Gauge);
        assert_eq!(&*decoded.batch.metadata[0].help, "Is it.");
    }
}

#[test]
fn extra_labels_replace_labels_of_the_text() {
    let extra_labels = vec![("a".to_owned(), "x".to_owned()), ("job".to_owned(), "j".to_owned())];
    let options = ImportOptions { extra_labels, ..ImportOptions::default() };
    let cache = cache();
    for (options, expected) in [
        (&ImportOptions::default(), r#"{__name__="up", a="b"}"#),
        (&options, r#"{__name__="up", a="x", job="j"}"#),
        (&ImportOptions::default(), r#"{__name__="up", a="b"}"#),
    ] {
        assert_eq!(stored(&imported(&cache, options, "", "up{a=\"b\"} 1"))[0].0, expected);
    }
}

#[test]
fn bad_lines_are_refused_and_the_others_kept() {
    let text = "up 1\nup one\nup{a} 1\nup{a=\"1\",a=\"2\"} 1\n{a=\"1\"} 1\ndown 0";
    let decoded = imported(&cache(), &ImportOptions::default(), "", text);
    assert_eq!((decoded.written.samples, decoded.refused.lines()), (2, 4));
    let message = decoded.refused.text().unwrap();
    for text in ["line 2: expected a value", "expected \"=\" after", "duplicate label", "no metric name"] {
        assert!(message.contains(text), "{message} should contain {text}");
    }
}

#[test]
fn numbers_of_refused_lines_are_returned_on_request() {
    let text = "up 1\n\n# HELP up x\nup one\nup two\nup{a} 1\nup 5 99999999999999\ndown 0";
    let options = ImportOptions { name_lines: true, ..ImportOptions::default() };
    let decoded = imported(&cache(), &options, "", text);
    let runs: Vec<_> = decoded.refused.runs().unwrap().iter().map(|r| (r.first, r.count, r.reason)).collect();
    assert_eq!(
        runs,
        [(3, 2, Reason::InvalidSample), (5, 1, Reason::InvalidLabels), (6, 1, Reason::TimestampOutOfRange)]
    );
    let message = decoded.refused.text().unwrap();
    assert!(message.contains("expected a value: 'up one'") && !message.contains("line 4"), "{message}");
    let not_asked = imported(&cache(), &ImportOptions::default(), "", text);
    assert_eq!((not_asked.refused.runs().unwrap().len(), not_asked.refused.lines()), (0, 4));
}

#[test]
fn lines_of_series_beyond_the_limit_are_returned() {
    let options = ImportOptions { name_lines: true, ..ImportOptions::default() };
    let mut decoded = imported(&cache(), &options, "", "a 1\nb x\n# c\nc 1 1\nc 1 2\nd 1");
    assert_eq!(decoded.batch.series.len(), 4);
    decoded.refuse_series(&[1, 2], 2);
    let runs: Vec<_> = decoded.refused.runs().unwrap().iter().map(|r| (r.first, r.count, r.reason)).collect();
    assert_eq!(runs, [(1, 1, Reason::InvalidSample), (3, 2, Reason::TooManySeries)]);
}

#[test]
fn open_metrics_has_exemplars_and_times_in_seconds() {
    let text = "# TYPE r counter\nr_total 5 1795176000.5 # {trace_id=\"x\"} 0.5\n# EOF\n";
    let decoded =
        imported(&cache(), &ImportOptions::default(), "application/openmetrics-text; version=1.0.0", text);
    assert_eq!(decoded.batch.timestamps, [NOON_MS + 500]);
    assert_eq!(decoded.batch.exemplars[0].exemplar.timestamp, NOON_MS + 500);
    assert_eq!(decoded.batch.exemplars[0].exemplar.labels.get("trace_id"), Some("x"));
}

#[test]
fn contradictions_in_a_text_for_a_gateway_were_accepted() {
    let extra_labels = vec![("job".to_owned(), "j".to_owned())];
    let gateway = ImportOptions { extra_labels, is_for_gateway: true, ..ImportOptions::default() };
    for (text, message) in [
        ("m{a=\"1\"} 1\nm 1\nm{a=\"1\"} 1\n", "was collected before with the same name and label values"),
        ("m{job=\"x\"} 1\nm{job=\"y\"} 1\n", "was collected before with the same name and label values"),
        ("# TYPE m gauge\nm 1\n# TYPE m gauge\n", "second TYPE line for metric name \"m\""),
        ("m 1\n# TYPE m gauge\n", "second TYPE line for metric name \"m\", or TYPE reported after samples"),
        ("# HELP m a\nm 1\n# HELP m a\n", "second HELP line for metric name \"m\""),
        ("m 1 5\n", "pushed metrics must not have timestamps"),
    ] {
        let decoded = imported(&cache(), &gateway, "", text);
        let refused = decoded.refused.text().unwrap_or_default();
        assert!(refused.contains(message), "{text}: {refused}");
        assert!(imported(&cache(), &ImportOptions::default(), "", text).refused.is_empty(), "{text}");
    }
    let text = "# TYPE h histogram\n# HELP h H.\nh_bucket{le=\"1\"} 1\nh_bucket{le=\"+Inf\"} 1\nh_sum 1\n\
                h_count 1\n# HELP m M.\nm{job=\"x\"} 1\nm{a=\"1\"} 1\n";
    let decoded = imported(&cache(), &gateway, "", text);
    assert_eq!((decoded.refused.text(), decoded.written.samples), (None, 6));
}

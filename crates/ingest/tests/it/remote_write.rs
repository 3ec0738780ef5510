//! Remote write through the crate's interface: the stored samples, the refusals and their messages.

use std::rc::Rc;

use bytes::Bytes;
use sandur_ingest::{
    DecodedSamples, Error, Memory, Push, PushHeaders, SamplePush, SeriesCache, remote_write,
};
use sandur_model::{Limits, MILLISECOND_NS, MetricLimits};

use crate::remote_write_2::V2;
use crate::wire::*;

pub const NOON_MS: i64 = NOON / MILLISECOND_NS;

pub const V1: PushHeaders<'static> =
    PushHeaders { content_type: Some("application/x-protobuf"), content_encoding: Some("snappy") };

pub struct Endless;

impl Memory for Endless {
    fn take(&self, _: u64) -> bool {
        true
    }

    fn give(&self, _: u64) {}
}

pub fn cache() -> SeriesCache {
    SeriesCache::new(1 << 20, 7)
}

pub fn write_to(
    cache: &SeriesCache,
    limits: &Limits,
    headers: PushHeaders<'_>,
    plain: &[u8],
) -> Result<DecodedSamples, Error> {
    let push = Push { tenant: &tenant(), limits, now_ns: NOON, headers };
    remote_write(SamplePush::new(push, cache), snappy(plain), Rc::new(Endless))
}

pub fn label(name: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Vec<u8> {
    message(1, &[bytes(1, name), bytes(2, value)])
}

pub fn sample(value: f64, time_ms: i64) -> Vec<u8> {
    message(2, &[fixed64(1, value.to_bits()), number(2, time_ms as u64)])
}

pub fn time_series(fields: &[Vec<u8>]) -> Vec<u8> {
    message(1, fields)
}

/// Series in PromQL's syntax with their samples, values as bits.
pub fn stored(decoded: &DecodedSamples) -> Vec<(String, Vec<(i64, u64)>)> {
    let series = decoded.batch.series.iter().map(|series| {
        let samples = decoded.batch.samples_of(series).map(|(time, value)| (time, value.to_bits()));
        (series.labels.to_string(), samples.collect())
    });
    series.collect()
}

#[test]
fn series_and_samples_are_stored_as_they_are_sent() {
    let stale = f64::from_bits(0x7ff0_0000_0000_0002);
    let request = [
        time_series(&[
            label("__name__", "up"),
            label("job", "api"),
            sample(1.0, NOON_MS),
            sample(stale, NOON_MS + 15_000),
        ]),
        time_series(&[sample(-0.0, NOON_MS), label("job", "b"), label("__name__", "up"), label("empty", "")]),
    ]
    .concat();
    let cache = cache();
    for turn in ["new series", "known series"] {
        let decoded = write_to(&cache, &Limits::default(), V1, &request).unwrap();
        let first = vec![(NOON_MS, 1f64.to_bits()), (NOON_MS + 15_000, 0x7ff0_0000_0000_0002)];
        let expected = vec![
            (r#"{__name__="up", job="api"}"#.to_owned(), first),
            (r#"{__name__="up", job="b"}"#.to_owned(), vec![(NOON_MS, (-0f64).to_bits())]),
        ];
        assert_eq!(stored(&decoded), expected, "{turn}");
        assert!(decoded.refused.is_empty(), "{turn}");
        assert_eq!(decoded.written.samples, 3);
        for series in &decoded.batch.series {
            assert_eq!(series.id, series.labels.stream_id());
        }
    }
}

#[test]
fn series_that_break_a_limit_are_named_and_the_others_stored() {
    let metrics = MetricLimits {
        max_label_names_per_series: 3,
        max_label_name_length: 8,
        max_label_value_length: 6,
        out_of_order_time_window: 3_600 * sandur_model::SECOND_NS,
        ..MetricLimits::default()
    };
    let limits = Limits { metrics, ..Limits::default() };
    let named = |fields: &[Vec<u8>]| {
        time_series(&[vec![label("__name__", "m")], fields.to_vec(), vec![sample(1.0, NOON_MS)]].concat())
    };
    let cases = [
        (named(&[label("a", "1"), label("b", "1"), label("c", "1")]), "err-mimir-max-label-names-per-series"),
        (named(&[label("too_long_a_name", "1")]), "err-mimir-label-name-too-long"),
        (named(&[label("a", "too long a value")]), "label value length of 16 exceeds the limit of 6"),
        (named(&[label("", "1")]), "err-mimir-label-invalid"),
        (named(&[label("a", b"\xff")]), "err-mimir-label-value-invalid"),
        (named(&[label("a", "1"), label("a", "2")]), "err-mimir-duplicate-label-names"),
        (time_series(&[label("a", "1"), sample(1.0, NOON_MS)]), "err-mimir-missing-metric-name"),
        (time_series(&[sample(1.0, NOON_MS)]), "err-mimir-missing-metric-name"),
        (time_series(&[label("__name__", "m"), sample(1.0, NOON_MS + 601_000)]), "out of bounds"),
        (time_series(&[label("__name__", "m"), sample(1.0, NOON_MS - 3_601_000)]), "too old sample"),
        (
            time_series(&[label("__name__", "m"), sample(1.0, i64::MAX)]),
            "the years 1678 to 2261 can be stored",
        ),
        (
            time_series(&[label("__name__", "m"), sample(1.0, i64::MIN)]),
            "the years 1678 to 2261 can be stored",
        ),
    ];
    let good = time_series(&[label("__name__", "good"), sample(1.0, NOON_MS)]);
    let cache = cache();
    for (bad, text) in cases {
        for _ in ["new", "known"] {
            let decoded = write_to(&cache, &limits, V1, &[bad.clone(), good.clone()].concat()).unwrap();
            let message = decoded.refused.text().unwrap();
            assert!(message.contains(text), "{message} should contain {text}");
            assert_eq!((decoded.refused.lines(), decoded.written.samples), (1, 1), "{text}");
            assert_eq!(decoded.batch.series[0].labels.to_string(), r#"{__name__="good"}"#);
        }
    }
}

#[test]
fn times_that_cannot_be_stored_were_refused_by_limits_that_are_not_set() {
    let metrics =
        MetricLimits { out_of_order_time_window: 0, creation_grace_period: 0, ..MetricLimits::default() };
    let limits = Limits { metrics, ..Limits::default() };
    let decode = |time_ms| {
        let body = time_series(&[label("__name__", "m"), sample(1.0, time_ms)]);
        write_to(&cache(), &limits, V1, &body).unwrap()
    };
    let (year_1677, year_9999) = (-9_246_096_000_000, 253_402_300_799_000);
    for time_ms in [year_1677, year_9999] {
        assert_eq!(
            decode(time_ms).refused.text().unwrap(),
            format!(
                "out of bounds: received a sample whose timestamp cannot be stored, timestamp: {time_ms} \
                 series: 'm'. Timestamps are milliseconds, and the years 1678 to 2261 can be stored"
            )
        );
    }
    for time_ms in [-9_200_000_000_000, 0, 9_200_000_000_000] {
        assert_eq!(decode(time_ms).written.samples, 1, "{time_ms}");
    }
}

#[test]
fn a_body_of_the_other_version_was_accepted_and_stored_nowhere() {
    let first = time_series(&[label("__name__", "m"), sample(1.0, NOON_MS)]);
    let refused = write_to(&cache(), &Limits::default(), V2, &first).unwrap_err().to_string();
    assert!(refused.contains("of remote write 1.0: send the content type with proto="), "{refused}");
    let second = [bytes(4, ""), bytes(4, "__name__"), message(5, &[bytes(1, [0, 0])])].concat();
    let refused = write_to(&cache(), &Limits::default(), V1, &second).unwrap_err().to_string();
    assert!(refused.contains("proto=io.prometheus.write.v2.Request"), "{refused}");
    for version in [V1, V2] {
        assert!(write_to(&cache(), &Limits::default(), version, b"").unwrap().batch.is_empty());
    }
}

#[test]
fn other_encodings_and_types_are_refused() {
    let body = time_series(&[label("__name__", "m"), sample(1.0, NOON_MS)]);
    for encoding in ["gzip", "zstd", "deflate"] {
        let headers = PushHeaders { content_encoding: Some(encoding), ..V1 };
        let error = write_to(&cache(), &Limits::default(), headers, &body).unwrap_err();
        assert!(matches!(error, Error::ContentEncoding { .. }), "{error}");
    }
    for kind in
        ["application/json", "application/x-protobuf;proto=io.prometheus.write.v3.Request", "text/plain"]
    {
        let headers = PushHeaders { content_type: Some(kind), ..V1 };
        let error = write_to(&cache(), &Limits::default(), headers, &body).unwrap_err();
        assert!(matches!(error, Error::ContentType { .. }), "{error}");
    }
    for kind in [None, Some("application/x-protobuf; proto=prometheus.WriteRequest; charset=utf-8")] {
        let headers = PushHeaders { content_type: kind, content_encoding: None };
        assert_eq!(write_to(&cache(), &Limits::default(), headers, &body).unwrap().written.samples, 1);
    }
}

#[test]
fn truncated_requests_store_nothing_and_never_panic() {
    let plain = time_series(&[label("__name__", "m"), label("a", "b"), sample(1.0, NOON_MS)]);
    for end in 1..plain.len() {
        assert!(write_to(&cache(), &Limits::default(), V1, &plain[..end]).is_err(), "{end}");
    }
    let block = snappy(&plain);
    let limits = Limits::default();
    for end in 0..block.len() {
        let push = Push { tenant: &tenant(), limits: &limits, now_ns: NOON, headers: V1 };
        let body: Bytes = block.slice(..end);
        let cache = cache();
        assert!(remote_write(SamplePush::new(push, &cache), body, Rc::new(Endless)).is_err());
    }
}

#[test]
fn series_beyond_the_limit_are_refused_with_mimirs_message() {
    let plain: Vec<u8> = ["a", "b", "c"]
        .iter()
        .flat_map(|name| {
            time_series(&[label("__name__", name), sample(1.0, NOON_MS), sample(2.0, NOON_MS + 1)])
        })
        .collect();
    let mut decoded = write_to(&cache(), &Limits::default(), V1, &plain).unwrap();
    decoded.refuse_series(&[], 1);
    assert_eq!((decoded.written.samples, decoded.refused.text()), (6, None));
    decoded.refuse_series(&[1, 2], 1);
    assert_eq!((decoded.written.samples, decoded.refused.lines()), (2, 4));
    let text = decoded.refused.text().unwrap();
    let words = "2 errors like: per-user series limit of 1 exceeded (err-mimir-max-series-per-user)";
    assert!(text.starts_with(words) && text.ends_with("series: '{__name__=\"b\"}'"), "{text}");
    assert_eq!(decoded.batch.series.len(), 1);
    decoded.refuse_series(&[0], 0);
    assert_eq!(decoded.written.items(), 0);
}

//! Points of delta temporality through the crate's interface: their totals are stored.

#![allow(clippy::unwrap_used)] // a test may

use std::rc::Rc;
use std::time::Duration;

use sandur_ingest::{
    Added, DELTA_STALE_AFTER, DecodedSamples, DeltaStreams, Push, SamplePush, Written, otlp_metrics,
};
use sandur_memory::MemoryBudget;
use sandur_model::{Limits, MetricKind, MetricLimits, STALE_BITS};

use crate::remote_write::{Endless, NOON_MS, cache};
use crate::wire::*;

/// The pushes of one tenant, with a clock.
struct Site {
    streams: DeltaStreams,
    metrics: MetricLimits,
    now: Duration,
}

/// A batch with totals that is not stored yet.
struct Pending {
    decoded: DecodedSamples,
    added: Added,
}

impl Site {
    fn new() -> Self {
        let metrics = MetricLimits { otlp_delta_to_cumulative: true, ..MetricLimits::default() };
        let streams = DeltaStreams::new(MemoryBudget::root("deltas", 1 << 20));
        Self { streams, metrics, now: Duration::ZERO }
    }

    fn decode(&self, metric: &str) -> DecodedSamples {
        let body = format!(r#"{{"resourceMetrics":[{{"scopeMetrics":[{{"metrics":[{metric}]}}]}}]}}"#);
        let limits = Limits { metrics: self.metrics.clone(), ..Limits::default() };
        let push = Push { tenant: &tenant(), limits: &limits, now_ns: NOON, headers: JSON };
        otlp_metrics(SamplePush::new(push, &cache()), body.into(), Rc::new(Endless)).unwrap()
    }

    fn add_up(&self, metric: &str) -> Pending {
        let mut decoded = self.decode(metric);
        let place = self.streams.queue(&decoded);
        let added = self.streams.add_up(place, &self.metrics, self.now, &mut decoded).unwrap();
        Pending { decoded, added }
    }

    /// Pushes a metric and returns the stored values.
    fn push(&self, metric: &str) -> Vec<f64> {
        self.add_up(metric).stored()
    }
}

impl Pending {
    fn values(&self) -> Vec<f64> {
        self.decoded.batch.values.clone()
    }

    fn stored(mut self) -> Vec<f64> {
        self.added.storing();
        self.added.stored();
        self.decoded.batch.values
    }

    fn reasons(&self) -> Vec<(&'static str, u64)> {
        self.decoded.refused.by_reason().map(|(reason, samples, _)| (reason.name(), samples)).collect()
    }
}

/// A sum with points of (seconds after noon, value).
fn sum(points: &[(i64, f64)]) -> String {
    let points = points.iter().map(|(second, value)| {
        let time = NOON + second * 1_000_000_000;
        let start = time - 10_000_000_000;
        format!(r#"{{"startTimeUnixNano":"{start}","timeUnixNano":"{time}","asDouble":{value}}}"#)
    });
    let points: Vec<String> = points.collect();
    let head = r#""name":"io","sum":{"aggregationTemporality":1,"isMonotonic":true"#;
    format!(r#"{{{head},"dataPoints":[{}]}}}}"#, points.join(","))
}

fn histogram(second: i64, bounds: &str, counts: &str) -> String {
    let time = NOON + second * 1_000_000_000;
    let start = time - 10_000_000_000;
    format!(
        r#"{{"name":"d","histogram":{{"aggregationTemporality":1,"dataPoints":[{{
            "startTimeUnixNano":"{start}","timeUnixNano":"{time}","count":"3","sum":1.5,
            "bucketCounts":{counts},"explicitBounds":{bounds}}}]}}}}"#
    )
}

#[test]
fn sums_add_up_from_the_start_of_the_first_point() {
    let site = Site::new();
    let first = site.add_up(&sum(&[(0, 3.0)]));
    assert_eq!(first.decoded.batch.metadata[0].kind, MetricKind::Counter);
    assert_eq!(first.decoded.batch.series[0].labels.get("__name__"), Some("io_total"));
    assert_eq!(first.stored(), [3.0]);
    let next = site.add_up(&sum(&[(10, 4.0), (20, 5.0)]));
    assert_eq!(next.decoded.batch.starts, [NOON_MS - 10_000; 2]);
    assert_eq!(next.decoded.batch.timestamps, [NOON_MS + 10_000, NOON_MS + 20_000]);
    assert_eq!(next.stored(), [7.0, 12.0]);
    let integers = sum(&[(30, 1.0)]).replace(r#""asDouble":1"#, r#""asInt":"1""#);
    assert_eq!(site.push(&integers), [13.0]);
    assert_eq!(site.streams.series(), 1);
}

#[test]
fn a_batch_that_is_not_stored_leaves_no_trace() {
    let site = Site::new();
    site.push(&sum(&[(0, 3.0)]));
    let mut refused = site.add_up(&sum(&[(10, 4.0)]));
    assert_eq!(refused.values(), [7.0]);
    refused.added.storing();
    refused.added.not_stored();
    drop(site.add_up(&sum(&[(10, 4.0)])));
    assert_eq!(site.push(&sum(&[(10, 4.0)])), [7.0], "counted once");
    drop(site.add_up(&histogram(0, "[1]", r#"["1","2"]"#)));
    assert_eq!(site.streams.series(), 1, "a new series of it is not kept either");
}

#[test]
fn the_same_points_after_an_unknown_outcome_have_the_same_totals() {
    let site = Site::new();
    let unknown = |points: &[(i64, f64)]| {
        let mut pending = site.add_up(&sum(points));
        pending.added.storing();
        pending.values()
    };
    assert_eq!(unknown(&[(0, 3.0)]), [3.0]);
    assert_eq!(unknown(&[(0, 3.0)]), [3.0]);
    assert_eq!(site.push(&sum(&[(0, 3.0)])), [3.0]);
    assert_eq!(unknown(&[(10, 4.0), (20, 5.0)]), [7.0, 12.0]);
    assert_eq!(site.push(&sum(&[(10, 4.0), (20, 5.0)])), [7.0, 12.0]);
    assert_eq!(unknown(&[(30, 1.0)]), [13.0]);
    assert_eq!(site.push(&sum(&[(40, 2.0)])), [15.0], "it may be stored, and a total never falls");
    let late = site.add_up(&sum(&[(30, 1.0)]));
    assert_eq!(late.reasons(), [("delta_out_of_order", 1)]);
}

#[test]
fn late_points_are_left_out_and_counted_with_their_reason() {
    let site = Site::new();
    site.push(&sum(&[(0, 3.0)]));
    let late = site.add_up(&sum(&[(0, 9.0), (10, 4.0), (5, 9.0)]));
    assert_eq!(late.reasons(), [("delta_out_of_order", 2)]);
    let text = late.decoded.refused.text().unwrap();
    assert!(text.contains("out of order") && text.contains("io_total"), "{text}");
    assert_eq!(late.decoded.written, Written { samples: 1, metadata: 1, ..Written::default() });
    assert_eq!(late.stored(), [7.0]);
    let older = site.add_up(&sum(&[(20, 1.0)]).replace(&(NOON + 10_000_000_000).to_string(), "1000000"));
    assert_eq!(older.reasons(), [("delta_older_start", 1)]);
}

#[test]
fn classic_histograms_add_up_until_their_bounds_change() {
    let site = Site::new();
    let values = |metric: &str| {
        let pending = site.add_up(metric);
        let names = pending.decoded.batch.series.iter().map(|series| {
            let (name, le) = (series.labels.get("__name__").unwrap(), series.labels.get("le"));
            format!("{name} {}", le.unwrap_or_default())
        });
        let named: Vec<String> =
            names.zip(pending.values()).map(|(name, value)| format!("{name} {value}")).collect();
        pending.stored();
        named
    };
    values(&histogram(0, "[1]", r#"["1","2"]"#));
    let second = values(&histogram(10, "[1]", r#"["1","2"]"#));
    assert_eq!(second, ["d_sum  3", "d_count  6", "d_bucket 1 2", "d_bucket +Inf 6"]);
    let other = values(&histogram(20, "[2]", r#"["3","0"]"#));
    assert_eq!(other, ["d_sum  1.5", "d_count  3", "d_bucket 2 3", "d_bucket +Inf 3"]);
}

#[test]
fn native_histograms_add_up_with_a_start_and_no_hint() {
    let exponential = |second: i64, scale: i32, offset: i32| {
        let time = NOON + second * 1_000_000_000;
        format!(
            r#"{{"name":"e","exponentialHistogram":{{"aggregationTemporality":1,"dataPoints":[{{
                "startTimeUnixNano":"{}","timeUnixNano":"{time}","count":"4","sum":2,"scale":{scale},
                "zeroCount":"1","positive":{{"offset":{offset},"bucketCounts":["1","2"]}}}}]}}}}"#,
            NOON - 5_000_000_000
        )
    };
    let site = Site::new();
    site.add_up(&exponential(0, 3, 0)).stored();
    let pending = site.add_up(&exponential(10, 2, 0));
    let sample = &pending.decoded.batch.histograms[0];
    let total = &sample.histogram;
    assert_eq!((total.schema, total.count, total.sum, total.zero_count), (2, 8.0, 4.0, 2.0));
    assert_eq!((&total.positive.indices[..], &total.positive.counts[..]), (&[1, 2][..], &[4.0, 2.0][..]));
    assert_eq!((sample.start, total.reset), (NOON_MS - 5_000, Default::default()));
    pending.stored();
    assert!(site.streams.budget().used() > 0);
    site.streams.forget_stale(DELTA_STALE_AFTER + Duration::from_secs(1));
    assert_eq!((site.streams.series(), site.streams.budget().used()), (0, 0));
}

#[test]
fn a_series_that_is_stale_or_has_ended_starts_a_new_total() {
    let mut site = Site::new();
    site.push(&sum(&[(0, 3.0)]));
    site.now = DELTA_STALE_AFTER;
    assert_eq!(site.push(&sum(&[(300, 3.0)])), [6.0]);
    site.now += DELTA_STALE_AFTER + Duration::from_secs(1);
    let anew = site.add_up(&sum(&[(401, 3.0)]));
    assert_eq!(anew.decoded.batch.starts, [NOON_MS + 391_000], "it has a new start");
    assert_eq!(anew.stored(), [3.0]);
    let end = sum(&[(410, 1.0)]).replace(r#""asDouble":1"#, r#""flags":1"#);
    assert_eq!(site.push(&end)[0].to_bits(), STALE_BITS);
    assert_eq!(site.streams.series(), 0);
    assert_eq!(site.push(&sum(&[(420, 2.0)])), [2.0]);
}

#[test]
fn series_beyond_the_limit_or_the_memory_are_refused_alone() {
    let mut site = Site::new();
    site.metrics.otlp_delta_max_streams = 1;
    site.push(&sum(&[(0, 3.0)]));
    let other = sum(&[(0, 1.0)]).replace(r#""name":"io""#, r#""name":"other""#);
    let refused = site.add_up(&other);
    assert_eq!(refused.reasons(), [("otlp_delta_max_streams", 1)]);
    let text = refused.decoded.refused.text().unwrap();
    assert!(text.contains("limits.metrics.otlp_delta_max_streams: 1"), "{text}");
    drop(refused);
    assert_eq!(site.push(&sum(&[(10, 4.0)])), [7.0]);
    site.now = DELTA_STALE_AFTER + Duration::from_secs(1);
    assert_eq!(site.push(&other), [1.0], "a stale series makes room");

    let small = Site { streams: DeltaStreams::new(MemoryBudget::root("deltas", 10 << 10)), ..Site::new() };
    let many: Vec<String> =
        (0..40).map(|n| sum(&[(0, 1.0)]).replace(r#""io""#, &format!(r#""io{n}""#))).collect();
    let pending = small.add_up(&many.join(","));
    let (kept, refused) = (pending.values().len() as u64, pending.reasons()[0].1);
    assert!(kept > 0 && refused > 0 && kept + refused == 40, "{kept} {refused}");
    pending.stored();
    assert_eq!(small.streams.series(), kept);
    assert!(small.streams.budget().peak() <= 10 << 10);
}

#[test]
fn series_that_are_refused_later_are_not_counted() {
    let site = Site::new();
    let metrics = [sum(&[(0, 1.0)]), sum(&[(0, 2.0)]).replace(r#""io""#, r#""other""#)].join(",");
    let mut decoded = site.decode(&metrics);
    decoded.refuse_series(&[0], 1);
    let place = site.streams.queue(&decoded);
    let mut added = site.streams.add_up(place, &site.metrics, site.now, &mut decoded).unwrap();
    assert_eq!(decoded.batch.values, [2.0]);
    added.storing();
    added.stored();
    assert_eq!(site.streams.series(), 1);
    assert_eq!(site.push(&sum(&[(10, 5.0)])), [5.0]);
}

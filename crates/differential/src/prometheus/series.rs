//! Random series with the problems of samples in practice, over an hour and a half.
//!
//! Counters with resets and gaps, gauges with values that are not numbers, stale markers, series that
//! replace each other, samples that are minutes apart, classic and native histograms of every kind, and
//! series that change from floats to histograms. The samples of a series depend only on the seed and the
//! series' index.

use std::sync::Arc;

use sandur_model::histogram::{Buckets, CUSTOM_SCHEMA, CounterReset};
use sandur_model::{FloatHistogram, Labels, STALE_BITS};

use crate::random::Random;

/// Time of the first sample, in milliseconds since the epoch.
pub const BEGIN_MS: i64 = 1_767_603_600_000;
/// Milliseconds from the first to the last sample.
pub const LENGTH_MS: i64 = 90 * 60_000;

/// A sample.
#[derive(Clone, Debug)]
pub enum Sample {
    /// A number.
    Float(f64),
    /// A native histogram; the flag says whether its counts are sent as integers.
    Histogram(Arc<FloatHistogram>, bool),
}

/// A series.
#[derive(Clone, Debug)]
pub struct RandomSeries {
    /// The labels, including the metric name.
    pub labels: Labels,
    /// Times in milliseconds since the epoch, and samples.
    pub samples: Vec<(i64, Sample)>,
}

/// How the samples of a series are generated.
#[derive(Clone, Copy)]
enum Shape {
    Counter,
    Gauge,
    Weird,
    Constant,
    Cumulative(usize),
    Native {
        schema: i32,
        integer: bool,
        gauge: bool,
    },
    /// With NaN observations.
    Nan,
    Custom(&'static [f64]),
    Mixed,
}

/// Upper bounds of the native histograms with custom buckets.
const CUSTOM_BOUNDS: &[f64] = &[0.1, 0.5, 1.0, 10.0];
/// Further bounds, with buckets that end at zero or contain it.
const BOUNDS_AROUND_ZERO: [&[f64]; 3] =
    [&[-5.0, 0.0, 1.0, 10.0], &[-5.0, -1.0, 1.0, 10.0], &[0.0, 0.5, 1.0, 10.0]];

/// Upper bounds of the classic histograms.
pub const BOUNDS: [&str; 6] = ["0.1", "0.5", "1", "2.5", "10", "+Inf"];

/// Returns all series of a seed, sorted by labels.
pub fn series(seed: u64) -> Vec<RandomSeries> {
    let mut described: Vec<(Vec<(&str, String)>, Shape, i64)> = Vec::new();
    for job in ["api", "db", "web"] {
        for instance in ["a:1", "b:1", "c:1"] {
            describe(&mut described, job, instance);
        }
    }
    let mut series: Vec<RandomSeries> = Vec::new();
    for (n, (pairs, shape, gap_ms)) in described.iter().enumerate() {
        let random = &mut Random::fork(seed, 1_000_000 + n as u64);
        series.extend(lives(random, pairs, *shape, *gap_ms));
    }
    let key = |s: &RandomSeries| {
        s.labels.iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect::<Vec<_>>()
    };
    series.sort_by_cached_key(key);
    series
}

fn describe<'a>(out: &mut Vec<(Vec<(&'a str, String)>, Shape, i64)>, job: &'a str, instance: &'a str) {
    let mut add = |name: &str, more: &[(&'a str, &str)], shape: Shape, gap_s: i64| {
        let own = [("__name__", name), ("job", job), ("instance", instance)];
        let pairs = own.iter().chain(more).map(|(name, value)| (*name, (*value).to_owned())).collect();
        out.push((pairs, shape, gap_s * 1000));
    };
    for code in ["200", "404", "500"] {
        add("requests_total", &[("code", code)], Shape::Counter, 15);
    }
    add("errors_total", &[], Shape::Counter, 30);
    add("temperature", &[("room", "north")], Shape::Gauge, 15);
    add("temperature", &[("room", "south")], Shape::Gauge, 60);
    add("weird", &[], Shape::Weird, 30);
    add("sparse", &[], Shape::Gauge, 400);
    add("up", &[], Shape::Constant, 15);
    add("build_info", &[("version", if instance == "a:1" { "1.10" } else { "1.9" })], Shape::Constant, 60);
    add("target_info", &[("region", job), ("zone", "z1")], Shape::Constant, 60);
    for (n, le) in BOUNDS.iter().enumerate() {
        add("latency_seconds_bucket", &[("le", le)], Shape::Cumulative(n), 30);
    }
    if job == "web" {
        add("latency_seconds_bucket", &[("le", "NaN")], Shape::Cumulative(1), 30);
    }
    add("latency_seconds_count", &[], Shape::Cumulative(BOUNDS.len() - 1), 30);
    add("latency_seconds_sum", &[], Shape::Gauge, 30);
    let native = |schema, integer, gauge| Shape::Native { schema, integer, gauge };
    let schema = if instance == "a:1" { 1 } else { 2 };
    add("native_seconds", &[], native(schema, true, false), 30);
    add("native_float", &[], native(0, false, false), 30);
    add("native_gauge", &[], native(3, false, true), 60);
    add("nan_seconds", &[], Shape::Nan, 30);
    add("custom_seconds", &[], Shape::Custom(CUSTOM_BOUNDS), 30);
    let around_zero = BOUNDS_AROUND_ZERO[usize::from(instance.as_bytes()[0] - b'a')];
    add("custom_around_zero", &[], Shape::Custom(around_zero), 60);
    add("typed_bytes", &[("__type__", "gauge"), ("__unit__", "bytes")], Shape::Gauge, 60);
    add("typed_total", &[("__type__", "counter")], Shape::Counter, 60);
    add("mixed", &[], Shape::Mixed, 30);
    add("first_of_two", &[], Shape::Gauge, 30);
    add("second_of_two", &[], Shape::Counter, 30);
    if instance == "a:1" {
        add("dotted.name", &[("dotted.label", "ä b")], Shape::Gauge, 60);
    }
}

/// Returns the series, or two that replace each other.
fn lives(random: &mut Random, pairs: &[(&str, String)], shape: Shape, gap_ms: i64) -> Vec<RandomSeries> {
    let offset = random.between(0, gap_ms - 1);
    let labels = |generation: Option<&str>| {
        let own = pairs.iter().map(|(name, value)| (*name, value.as_str()));
        Labels::from_pairs(own.chain(generation.map(|pod| ("pod", pod))))
    };
    if !random.chance(12) {
        let samples = samples(random, shape, gap_ms, offset, LENGTH_MS);
        return vec![RandomSeries { labels: labels(None), samples }];
    }
    let change = random.between(LENGTH_MS / 4, LENGTH_MS * 3 / 4);
    let mut first = samples(random, shape, gap_ms, offset, change);
    if random.chance(80) {
        // The last sample may be a little late.
        let end = (BEGIN_MS + change).max(first.last().map_or(0, |(last, _)| last + 1));
        first.push((end, stale_like(first.last().map(|(_, sample)| sample))));
    }
    let second = samples(random, shape, gap_ms, change + gap_ms, LENGTH_MS);
    let lives = [("p1", first), ("p2", second)];
    lives.map(|(pod, samples)| RandomSeries { labels: labels(Some(pod)), samples }).to_vec()
}

fn stale_like(before: Option<&Sample>) -> Sample {
    let stale = f64::from_bits(STALE_BITS);
    match before {
        Some(Sample::Histogram(..)) => {
            let histogram = FloatHistogram { sum: stale, ..FloatHistogram::default() };
            Sample::Histogram(Arc::new(histogram), false)
        }
        _ => Sample::Float(stale),
    }
}

fn samples(random: &mut Random, shape: Shape, gap_ms: i64, from: i64, to: i64) -> Vec<(i64, Sample)> {
    let mut state = State::new(random, shape);
    let mut samples: Vec<(i64, Sample)> = Vec::new();
    let is_steady = random.chance(40);
    let mut at = from;
    while at < to {
        let jitter = if is_steady || random.chance(85) { 0 } else { random.between(-5, 5) };
        let time = (BEGIN_MS + at + jitter).max(samples.last().map_or(0, |(last, _)| last + 1));
        samples.push((time, state.next(random)));
        at += gap_ms;
        if !is_steady && random.chance(1) {
            if random.chance(50) {
                let stale = stale_like(samples.last().map(|(_, sample)| sample));
                samples.push((time + gap_ms / 2, stale));
            }
            at += gap_ms * random.between(1, 30);
        }
    }
    samples
}

/// The state of a series while it is generated.
struct State {
    shape: Shape,
    value: f64,
    histogram: FloatHistogram,
    is_float: bool,
}

impl State {
    fn new(random: &mut Random, shape: Shape) -> Self {
        let value = match shape {
            Shape::Constant => 1.0,
            _ => random.between(0, 1000) as f64,
        };
        Self { shape, value, histogram: empty_histogram(shape), is_float: random.chance(50) }
    }

    fn next(&mut self, random: &mut Random) -> Sample {
        match self.shape {
            Shape::Constant => {}
            Shape::Counter => self.count(random, 20),
            Shape::Cumulative(rank) => self.count(random, 4 * (rank as i64 + 1)),
            Shape::Gauge => self.value += random.between(-400, 400) as f64 / 16.0,
            // No denormal numbers: Go's powers and logarithms of them are wrong by orders of magnitude.
            Shape::Weird => {
                let values = [
                    f64::NAN,
                    f64::INFINITY,
                    f64::NEG_INFINITY,
                    -0.0,
                    0.0,
                    1e300,
                    2.5e-300,
                    1.0,
                    2.5,
                    -3.0,
                    1e15,
                ];
                self.value = values[random.below(values.len())];
            }
            Shape::Mixed => {
                self.is_float ^= random.chance(10);
                if self.is_float {
                    self.count(random, 20);
                } else {
                    return self.observe(random, true, false);
                }
            }
            Shape::Native { integer, gauge, .. } => return self.observe(random, integer, gauge),
            Shape::Nan | Shape::Custom(_) => {
                let sample = self.observe(random, true, false);
                let is_nan = random.chance(if self.histogram.is_custom() { 2 } else { 20 });
                return if is_nan { self.observe_nan(random) } else { sample };
            }
        }
        Sample::Float(self.value)
    }

    fn count(&mut self, random: &mut Random, most: i64) {
        self.value += random.between(0, most) as f64;
        if random.chance(1) {
            self.value = random.between(0, 3) as f64;
        }
    }

    /// Observes NaN values: they are in no bucket, or in the last one of custom buckets.
    fn observe_nan(&mut self, random: &mut Random) -> Sample {
        let count = random.between(1, 9) as f64;
        self.histogram.count += count;
        self.histogram.sum = f64::NAN;
        if self.histogram.is_custom() {
            let last = self.histogram.bounds.len() as i32;
            add_to(&mut self.histogram.positive, last, count);
        }
        Sample::Histogram(Arc::new(self.histogram.clone()), true)
    }

    fn observe(&mut self, random: &mut Random, integer: bool, gauge: bool) -> Sample {
        if gauge || random.chance(2) {
            self.histogram = empty_histogram(self.shape);
        }
        let part = if integer { 1.0 } else { 0.25 };
        let is_signed = !integer;
        let histogram = &mut self.histogram;
        // Prometheus's chunks give all histograms of a chunk the same buckets, including empty ones, and
        // its quantiles depend on whether there are negative buckets at all. Therefore the first
        // histogram has some.
        let is_first = histogram.count == 0.0;
        for n in 0..random.between(if is_first { 2 } else { 0 }, 6) {
            let count = random.between(1, 9) as f64 * part;
            histogram.count += count;
            histogram.sum += count * random.between(1, 40) as f64 / 8.0;
            match if is_first && n < 2 { n * 2 + 1 } else { random.between(0, 9) } {
                0 if !histogram.is_custom() => histogram.zero_count += count,
                1..=2 if is_signed => {
                    add_to(&mut histogram.negative, random.between(-3, 4) as i32, count);
                }
                _ => {
                    let (low, high) = if histogram.is_custom() { (0, 4) } else { (-6, 12) };
                    add_to(&mut histogram.positive, random.between(low, high) as i32, count);
                }
            }
        }
        Sample::Histogram(Arc::new(histogram.clone()), integer)
    }
}

fn add_to(buckets: &mut Buckets, index: i32, count: f64) {
    match buckets.indices.binary_search(&index) {
        Ok(at) => buckets.counts[at] += count,
        Err(at) => {
            buckets.indices.insert(at, index);
            buckets.counts.insert(at, count);
        }
    }
}

fn empty_histogram(shape: Shape) -> FloatHistogram {
    let mut made = FloatHistogram { zero_threshold: 0.001, ..FloatHistogram::default() };
    match shape {
        Shape::Native { schema, gauge, .. } => {
            made.schema = schema;
            made.reset = if gauge { CounterReset::Gauge } else { CounterReset::Unknown };
        }
        Shape::Custom(bounds) => {
            made.schema = CUSTOM_SCHEMA;
            made.zero_threshold = 0.0;
            made.bounds = bounds.into();
        }
        _ => {}
    }
    made
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn series_are_reproducible_and_their_times_increase() {
        let (one, two) = (series(3), series(3));
        assert_eq!(format!("{one:?}"), format!("{two:?}"));
        assert_ne!(format!("{one:?}"), format!("{:?}", series(4)));
        // In seed 85 a series used to end after it was replaced.
        for series in one.iter().chain(&series(85)) {
            assert!(series.samples.windows(2).all(|pair| pair[0].0 < pair[1].0), "{}", series.labels);
            for (_, sample) in &series.samples {
                let Sample::Histogram(histogram, _) = sample else { continue };
                histogram.validate().unwrap();
            }
        }
        let labels: std::collections::BTreeSet<String> = one.iter().map(|s| s.labels.to_string()).collect();
        assert_eq!(labels.len(), one.len(), "each series once");
    }
}

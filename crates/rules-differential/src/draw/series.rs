//! Draws the series that rules read: counters and gauges with gaps, stale markers and resets.

use crate::case::{Sample, Series, Texts};
use crate::random::Random;

/// The bits of a stale marker.
pub const STALE_BITS: u64 = 0x7ff0_0000_0000_0002;

/// A metric.
#[derive(Clone, Copy, Debug)]
pub struct Metric {
    /// The name.
    pub name: &'static str,
    /// Whether it is a counter.
    pub is_counter: bool,
    /// The names of its labels.
    pub labels: &'static [&'static str],
}

/// The metrics from which a case takes some.
const METRICS: &[Metric] = &[
    Metric { name: "requests_total", is_counter: true, labels: &["job", "instance", "code"] },
    Metric { name: "errors_total", is_counter: true, labels: &["job", "instance"] },
    Metric { name: "load", is_counter: false, labels: &["job", "instance"] },
    Metric { name: "up", is_counter: false, labels: &["job", "instance"] },
    Metric { name: "queue_length", is_counter: false, labels: &["job", "queue"] },
    Metric { name: "temperature", is_counter: false, labels: &["room"] },
];

/// The values of a label.
pub fn values_of(label: &str) -> &'static [&'static str] {
    match label {
        "job" => &["api", "db"],
        "instance" => &["a:80", "b:80", "c:80"],
        "code" => &["200", "500"],
        "queue" => &["in", "out", "dead letter"],
        _ => &["attic", "cellar"],
    }
}

/// The metrics of a case.
pub fn metrics(random: &mut Random) -> Vec<Metric> {
    let mut chosen: Vec<Metric> = METRICS.to_vec();
    while chosen.len() > 4 {
        chosen.remove(random.below(chosen.len()));
    }
    chosen
}

/// The series of the metrics, with samples between two times.
pub fn draw(random: &mut Random, metrics: &[Metric], times: (i64, i64), interval_s: i64) -> Vec<Series> {
    // Few samples per evaluation keep cases small.
    let step_ms = random.pick(&[interval_s.min(60), interval_s.min(30), 15]).max(interval_s / 8) * 1_000;
    let mut all = Vec::new();
    for metric in metrics {
        for labels in label_sets(metric.labels) {
            if random.chance(65) {
                let mut set: Texts =
                    labels.into_iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
                set.insert("__name__".to_owned(), metric.name.to_owned());
                let samples = samples(random, metric, times, step_ms);
                if !samples.is_empty() {
                    all.push(Series { labels: set, samples });
                }
            }
        }
    }
    all
}

/// All combinations of values.
fn label_sets(names: &[&'static str]) -> Vec<Vec<(&'static str, &'static str)>> {
    let mut sets = vec![Vec::new()];
    for name in names {
        let with =
            |set: &Vec<_>| values_of(name).iter().map(|value| extended(set, name, value)).collect::<Vec<_>>();
        sets = sets.iter().flat_map(with).collect();
    }
    sets
}

fn extended(
    set: &[(&'static str, &'static str)],
    name: &'static str,
    value: &'static str,
) -> Vec<(&'static str, &'static str)> {
    set.iter().copied().chain([(name, value)]).collect()
}

/// A value that changes over time.
struct Walk {
    value: f64,
    /// How many more samples have this value.
    left: i64,
}

impl Walk {
    fn next(&mut self, random: &mut Random, metric: &Metric) -> f64 {
        if metric.is_counter {
            self.value = if random.chance(2) { 0.0 } else { self.value + random.below(8) as f64 };
            return self.value;
        }
        self.left -= 1;
        if self.left < 0 {
            self.left = random.between(0, 40);
            self.value = match random.below(60) {
                0 => f64::NAN,
                1 => f64::INFINITY,
                2 => -0.0,
                _ if metric.name == "up" => random.below(2) as f64,
                // Sums of quarters are exact.
                _ => random.between(-8, 48) as f64 / 4.0,
            };
        }
        self.value
    }
}

fn samples(random: &mut Random, metric: &Metric, (from, until): (i64, i64), step_ms: i64) -> Vec<Sample> {
    let mut walk = Walk { value: random.below(100) as f64, left: 0 };
    let comes_and_goes = random.chance(35);
    let mut at_ms = from + random.between(0, step_ms);
    let mut samples = Vec::new();
    while at_ms <= until {
        let is_gap = random.chance(1) || (comes_and_goes && random.chance(5));
        if is_gap {
            if random.chance(60) {
                samples.push(Sample::new(at_ms, f64::from_bits(STALE_BITS)));
            }
            at_ms += step_ms * random.between(1, 40);
        } else {
            samples.push(Sample::new(at_ms, walk.next(random, metric)));
        }
        // A scrape is sometimes a little late.
        at_ms += step_ms + if random.chance(10) { random.between(0, 200) } else { 0 };
    }
    samples
}

//! The scraped targets whose metrics a dashboard shows: their series, and the values of these.
//!
//! **Invariant.** A value depends only on the series and the number of its sample, so the backfill and the
//! live samples fit together, also those of another run.

use super::panels::JOBS;
use crate::push_body::SampledSeries;
use crate::services::Random;

/// Seconds between two samples of a series.
pub(super) const INTERVAL_S: i64 = 15;
const INTERVAL_MS: i64 = INTERVAL_S * 1_000;

/// Bounds of the histogram's buckets, and the share of requests below each.
const BUCKETS: [(&str, f64); 10] = [
    ("0.01", 0.12),
    ("0.025", 0.31),
    ("0.05", 0.55),
    ("0.1", 0.74),
    ("0.2", 0.86),
    ("0.4", 0.93),
    ("0.8", 0.97),
    ("1.6", 0.988),
    ("3.2", 0.996),
    ("+Inf", 1.0),
];
/// Status codes, and their shares.
const CODES: [(&str, f64); 4] = [("200", 0.93), ("302", 0.04), ("404", 0.02), ("503", 0.01)];
/// Modes of a processor, and their shares of its time.
const MODES: [(&str, f64); 4] = [("idle", 0.68), ("user", 0.22), ("system", 0.08), ("iowait", 0.02)];

/// How the values of a series develop.
#[derive(Clone, Copy, Debug)]
enum Course {
    /// A counter with this mean rate per second; the rate follows the time of the day.
    Counter(f64),
    /// A value around this mean.
    Gauge(f64),
    /// Always this value.
    Constant(f64),
}

/// A series of a target.
#[derive(Clone, Debug)]
pub(super) struct Sampled {
    labels: Vec<(&'static str, String)>,
    course: Course,
    seed: u64,
}

impl Sampled {
    /// Its samples with the numbers from `first` on, each `offset_ms` after its multiple of the interval.
    fn samples(&self, first: i64, count: i64, offset_ms: i64) -> SampledSeries {
        let sample = |number: i64| (number * INTERVAL_MS + offset_ms, self.value(number));
        SampledSeries { labels: self.labels.clone(), samples: (first..first + count).map(sample).collect() }
    }

    fn value(&self, number: i64) -> f64 {
        let noise = || Random::of(&[self.seed, number.unsigned_abs()]).below(1_000) as f64 / 1_000.0;
        match self.course {
            Course::Constant(value) => value,
            Course::Gauge(mean) => (mean * (0.8 + 0.4 * noise()) * 1_024.0).round() / 1_024.0,
            Course::Counter(rate) => {
                // The rate is between 0.5 and 1.5 of its mean, depending on the time of the day.
                // The noise is less than the least growth of an interval, so a counter never decreases.
                let (day, second) = (86_400.0 / std::f64::consts::TAU, (number * INTERVAL_S) as f64);
                let steady = second - EPOCH_S as f64 + 0.5 * day * (second / day).sin();
                let value = rate * (steady + 0.5 * INTERVAL_S as f64 * noise());
                (value * 64.0).floor() / 64.0
            }
        }
    }
}

/// A time before every backfill: counters began then.
const EPOCH_S: i64 = 1_700_000_000;

/// A target that is scraped.
#[derive(Clone, Debug)]
pub(super) struct Target {
    /// How long after multiples of the interval it is scraped.
    pub(super) offset_ms: i64,
    /// Series that panels show.
    shown: Vec<Sampled>,
    /// Further series, which only arrive live.
    others: Vec<Sampled>,
}

impl Target {
    /// All targets: this number of instances of each job, each with this number of further series.
    pub(super) fn every(instances: u64, others: u64) -> Vec<Self> {
        let numbers = (0..JOBS.len()).flat_map(|job| (0..instances).map(move |instance| (job, instance)));
        numbers.map(|(job, instance)| Self::new(job, instance, others)).collect()
    }

    fn new(job: usize, instance: u64, others: u64) -> Self {
        let mut dice = Random::of(&[job as u64, instance]);
        let offset_ms = dice.below(INTERVAL_MS.unsigned_abs()) as i64;
        let mut series = Series { job: JOBS[job], instance, seed: dice.next(), all: Vec::new() };
        series.add_requests();
        series.add_machine();
        let shown = std::mem::take(&mut series.all);
        series.add_others(others);
        Self { offset_ms, shown, others: series.all }
    }

    /// Samples of the shown series.
    pub(super) fn history(&self, first: i64, count: i64) -> Vec<SampledSeries> {
        self.shown.iter().map(|series| series.samples(first, count, self.offset_ms)).collect()
    }

    /// The samples of one scrape.
    pub(super) fn scrape(&self, number: i64) -> Vec<SampledSeries> {
        let all = self.shown.iter().chain(&self.others);
        all.map(|series| series.samples(number, 1, self.offset_ms)).collect()
    }
}

/// Collects the series of a target.
struct Series {
    job: &'static str,
    instance: u64,
    seed: u64,
    all: Vec<Sampled>,
}

impl Series {
    fn add(&mut self, name: &str, own: &[(&'static str, &str)], course: Course) {
        let instance = format!("{}-{:02}:9100", self.job, self.instance);
        let mut labels =
            vec![("__name__", name.to_owned()), ("instance", instance), ("job", self.job.to_owned())];
        labels.extend(own.iter().map(|(name, value)| (*name, (*value).to_owned())));
        labels.sort_unstable();
        let seed = Random::of(&[self.seed, self.all.len() as u64]).next();
        self.all.push(Sampled { labels, course, seed });
    }

    /// Counters of requests, and a histogram of their durations, by route: 160 series.
    fn add_requests(&mut self) {
        for number in 0..10 {
            let (route, rate) = (format!("/api/{number}"), 4.0 * f64::from(number + 1));
            for (code, share) in CODES {
                let labels = [("route", route.as_str()), ("code", code)];
                self.add("requests_total", &labels, Course::Counter(rate * share));
            }
            for (le, share) in BUCKETS {
                let labels = [("route", route.as_str()), ("le", le)];
                self.add("request_seconds_bucket", &labels, Course::Counter(rate * share));
            }
            let labels = [("route", route.as_str())];
            self.add("request_seconds_count", &labels, Course::Counter(rate));
            self.add("request_seconds_sum", &labels, Course::Counter(rate * 0.13));
        }
    }

    /// The machine and the process: 32 series.
    fn add_machine(&mut self) {
        for cpu in ["0", "1", "2", "3"] {
            for (mode, share) in MODES {
                self.add("cpu_seconds_total", &[("cpu", cpu), ("mode", mode)], Course::Counter(share));
            }
        }
        self.add("memory_free_bytes", &[], Course::Gauge(6e9));
        self.add("memory_size_bytes", &[], Course::Constant(16e9));
        for device in ["eth0", "eth1"] {
            for direction in ["in", "out"] {
                let labels = [("device", device), ("direction", direction)];
                self.add("network_bytes_total", &labels, Course::Counter(110_000.0));
            }
        }
        for mount in ["/", "/data", "/var"] {
            self.add("disk_free_bytes", &[("mount", mount)], Course::Gauge(80e9));
            self.add("disk_size_bytes", &[("mount", mount)], Course::Constant(200e9));
        }
        self.add("process_resident_bytes", &[], Course::Gauge(400e6));
        self.add("threads", &[], Course::Gauge(48.0));
        self.add("up", &[], Course::Constant(1.0));
        self.add("load1", &[], Course::Gauge(1.5));
    }

    fn add_others(&mut self, count: u64) {
        for number in 0..count {
            let (pod, name) = (format!("pod-{:03}", number / 25), format!("worker_{}_total", number % 25));
            self.add(&name, &[("pod", &pod)], Course::Counter(1.0 + (number % 7) as f64));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    const FIRST: i64 = 1_795_176_000 / INTERVAL_S;

    #[test]
    fn targets_have_distinct_series_that_panels_ask_for() {
        let targets = Target::every(10, 550);
        assert_eq!((targets.len(), targets[0].shown.len(), targets[0].others.len()), (40, 192, 550));
        let scraped: Vec<SampledSeries> = targets.iter().flat_map(|target| target.scrape(FIRST)).collect();
        let distinct: BTreeSet<_> = scraped.iter().map(|series| &series.labels).collect();
        assert_eq!(distinct.len(), 40 * 742);
        let names: BTreeSet<&str> = scraped.iter().map(|series| &*series.labels[0].1).collect();
        for panel in super::super::panels::panels(super::super::Dialect::Prometheus, 0, "") {
            assert!(names.iter().any(|name| panel.query.contains(name)), "{}", panel.query);
        }
    }

    #[test]
    fn counters_never_decrease_and_grow_at_their_rate() {
        let target = &Target::every(1, 0)[0];
        let day = 86_400 / INTERVAL_S;
        for series in &target.shown {
            let values: Vec<f64> = (FIRST..=FIRST + day).map(|number| series.value(number)).collect();
            match series.course {
                Course::Counter(rate) => {
                    assert!(values.is_sorted(), "{:?}", series.labels);
                    let growth = (values[day as usize] - values[0]) / 86_400.0;
                    assert!((growth / rate - 1.0).abs() < 0.01 + 0.02 / rate / 86_400.0, "{growth} {rate}");
                }
                Course::Gauge(mean) => {
                    assert!(values.iter().all(|value| (0.79..=1.21).contains(&(value / mean))));
                    assert!(values.iter().any(|value| *value != values[0]));
                }
                Course::Constant(value) => assert!(values.iter().all(|one| *one == value)),
            }
        }
    }

    #[test]
    fn history_and_scrapes_have_the_same_samples() {
        let target = &Target::every(1, 5)[0];
        let history = target.history(FIRST, 3);
        let scrape = target.scrape(FIRST + 2);
        assert_eq!((history.len(), scrape.len()), (192, 197));
        for (old, new) in history.iter().zip(&scrape) {
            assert_eq!((&old.labels, old.samples[2]), (&new.labels, new.samples[0]));
        }
        let times: Vec<i64> = history[0].samples.iter().map(|(time, _)| *time).collect();
        assert!(times.windows(2).all(|pair| pair[1] - pair[0] == 15_000));
        assert!((0..15_000).contains(&(times[0] - FIRST * 15_000)));
    }
}

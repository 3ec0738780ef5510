//! Converts counts of samples to ratios of all accesses.
//!
//! A sample of keys is not a sample of accesses: whether it contains the hottest keys changes its number of
//! accesses much. So accesses that a sample lacks, compared with its share of all accesses, are counted as
//! hits, and surplus accesses are subtracted from its hits. The missing or surplus accesses are those of the
//! hottest keys, which are hits at any size (SHARDS-adj; Waldspurger, Park, Garthwaite, Ahmad, FAST 2015).

use super::instance::{Counts, Instance};
use super::observed::{PRESENT, SCALES};

/// Counts of the real cache since its start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Number of reads.
    pub reads: u64,
    /// Number of reads answered from the cache.
    pub hits: u64,
    /// Bytes of all values read, including those from the store.
    pub read_bytes: u64,
    /// Bytes of values read from the cache.
    pub hit_bytes: u64,
}

/// The forecast for one capacity.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Forecast {
    /// Capacity relative to the present one.
    pub scale: f64,
    /// Capacity in bytes.
    pub capacity: u64,
    /// Reads answered from the cache per read.
    pub hit_ratio: f64,
    /// Bytes answered from the cache per byte read.
    pub byte_hit_ratio: f64,
    /// Requests to the store, relative to those at the present capacity.
    pub store_requests: f64,
    /// Bytes from the store, relative to those at the present capacity.
    pub store_bytes: f64,
}

/// The forecasts for all capacities.
#[derive(Clone, Debug, PartialEq)]
pub struct Report {
    /// Sorted by capacity, smallest first.
    pub forecasts: Vec<Forecast>,
    /// The hit ratio of the real cache over the same time.
    pub measured_hit_ratio: f64,
    /// Absolute difference between it and the forecast for the present capacity.
    pub self_error: f64,
    /// Reads of the real cache per second, older ones with less weight.
    pub reads_per_s: f64,
    /// Bytes of values read per second, likewise.
    pub read_bytes_per_s: f64,
    /// Number of accesses on which the forecast for the present capacity is based, older ones with less
    /// weight.
    pub sampled_reads: f64,
}

/// Counts of the past, whose weight decays.
#[derive(Debug)]
pub(super) struct History {
    half_life_s: f64,
    closed_s: u32,
    /// Seconds that the counts cover, with the same decay.
    seconds: f64,
    totals: Totals,
    /// Counts of the real cache; and for each scale those of the sample and those that it should have had.
    measured: Counts,
    sampled: Vec<(Counts, Counts)>,
}

impl History {
    pub(super) fn new(half_life_s: u32, now_s: u32) -> Self {
        Self {
            half_life_s: f64::from(half_life_s.max(1)),
            closed_s: now_s,
            seconds: 0.0,
            totals: Totals::default(),
            measured: Counts::default(),
            sampled: vec![Default::default(); SCALES.len()],
        }
    }

    /// Adds the counts since the last call, and lets older ones decay.
    pub(super) fn close(&mut self, instances: &mut [Instance], totals: Totals, now_s: u32) {
        let elapsed_s = f64::from(now_s.saturating_sub(self.closed_s));
        let fade = (-elapsed_s / self.half_life_s * std::f64::consts::LN_2).exp();
        let recent = Counts {
            reads: totals.reads.saturating_sub(self.totals.reads) as f64,
            hits: totals.hits.saturating_sub(self.totals.hits) as f64,
            read_bytes: totals.read_bytes.saturating_sub(self.totals.read_bytes) as f64,
            hit_bytes: totals.hit_bytes.saturating_sub(self.totals.hit_bytes) as f64,
        };
        self.seconds = self.seconds * fade + elapsed_s;
        self.measured.fade_and_add(fade, recent, 1.0);
        for (instance, (seen, expected)) in instances.iter_mut().zip(&mut self.sampled) {
            // Scaled to all accesses, so that samples of different sizes add up.
            seen.fade_and_add(fade, instance.counts, 1.0 / instance.rate());
            expected.fade_and_add(fade, recent, 1.0);
            instance.counts = Counts::default();
        }
        (self.totals, self.closed_s) = (totals, now_s);
    }

    pub(super) fn report(&self, instances: &[Instance]) -> Report {
        let ratios: Vec<(f64, f64)> = self.sampled.iter().map(|(seen, all)| seen.adjusted(all)).collect();
        let present = ratios[PRESENT];
        let relative = |missed: f64, present: f64| if present > 0.0 { missed / present } else { 1.0 };
        let forecasts = instances.iter().zip(SCALES).zip(&ratios).map(|((instance, scale), ratio)| {
            let (hit_ratio, byte_hit_ratio) = *ratio;
            let store_requests = relative(1.0 - hit_ratio, 1.0 - present.0);
            let store_bytes = relative(1.0 - byte_hit_ratio, 1.0 - present.1);
            let capacity = instance.capacity();
            Forecast { scale, capacity, hit_ratio, byte_hit_ratio, store_requests, store_bytes }
        });
        let measured_hit_ratio = self.measured.hits / self.measured.reads.max(1.0);
        Report {
            forecasts: forecasts.collect(),
            measured_hit_ratio,
            self_error: (present.0 - measured_hit_ratio).abs(),
            reads_per_s: self.measured.reads / self.seconds.max(1.0),
            read_bytes_per_s: self.measured.read_bytes / self.seconds.max(1.0),
            sampled_reads: self.sampled[PRESENT].0.reads * instances[PRESENT].rate(),
        }
    }
}

impl Counts {
    fn fade_and_add(&mut self, fade: f64, more: Self, factor: f64) {
        self.reads = self.reads * fade + more.reads * factor;
        self.hits = self.hits * fade + more.hits * factor;
        self.read_bytes = self.read_bytes * fade + more.read_bytes * factor;
        self.hit_bytes = self.hit_bytes * fade + more.hit_bytes * factor;
    }

    /// Hit ratio and byte hit ratio, given the counts of all accesses.
    fn adjusted(&self, all: &Self) -> (f64, f64) {
        let ratio = |hits: f64, seen: f64, all: f64| {
            if all > 0.0 { ((hits + all - seen) / all).clamp(0.0, 1.0) } else { 0.0 }
        };
        let hits = ratio(self.hits, self.reads, all.reads);
        (hits, ratio(self.hit_bytes, self.read_bytes, all.read_bytes))
    }
}

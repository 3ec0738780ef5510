//! From the counts of samples to ratios of the whole.
//!
//! A sample of keys is not a sample of accesses: with or without the hottest key it has many or few of
//! them. So the accesses that a sample has less than its part of all accesses are counted as hits, and
//! those that it has more are taken from its hits: it is the hottest keys that are missing or too many,
//! and those are hits at any size (SHARDS-adj; Waldspurger, Park, Garthwaite, Ahmad, FAST 2015).

use super::instance::{Counts, Instance};
use super::observed::{PRESENT, SCALES};

/// What the real cache did since it started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Reads.
    pub reads: u64,
    /// Of them answered from the cache.
    pub hits: u64,
    /// Bytes of values read, those included that came from the store.
    pub read_bytes: u64,
    /// Of them from the cache.
    pub hit_bytes: u64,
}

/// What one capacity would do.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Forecast {
    /// In parts of the present capacity.
    pub scale: f64,
    /// In bytes.
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

/// What all capacities would do.
#[derive(Clone, Debug, PartialEq)]
pub struct Report {
    /// By rising capacity.
    pub forecasts: Vec<Forecast>,
    /// What the real cache did in the same time.
    pub measured_hit_ratio: f64,
    /// Distance of the forecast for the present capacity from it.
    pub self_error: f64,
    /// Reads of the real cache per second, older ones counting less.
    pub reads_per_s: f64,
    /// Bytes of values that they read per second.
    pub read_bytes_per_s: f64,
    /// Accesses that the forecast for the present capacity rests on, older ones counting less.
    pub sampled_reads: f64,
}

/// Counts of the past, fading.
#[derive(Debug)]
pub(super) struct History {
    half_life_s: f64,
    closed_s: u32,
    /// Seconds that the counts come from, fading like them.
    seconds: f64,
    totals: Totals,
    /// The real cache, and for each scale the sample and the size it should have had.
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

    /// Takes the counts since the last time into the books.
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
            // In units of the whole, so that samples of different sizes add up.
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

    /// Hit ratio and byte hit ratio, given what all accesses come to.
    fn adjusted(&self, all: &Self) -> (f64, f64) {
        let ratio = |hits: f64, seen: f64, all: f64| {
            if all > 0.0 { ((hits + all - seen) / all).clamp(0.0, 1.0) } else { 0.0 }
        };
        let hits = ratio(self.hits, self.reads, all.reads);
        (hits, ratio(self.hit_bytes, self.read_bytes, all.read_bytes))
    }
}

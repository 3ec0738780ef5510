//! The current state of a cache, and the results and costs at other capacities.
//!
//! Invariant: no statement is made about a capacity outside of the forecasts.

use sandur_cache::predict::{Forecast, Report};

use super::prices::{Medium, Prices};

/// Seconds of a month of 365.25 / 12 days.
pub const MONTH_S: f64 = 365.25 / 12.0 * 86_400.0;

/// The current state of a cache, with forecasts.
#[derive(Clone, Debug, PartialEq)]
pub struct Situation {
    /// Sorted by capacity, smallest first. One of them has scale 1.
    pub forecasts: Vec<Forecast>,
    /// The medium whose capacity was varied.
    pub medium: Medium,
    /// Reads per month.
    pub reads: f64,
    /// Bytes read per month.
    pub read_bytes: f64,
    /// Absolute difference between the forecast for the present capacity and the measured hit ratio.
    pub self_error: f64,
    /// Number of reads on which the forecast for the present capacity is based.
    pub sampled_reads: f64,
}

/// Smallest number of sampled reads for advice: the hit ratio of a thousand reads is known to 3 %.
pub const SAMPLED_READS_MIN: f64 = 1_000.0;

/// The results and monthly costs of a capacity.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Offer {
    /// Capacity in bytes.
    pub capacity: u64,
    /// Its medium.
    pub medium: Medium,
    /// Reads answered from the cache per read.
    pub hit_ratio: f64,
    /// Requests to the store per month.
    pub requests: f64,
    /// Share of today's requests to the store that would be saved; negative if there were more.
    pub fewer_requests: f64,
    /// Price of the capacity for a month.
    pub cache_cost: f64,
    /// Price of the requests and bytes from the store for a month.
    pub store_cost: f64,
}

impl Offer {
    /// Price of both.
    pub fn cost(&self) -> f64 {
        self.cache_cost + self.store_cost
    }
}

impl Situation {
    /// The situation in a running cache's report.
    pub fn of_report(report: &Report, medium: Medium) -> Self {
        Self {
            forecasts: report.forecasts.clone(),
            medium,
            reads: report.reads_per_s * MONTH_S,
            read_bytes: report.read_bytes_per_s * MONTH_S,
            self_error: report.self_error,
            sampled_reads: report.sampled_reads,
        }
    }

    /// Whether too few reads were sampled for a reliable monthly sum.
    pub fn is_too_little(&self) -> bool {
        // Also true if a number is not finite.
        !(self.sampled_reads >= SAMPLED_READS_MIN && self.reads.is_finite() && self.read_bytes.is_finite())
    }

    /// The present capacity.
    pub fn present(&self) -> Option<&Forecast> {
        self.forecasts.iter().find(|forecast| forecast.scale == 1.0)
    }

    /// The results of `capacity` bytes of a medium; `None` outside of the forecasts.
    pub fn offer(&self, capacity: u64, medium: Medium, prices: &Prices) -> Option<Offer> {
        let present = self.present()?;
        let (hit_ratio, byte_hit_ratio) = self.ratios_at(capacity)?;
        let (now, then) = (1.0 - present.hit_ratio, 1.0 - hit_ratio);
        let requests = self.reads * then;
        Some(Offer {
            capacity,
            medium,
            hit_ratio,
            requests,
            fewer_requests: if now > 0.0 { 1.0 - then / now } else { 0.0 },
            cache_cost: prices.keep(medium, capacity),
            store_cost: prices.fetch(requests, self.read_bytes * (1.0 - byte_hit_ratio)),
        })
    }

    /// The smallest capacity with the given hit ratio; `None` if no forecast reaches it.
    pub fn capacity_for(&self, hit_ratio: f64) -> Option<u64> {
        let at = self.forecasts.iter().position(|forecast| forecast.hit_ratio >= hit_ratio)?;
        let above = &self.forecasts[at];
        let Some(below) = at.checked_sub(1).map(|at| &self.forecasts[at]) else {
            return Some(above.capacity);
        };
        let part = (hit_ratio - below.hit_ratio) / (above.hit_ratio - below.hit_ratio);
        let (from, to) = ((below.capacity as f64).ln(), (above.capacity as f64).ln());
        Some((from + (to - from) * part).exp().round() as u64)
    }

    fn ratios_at(&self, capacity: u64) -> Option<(f64, f64)> {
        let at = self.forecasts.iter().position(|forecast| forecast.capacity >= capacity)?;
        let above = &self.forecasts[at];
        if above.capacity == capacity {
            return Some((above.hit_ratio, above.byte_hit_ratio));
        }
        let below = &self.forecasts[at.checked_sub(1)?];
        let log = |bytes: u64| (bytes as f64).ln();
        let part = (log(capacity) - log(below.capacity)) / (log(above.capacity) - log(below.capacity));
        let between = |from: f64, to: f64| from + (to - from) * part;
        Some((between(below.hit_ratio, above.hit_ratio), between(below.byte_hit_ratio, above.byte_hit_ratio)))
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    const TB: u64 = 1_000_000_000_000;

    /// 1.2 TB of memory, as in the published case; ten billion reads a month.
    pub(crate) fn published() -> Situation {
        let forecast = |scale: f64, hit_ratio: f64| Forecast {
            scale,
            capacity: (1.2e12 * scale) as u64,
            hit_ratio,
            byte_hit_ratio: hit_ratio,
            store_requests: (1.0 - hit_ratio) / 0.3,
            store_bytes: (1.0 - hit_ratio) / 0.3,
        };
        let forecasts =
            vec![forecast(0.5, 0.6), forecast(1.0, 0.7), forecast(4.0, 0.8), forecast(50.0, 0.91)];
        Situation {
            forecasts,
            medium: Medium::Ram,
            reads: 1e10,
            read_bytes: 5e15,
            self_error: 0.004,
            sampled_reads: 1e6,
        }
    }

    #[test]
    fn an_offer_is_interpolated_over_the_logarithm_of_the_capacity() {
        let (situation, prices) = (published(), Prices::default());
        let now = situation.offer(1_200_000_000_000, Medium::Ram, &prices).unwrap();
        assert_eq!((now.hit_ratio, now.fewer_requests), (0.7, 0.0));
        assert!((now.cache_cost - 5_316.0).abs() < 1.0 && (now.store_cost - 1_200.0).abs() < 1e-6);
        // Twice the memory is half of the way to four times.
        let twice = situation.offer(2_400_000_000_000, Medium::Ram, &prices).unwrap();
        assert!((twice.hit_ratio - 0.75).abs() < 1e-9 && (twice.fewer_requests - 1.0 / 6.0).abs() < 1e-9);
        assert!(situation.offer(100 * TB, Medium::Flash, &prices).is_none(), "beyond the forecasts");
        assert!(situation.offer(TB / 10, Medium::Flash, &prices).is_none());
    }

    #[test]
    fn the_capacity_for_a_hit_ratio_is_the_inverse_of_the_offer() {
        let situation = published();
        let capacity = situation.capacity_for(0.85).unwrap();
        let offer = situation.offer(capacity, Medium::Flash, &Prices::default()).unwrap();
        assert!((offer.hit_ratio - 0.85).abs() < 1e-6);
        assert_eq!(situation.capacity_for(0.5), Some(600_000_000_000));
        assert_eq!(situation.capacity_for(0.95), None);
    }
}

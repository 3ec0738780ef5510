//! Seeded random numbers and the distributions that the generator draws from.
//!
//! **Invariants.** The same seed gives the same numbers on every machine: only the floating-point functions
//! `exp`, `ln`, `sqrt` and `cos` are used, and results are rounded before they decide anything.

pub(crate) use sandur_cache::splitmix::{SplitMix as Draws, mix};

/// A draw from the exponential distribution with mean `mean`: the pause between independent events.
pub(crate) fn pause(draws: &mut Draws, mean: f64) -> f64 {
    -mean * (1.0 - draws.unit()).ln()
}

/// A log-uniform draw between `from` and `to`: each power of ten is equally likely.
pub(crate) fn log_uniform(draws: &mut Draws, from: f64, to: f64) -> f64 {
    (from.ln() + draws.unit() * (to.ln() - from.ln())).exp()
}

/// Numbers below `count` with probability proportional to rank^-skew (Zipf), by inversion of a table.
#[derive(Clone, Debug)]
pub(crate) struct Zipf {
    cumulative: Vec<f64>,
}

impl Zipf {
    pub(crate) fn new(count: usize, skew: f64) -> Self {
        let mut sum = 0.0;
        let weights = (1..=count.max(1)).map(|rank| (-skew * (rank as f64).ln()).exp());
        let mut cumulative: Vec<f64> = weights
            .map(|weight| {
                sum += weight;
                sum
            })
            .collect();
        for weight in &mut cumulative {
            *weight /= sum;
        }
        Self { cumulative }
    }

    pub(crate) fn draw(&self, draws: &mut Draws) -> u64 {
        let wanted = draws.unit();
        self.cumulative.partition_point(|sum| *sum < wanted).min(self.cumulative.len() - 1) as u64
    }
}

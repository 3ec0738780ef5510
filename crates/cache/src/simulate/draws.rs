//! Seeded random numbers and the distributions that the generator draws from.
//!
//! **Invariants.** The same seed gives the same numbers on every machine: no floating-point function
//! beyond `exp`, `ln`, `sqrt` and `cos` is used, and results are rounded before they decide anything.

/// splitmix64 (Steele, Lea, Flood 2014).
#[derive(Clone, Debug)]
pub(crate) struct Draws(u64);

impl Draws {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        mix(self.0)
    }

    /// In 0..1.
    pub(crate) fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Below `bound`, which is at least 1.
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.next()) * u128::from(bound)) >> 64) as u64
    }

    /// Exponentially distributed around `mean`: pauses between independent events.
    pub(crate) fn pause(&mut self, mean: f64) -> f64 {
        -mean * (1.0 - self.unit()).ln()
    }

    /// Log-uniform between the two: every power of ten is as likely as the next.
    pub(crate) fn log_uniform(&mut self, from: f64, to: f64) -> f64 {
        (from.ln() + self.unit() * (to.ln() - from.ln())).exp()
    }
}

/// A hash of a number: the finaliser of splitmix64.
pub(crate) fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

/// Numbers below `count` with probability falling as rank^-skew (Zipf), by inverting a table.
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

//! splitmix64 (Steele, Lea, Flood 2014): a seeded generator of numbers and a hash of a number.
//!
//! Invariant: the same seed gives the same numbers on every machine.

/// Increment of the state: 2^64 divided by the golden ratio, made odd.
pub const STEP: u64 = 0x9E37_79B9_7F4A_7C15;

/// A generator of 64-bit numbers.
#[derive(Clone, Debug)]
pub struct SplitMix(u64);

impl SplitMix {
    /// A generator with the given seed.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next number.
    pub fn draw(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(STEP);
        mix(self.0)
    }

    /// The next number in [0, 1).
    pub fn unit(&mut self) -> f64 {
        unit(self.draw())
    }

    /// The next number below `bound`, which must be at least 1.
    pub fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.draw()) * u128::from(bound)) >> 64) as u64
    }
}

/// A hash of a number: the finaliser of splitmix64.
pub fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

/// The upper 53 bits of a number, scaled to [0, 1).
pub fn unit(number: u64) -> f64 {
    (number >> 11) as f64 / (1u64 << 53) as f64
}

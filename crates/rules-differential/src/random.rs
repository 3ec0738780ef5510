//! A seeded generator: the same seed gives the same case on every machine.

/// SplitMix64.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// A generator for case `number` of `seed`.
    pub fn of(seed: u64, number: u64) -> Self {
        let mut mixer = Self(seed ^ number.wrapping_mul(0xD6E8_FEB8_6659_FD93));
        Self(mixer.draw())
    }

    /// The next 64 bits.
    pub fn draw(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// A number below `bound`; 0 for a bound of 0.
    pub fn below(&mut self, bound: usize) -> usize {
        if bound == 0 { 0 } else { (self.draw() % bound as u64) as usize }
    }

    /// A number from `from` to `to`, inclusive.
    pub fn between(&mut self, from: i64, to: i64) -> i64 {
        from + self.below((to - from + 1).max(1) as usize) as i64
    }

    /// True with a probability of `percent` / 100.
    pub fn chance(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }

    /// One of several items.
    pub fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len())]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_case_depends_only_on_seed_and_number() {
        assert_eq!(Random::of(7, 3).draw(), Random::of(7, 3).draw());
        assert_ne!(Random::of(7, 3).draw(), Random::of(7, 4).draw());
        assert_ne!(Random::of(7, 3).draw(), Random::of(8, 3).draw());
    }
}

//! A seeded generator: the same seed gives the same data and requests on every machine.

/// SplitMix64, which is small and good enough to choose words.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// A generator whose sequence `seed` determines.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// Returns the next 64 bits.
    pub fn draw(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// Returns a number below `bound`; 0 for a bound of 0.
    pub fn below(&mut self, bound: usize) -> usize {
        if bound == 0 { 0 } else { (self.draw() % bound as u64) as usize }
    }

    /// Returns a number from `from` to `to`, inclusive.
    pub fn between(&mut self, from: i64, to: i64) -> i64 {
        from + self.below((to - from + 1).max(1) as usize) as i64
    }

    /// Returns true with a probability of `percent` / 100.
    pub fn chance(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }

    /// Returns one of several items.
    pub fn pick<'a, T: ?Sized>(&mut self, from: &[&'a T]) -> &'a T {
        from[self.below(from.len())]
    }

    /// A generator of its own for number `index`, so that one case can be repeated without the others.
    pub fn fork(seed: u64, index: u64) -> Self {
        let mut mixer = Self::new(seed ^ index.wrapping_mul(0xD6E8_FEB8_6659_FD93));
        Self::new(mixer.draw())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fork_depends_only_on_seed_and_index() {
        assert_eq!(Random::fork(7, 3).draw(), Random::fork(7, 3).draw());
        assert_ne!(Random::fork(7, 3).draw(), Random::fork(7, 4).draw());
        assert_ne!(Random::fork(7, 3).draw(), Random::fork(8, 3).draw());
        let mut random = Random::new(1);
        assert!((0..1000).all(|_| (3..=5).contains(&random.between(3, 5))));
        assert!((0..1000).all(|_| !random.chance(0) && random.chance(100)));
    }
}

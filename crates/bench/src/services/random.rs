//! Reproducible randomness: a generator that is seeded with any number of words.

/// splitmix64 (Steele, Lea, Flood 2014): small, fast, and good enough for generated logs.
#[derive(Clone, Debug)]
pub(crate) struct Random(u64);

impl Random {
    /// A generator with a sequence that these words determine.
    pub(crate) fn of(words: &[u64]) -> Self {
        let mut dice = Self(0x5AD0);
        for &word in words {
            dice.0 = dice.next() ^ word;
        }
        dice
    }

    /// Returns any number.
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// Returns a number below `bound`, which is at least 1.
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.next()) * u128::from(bound)) >> 64) as u64
    }

    /// Returns a number from `low` to below `high`.
    pub(crate) fn between(&mut self, low: u64, high: u64) -> u64 {
        low + self.below((high - low).max(1))
    }

    /// Returns true with a probability of `percent` / 100.
    pub(crate) fn percent(&mut self, percent: f64) -> bool {
        (self.next() >> 11) as f64 / (1u64 << 53) as f64 * 100.0 < percent
    }

    /// Returns one of several items; the first ones are far more frequent than the last, as with names
    /// and paths.
    pub(crate) fn favour<'a, T>(&mut self, from: &'a [T]) -> &'a T {
        let skewed = (self.below(1 << 20) * self.below(1 << 20)) >> 20;
        &from[((skewed * from.len() as u64) >> 20) as usize]
    }

    /// Returns one of several items with equal probability.
    pub(crate) fn pick<'a, T>(&mut self, from: &'a [T]) -> &'a T {
        &from[self.below(from.len() as u64) as usize]
    }

    /// Returns milliseconds around `typical`, sometimes several times as many.
    pub(crate) fn latency_ms(&mut self, typical: u64) -> u64 {
        let tail = if self.percent(2.0) { self.between(3, 12) } else { 1 };
        (typical / 2 + self.below(typical.max(1))) * tail + 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sequences_are_reproducible_and_within_their_bounds() {
        let rolls = |words: &[u64]| {
            (0..100)
                .map({
                    let mut d = Random::of(words);
                    move |_| d.below(6)
                })
                .collect::<Vec<_>>()
        };
        assert_eq!(rolls(&[1, 2]), rolls(&[1, 2]));
        assert_ne!(rolls(&[1, 2]), rolls(&[2, 1]));
        assert!((0..6).all(|n| rolls(&[3]).contains(&n)) && rolls(&[3]).iter().all(|n| *n < 6));
        let mut dice = Random::of(&[4]);
        let favoured: Vec<usize> = (0..1000).map(|_| *dice.favour(&[0, 1, 2, 3])).collect();
        let count = |n| favoured.iter().filter(|f| **f == n).count();
        assert!(count(0) > 2 * count(3) && count(3) > 0, "{} {}", count(0), count(3));
        let often = (0..10_000).filter(|_| dice.percent(10.0)).count();
        assert!((800..1200).contains(&often), "{often}");
    }
}

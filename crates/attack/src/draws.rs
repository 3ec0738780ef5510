//! Pseudo-random numbers for attacks: a sequence that a seed determines (xorshift64, Marsaglia 2003).

/// A sequence of pseudo-random numbers.
pub struct Draws(u64);

impl Draws {
    /// Starts the sequence of a seed.
    pub fn new(seed: u64) -> Self {
        // A state of zero would stay zero.
        Self(seed | 1)
    }

    /// Returns a number of 56 bits.
    pub fn number(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 >> 8
    }

    /// Returns `count` random bytes.
    pub fn bytes(&mut self, count: usize) -> Vec<u8> {
        (0..count).map(|_| (self.number() >> 16) as u8).collect()
    }

    /// Returns a number below `end`, or 0 if `end` is 0.
    pub fn below(&mut self, end: usize) -> usize {
        (self.number() % end.max(1) as u64) as usize
    }

    /// Returns one of several items.
    ///
    /// # Panics
    /// If there are none.
    pub fn one<'a, T: ?Sized>(&mut self, of: &[&'a T]) -> &'a T {
        of[self.below(of.len())]
    }
}

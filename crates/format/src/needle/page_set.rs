//! A set of pages of a segment.

use std::ops::{BitAndAssign, BitOrAssign};

/// Most pages in a segment: 512 MiB of raw lines, about 4 MiB of filters.
pub const PAGES_MAX: usize = 512;

/// Pages of a segment, by their positions in it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PageSet([u64; PAGES_MAX / 64]);

impl PageSet {
    /// All positions, also those beyond the end of a segment.
    pub const ALL: Self = Self([u64::MAX; PAGES_MAX / 64]);

    /// Removes a position.
    ///
    /// # Panics
    /// If it is [`PAGES_MAX`] or more.
    pub fn remove(&mut self, at: usize) {
        self.0[at / 64] &= !(1 << (at % 64));
    }

    /// Whether a position is in the set.
    pub fn contains(&self, at: usize) -> bool {
        self.0.get(at / 64).is_some_and(|word| word >> (at % 64) & 1 == 1)
    }

    /// Whether the set is empty.
    pub fn is_empty(&self) -> bool {
        self.0.iter().all(|word| *word == 0)
    }
}

impl BitAndAssign for PageSet {
    fn bitand_assign(&mut self, other: Self) {
        self.0.iter_mut().zip(other.0).for_each(|(own, other)| *own &= other);
    }
}

impl BitOrAssign for PageSet {
    fn bitor_assign(&mut self, other: Self) {
        self.0.iter_mut().zip(other.0).for_each(|(own, other)| *own |= other);
    }
}

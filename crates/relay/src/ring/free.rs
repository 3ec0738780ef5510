//! Finds the next free position at or after a given one, in nearly constant time even if the ring is
//! crowded.

use std::collections::HashMap;

/// Positions that are taken; each points towards the next free one.
#[derive(Default)]
pub(super) struct Taken {
    next: HashMap<i64, i64, foldhash::fast::FixedState>,
}

impl Taken {
    /// Returns the first free position at or after `wanted`. There is no upper bound.
    pub(super) fn free_from(&mut self, wanted: i64) -> i64 {
        let mut free = wanted;
        while let Some(next) = self.next.get(&free) {
            free = *next;
        }
        let mut passed = wanted;
        while let Some(next) = self.next.get_mut(&passed) {
            passed = std::mem::replace(next, free);
        }
        free
    }

    /// Marks a position as taken.
    pub(super) fn take(&mut self, position: i64) {
        self.next.entry(position).or_insert(position + 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_search_in_a_crowded_range_ends_after_it() {
        let mut taken = Taken::default();
        for expected in 0..100_000 {
            let free = taken.free_from(expected / 3);
            assert!(free >= expected / 3);
            taken.take(free);
        }
        assert_eq!(taken.free_from(0), 100_000);
        assert_eq!(taken.free_from(100_001), 100_001);
    }
}

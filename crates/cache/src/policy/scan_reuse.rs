//! Whether values of large scans are reused within probation, learned from those that were refused.
//!
//! A scan that reads every value once gains nothing from flash, and costs it writes. But where a query is
//! split by time and a value spans several parts, each part reads it again within a moment, and then
//! it pays to hold a scan's values on probation. The reuse is counted: of the values refused, how many
//! were offered again before as many bytes left as probation holds. While scans are refused, all of them are
//! counted; while they are admitted, one key in [`PROBES`] is refused all the same to go on counting.
//! Admission needs more evidence than refusal: to refuse a value that is reused costs a request, while a scan
//! that is admitted once may write many times the capacity.
//!
//! **Invariants.** Memory is fixed. Shared references only; threads that count at the same instant may
//! lose a count. Same calls, same answers.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};

/// One key in so many is refused although scans are admitted.
const PROBES: u64 = 64;
/// Refused values after which is judged while scans are refused: one query of some hundred values that was
/// split is not enough. Then half of the counts are forgotten.
const ADMIT_AFTER: u32 = 1_024;
/// The same while scans are admitted, and only the probes are counted: each of them stands for [`PROBES`]
/// values that were written.
const REFUSE_AFTER: u32 = 64;
/// The least of both with a small sample.
const LEAST: u32 = 16;
/// Part of the refused values that must come back soon for scans to be admitted. Each one admitted costs
/// a write, and evicts something else of its size from probation.
const WORTHWHILE: f64 = 0.20;

/// Counts of refused values, and whether scans are admitted.
#[derive(Debug)]
pub(super) struct ScanReuse {
    sample: f64,
    refused: AtomicU32,
    returned: AtomicU32,
    is_worthwhile: AtomicBool,
}

impl ScanReuse {
    /// Takes scans for passes until they show something else. `sample` is the part of keys that is seen.
    pub(super) fn new(sample: f64) -> Self {
        Self {
            sample,
            refused: AtomicU32::new(0),
            returned: AtomicU32::new(0),
            is_worthwhile: AtomicBool::new(false),
        }
    }

    /// Whether a value that a large scan brings is refused at its first time.
    pub(super) fn refuses(&self, hash: u64) -> bool {
        !self.is_worthwhile.load(Relaxed) || is_probe(hash)
    }

    /// Counts a refused value.
    pub(super) fn note_refused(&self) {
        let refused = self.refused.load(Relaxed) + 1;
        if refused < self.window() {
            self.refused.store(refused, Relaxed);
            return;
        }
        let returned = self.returned.load(Relaxed);
        self.is_worthwhile.store(f64::from(returned) >= f64::from(refused) * WORTHWHILE, Relaxed);
        self.refused.store(refused / 2, Relaxed);
        self.returned.store(returned / 2, Relaxed);
    }

    /// Refused values after which is judged.
    fn window(&self) -> u32 {
        let whole = if self.is_worthwhile.load(Relaxed) { REFUSE_AFTER } else { ADMIT_AFTER };
        ((f64::from(whole) * self.sample) as u32).clamp(LEAST, whole)
    }

    /// Counts a value that came back soon, if it was refused.
    pub(super) fn note_returned(&self, hash: u64) {
        if self.refuses(hash) {
            self.returned.store(self.returned.load(Relaxed).saturating_add(1), Relaxed);
        }
    }
}

fn is_probe(hash: u64) -> bool {
    (hash >> 20).is_multiple_of(PROBES)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::splitmix::mix;

    #[test]
    fn one_query_that_was_split_does_not_admit_scans() {
        let reuse = ScanReuse::new(1.0);
        let refused_beside = |back: u32, others: u64| {
            (0..back).for_each(|at| reuse.note_returned(mix(u64::from(at))));
            (0..others).for_each(|_| reuse.note_refused());
        };
        refused_beside(150, 4_000);
        assert!(!reuse.is_worthwhile.load(Relaxed), "150 of 1,024 came back, and then no more");
        refused_beside(600, 100);
        assert!(reuse.is_worthwhile.load(Relaxed), "600 of 1,024 came back");
        refused_beside(0, 5 * u64::from(REFUSE_AFTER));
        assert!(!reuse.is_worthwhile.load(Relaxed), "of few probes none came back");
    }

    #[test]
    fn admits_scans_while_refused_parts_come_back_and_no_longer() {
        let reuse = ScanReuse::new(1.0);
        // Each value is offered once; `back` of ten that are refused return.
        let pass = |from: u64, back: u64| {
            let hashes = (from..from + 100_000).map(mix);
            for (number, hash) in hashes.enumerate().filter(|(_, hash)| reuse.refuses(*hash)) {
                reuse.note_refused();
                if (number as u64 ^ hash) % 10 < back {
                    reuse.note_returned(hash);
                }
            }
            reuse.is_worthwhile.load(Relaxed)
        };
        assert!(!pass(0, 0), "scans of single reads are refused");
        assert!(pass(1_000_000, 5), "half of the refused came back");
        assert!(!pass(2_000_000, 0), "the probes no longer do");
    }
}

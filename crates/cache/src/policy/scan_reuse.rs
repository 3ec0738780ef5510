//! Whether values of large scans are reused within probation, learned from values that were refused.
//!
//! A scan that reads every value once gains nothing from flash, and costs it writes. But if a query is
//! split by time and a value spans several parts, each part reads it again shortly after, and it pays to
//! hold a scan's values on probation. The reuse is measured: of the values refused, how many were
//! offered again before as many bytes left as probation holds. While scans are refused, all of them are
//! counted. While they are admitted, one key in [`PROBES`] is still refused, so that counting continues.
//! Admission needs more evidence than refusal: refusing a value that is reused costs a request, while a
//! scan that is admitted once may write many times the capacity.
//!
//! **Invariants.** Memory is fixed. All methods take a shared reference; concurrent threads may lose a
//! count. Equal calls return equal answers.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};

/// One key in this number is refused although scans are admitted.
const PROBES: u64 = 64;
/// Number of refused values after which a judgement is made while scans are refused. One split query of
/// some hundred values is not enough. Then the counts are halved.
const ADMIT_AFTER: u32 = 1_024;
/// The same while scans are admitted and only the probes are counted: each probe stands for [`PROBES`]
/// values that were written.
const REFUSE_AFTER: u32 = 64;
/// The smallest of either number with a small sample.
const LEAST: u32 = 16;
/// Share of the refused values that must come back soon for scans to be admitted. Each admitted value
/// costs a write, and evicts other values of its size from probation.
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
    /// Assumes that scans are not reused until they show otherwise. `sample` is the share of all keys
    /// that is seen.
    pub(super) fn new(sample: f64) -> Self {
        Self {
            sample,
            refused: AtomicU32::new(0),
            returned: AtomicU32::new(0),
            is_worthwhile: AtomicBool::new(false),
        }
    }

    /// Whether a value of a large scan is refused when it is offered for the first time.
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

    /// Number of refused values after which a judgement is made.
    fn window(&self) -> u32 {
        let whole = if self.is_worthwhile.load(Relaxed) { REFUSE_AFTER } else { ADMIT_AFTER };
        ((f64::from(whole) * self.sample) as u32).clamp(LEAST, whole)
    }

    /// Counts a value that came back soon, if it had been refused.
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
    fn one_split_query_does_not_admit_scans() {
        let reuse = ScanReuse::new(1.0);
        let returned_and_refused = |back: u32, others: u64| {
            (0..back).for_each(|at| reuse.note_returned(mix(u64::from(at))));
            (0..others).for_each(|_| reuse.note_refused());
        };
        returned_and_refused(150, 4_000);
        assert!(!reuse.is_worthwhile.load(Relaxed), "150 of 1,024 came back, and then no more");
        returned_and_refused(600, 100);
        assert!(reuse.is_worthwhile.load(Relaxed), "600 of 1,024 came back");
        returned_and_refused(0, 5 * u64::from(REFUSE_AFTER));
        assert!(!reuse.is_worthwhile.load(Relaxed), "none of a few probes came back");
    }

    #[test]
    fn scans_are_admitted_only_while_refused_values_come_back() {
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
        assert!(!pass(2_000_000, 0), "the probes do not come back any more");
    }
}

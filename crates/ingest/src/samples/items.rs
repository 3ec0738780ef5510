//! Selects items of a body that is read in parts.
//!
//! If the samples and labels of a body take more memory than one request may have, the body is read
//! several times, and each time a part of its items is decoded. An item is the unit that is read or
//! skipped: a series or a description of remote write, a point or a description of OTLP, a line of a
//! text. **Invariants.** Items have the same order each time. Refusals are reported while the refused
//! item is read, so the parts together report each refusal once.

use std::cell::Cell;

/// A range of the items of a body.
#[derive(Clone, Copy, Debug)]
pub struct Items<'a> {
    /// Number of items to skip at the beginning.
    pub first: u64,
    /// Most items to read.
    pub most: u64,
    /// Receives the number of items in the body, including skipped ones.
    pub met: Option<&'a Cell<u64>>,
}

impl Items<'static> {
    /// All items.
    pub const ALL: Self = Self { first: 0, most: u64::MAX, met: None };
}

impl Items<'_> {
    /// Whether no item is skipped.
    pub(crate) fn are_all(&self) -> bool {
        self.first == 0 && self.most == u64::MAX
    }

    /// Whether to read the item of this number. Counts the item in `met`.
    #[inline]
    pub(crate) fn takes(&self, number: u64) -> bool {
        if let Some(met) = self.met {
            met.set(number + 1);
        }
        number.checked_sub(self.first).is_some_and(|at| at < self.most)
    }
}

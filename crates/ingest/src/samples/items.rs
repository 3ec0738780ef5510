//! Items of a body, for one that is read in parts.
//!
//! A body whose samples and labels take more memory than one request may have is read several times, some
//! items each time. An item is what is read or left out as a whole: a series or a description of remote
//! write, a point or a description of OTLP, a line of a text. **Invariants.** Items are met in the same order
//! each time, and what is told of refusals is told by the item that is refused, so that parts tell it once.

use std::cell::Cell;

/// Which items of a body are read.
#[derive(Clone, Copy, Debug)]
pub struct Items<'a> {
    /// Items that are left out in front.
    pub first: u64,
    /// Items that are read, at most.
    pub most: u64,
    /// Where it is told how many items were met, those that are left out too.
    pub met: Option<&'a Cell<u64>>,
}

impl Items<'static> {
    /// All of them.
    pub const ALL: Self = Self { first: 0, most: u64::MAX, met: None };
}

impl Items<'_> {
    /// Whether no item is left out.
    pub(crate) fn are_all(&self) -> bool {
        self.first == 0 && self.most == u64::MAX
    }

    /// Whether the item of this number is read; it is met.
    #[inline]
    pub(crate) fn takes(&self, number: u64) -> bool {
        if let Some(met) = self.met {
            met.set(number + 1);
        }
        number.checked_sub(self.first).is_some_and(|at| at < self.most)
    }
}

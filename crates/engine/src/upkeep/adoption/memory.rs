//! The memory of rows of other live writers.
//!
//! All of them together have a part of the memory that writes always have. The part grows with the number of
//! writers, because each writer flushes earlier when there are others
//! ([`EngineOptions::shared_flush_bytes`]): so processes with equal limits can hold each other's rows.
//!
//! **Invariant.** When there is no memory, a writer that holds less than its equal share is served first:
//! until its rows fit, writers above their share get nothing.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use sandur_base::Id;
use sandur_base::units::ByteSize;
use sandur_memory::{MemoryBudget, Reservation};

use crate::options::EngineOptions;

/// Rows of other writers may take at most this fraction (3/4) of the memory that writes always have.
const MOST: (u64, u64) = (3, 4);

/// The memory of one writer's rows.
struct OfWriter {
    budget: MemoryBudget,
    /// Bytes that were refused although the writer had less than its share.
    lacks: u64,
}

/// The memory of rows of other live writers; a part of the write budget.
pub(super) struct FollowedMemory {
    all: MemoryBudget,
    /// Bytes of the write budget that are divided among all writers.
    base: u64,
    of_writers: Mutex<BTreeMap<Id, OfWriter>>,
}

impl FollowedMemory {
    pub(super) fn new(options: &EngineOptions) -> Self {
        let base = options.write_bytes_always();
        let all = options.write_budget.child("followed writers", limit_for(base, 1));
        Self { all, base, of_writers: Mutex::default() }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<Id, OfWriter>> {
        self.of_writers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Divides the memory among these other writers.
    pub(super) fn divide(&self, writers: &[Id]) {
        let mut of_writers = self.lock();
        of_writers.retain(|id, _| writers.contains(id));
        for id in writers {
            of_writers.entry(*id).or_insert_with(|| OfWriter {
                budget: self.all.child("followed writer", u64::MAX),
                lacks: 0,
            });
        }
        self.all.set_limit(limit_for(self.base, of_writers.len() as u64));
    }

    /// Reserves memory for rows of a writer; `None` if there is none for it now.
    pub(super) fn reserve(&self, writer: Id, bytes: u64) -> Option<Reservation> {
        let mut of_writers = self.lock();
        let share = self.all.limit() / (of_writers.len() as u64).max(1);
        let others_lack = of_writers.iter().any(|(id, of)| *id != writer && of.lacks > 0);
        let of = of_writers.get_mut(&writer)?;
        let is_below_share = of.budget.used().saturating_add(bytes) <= share;
        if others_lack && !is_below_share {
            return None;
        }
        match of.budget.reserve(bytes) {
            Ok(memory) => {
                of.lacks = 0;
                Some(memory)
            }
            Err(_) => {
                of.lacks = if is_below_share { bytes } else { 0 };
                None
            }
        }
    }

    /// Whether `bytes` for rows of a writer may fit now.
    pub(super) fn may_fit(&self, writer: Id, bytes: u64) -> bool {
        self.reserve(writer, bytes).is_some()
    }

    /// Notes that all rows of a writer are in memory or in blocks.
    pub(super) fn note_fit(&self, writer: Id) {
        if let Some(of) = self.lock().get_mut(&writer) {
            of.lacks = 0;
        }
    }

    /// Says that rows of other writers exceed their memory, and what to do.
    pub(super) fn refusal(&self) -> String {
        let limit = ByteSize(self.all.limit());
        format!(
            "rows of other writers exceed the memory budget 'followed writers' of {limit}; raise \
             --memory-limit"
        )
    }
}

/// The memory of the rows of `others` writers, if all writers together share `base` bytes.
fn limit_for(base: u64, others: u64) -> u64 {
    let others = others.max(1);
    let equal = base / (others + 1) * others;
    equal.min(base / MOST.1 * MOST.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn memory(writers: &[Id]) -> FollowedMemory {
        let write_budget = MemoryBudget::root("write", 1_000);
        let memory = FollowedMemory::new(&EngineOptions { write_budget, ..EngineOptions::default() });
        memory.divide(writers);
        memory
    }

    #[test]
    fn the_part_grows_with_the_number_of_writers() {
        assert_eq!([1, 2, 3, 4, 20].map(|others| limit_for(1_200, others)), [600, 800, 900, 900, 900]);
    }

    #[test]
    fn memory_is_lent_and_a_writer_below_its_share_is_served_first() {
        let writers = [Id(1), Id(2), Id(3)];
        let memory = memory(&writers);
        let mut lent: Vec<_> = (0..7).map(|_| memory.reserve(Id(1), 100).unwrap()).collect();
        assert!(memory.reserve(Id(2), 100).is_none(), "7 of 7.5 hundred are lent");
        lent.pop();
        assert!(memory.reserve(Id(1), 50).is_none(), "the writer below its share waits for this memory");
        let own = memory.reserve(Id(2), 100).unwrap();
        assert!(memory.reserve(Id(1), 50).is_some(), "nobody waits");
        drop((lent, own));
        memory.divide(&writers[..1]);
        assert!(memory.reserve(Id(2), 1).is_none(), "it is not followed any more");
        assert!(memory.reserve(Id(1), 500).is_some() && memory.reserve(Id(1), 501).is_none());
    }
}

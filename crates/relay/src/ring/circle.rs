//! A ring of positions in ascending order, which is walked from the position of a name's hash.
//!
//! **Invariants.** Positions ascend. A walk visits each entry at most once.

use std::ops::ControlFlow;

use super::Ring;

/// The hash of a name.
pub(super) type Hash = fn(&[u8]) -> i64;

/// Where a walk around the ring ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// After all entries.
    Round,
    /// One entry earlier, as in carbon, which then offers the only member of a ring of one additionally
    /// at the start.
    BeforeLast,
}

pub(super) struct Circle {
    entries: Vec<(i64, u32)>,
    members: usize,
    hash: Hash,
    end: End,
}

impl Circle {
    /// A ring of entries in ascending order.
    pub(super) fn new(entries: Vec<(i64, u32)>, members: usize, hash: Hash, end: End) -> Self {
        Self { entries, members, hash, end }
    }

    fn first(&self, position: i64) -> usize {
        let index = self.entries.partition_point(|(own, _)| *own < position);
        if index == self.entries.len() { 0 } else { index }
    }
}

impl Ring for Circle {
    fn offer(&self, name: &[u8], take: &mut dyn FnMut(usize) -> ControlFlow<()>) {
        let Some(entries) = self.entries.len().checked_sub(usize::from(self.end == End::BeforeLast)) else {
            return;
        };
        if self.end == End::BeforeLast && self.members == 1 && take(0).is_break() {
            return;
        }
        let first = self.first((self.hash)(name));
        // Most names need one or two members, so a linear search is fast.
        let mut offered: Vec<u32> = Vec::new();
        for step in 0..entries {
            let (_, member) = self.entries[(first + step) % self.entries.len()];
            if offered.contains(&member) {
                continue;
            }
            if take(member as usize).is_break() {
                return;
            }
            offered.push(member);
            if offered.len() == self.members {
                return;
            }
        }
    }

    fn positions(&self) -> Vec<(i64, usize)> {
        self.entries.iter().map(|(position, member)| (*position, *member as usize)).collect()
    }

    fn at(&self, position: i64) -> Option<usize> {
        self.entries.get(self.first(position)).map(|(_, member)| *member as usize)
    }
}

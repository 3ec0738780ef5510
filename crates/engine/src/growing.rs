//! A list that only grows and whose snapshots are cheap: they share full chunks and full runs of chunks,
//! and copy only the last chunk and the last run.

use std::sync::Arc;

/// Items per chunk, and chunks per run: a snapshot copies fewer than this many of each.
const CHUNK: usize = 256;
/// Items per run.
const RUN: usize = CHUNK * CHUNK;

type Chunk<T> = Arc<[T]>;

/// The growing list.
#[derive(Clone, Debug)]
pub struct Growing<T> {
    runs: Vec<Arc<[Chunk<T>]>>,
    /// Full chunks after the last full run.
    full: Vec<Chunk<T>>,
    open: Vec<T>,
}

impl<T> Default for Growing<T> {
    fn default() -> Self {
        Self { runs: Vec::new(), full: Vec::new(), open: Vec::new() }
    }
}

impl<T> Growing<T> {
    /// Appends an item.
    pub fn push(&mut self, item: T) {
        self.open.push(item);
        if self.open.len() == CHUNK {
            let chunk = std::mem::take(&mut self.open);
            self.full.push(chunk.into());
        }
        if self.full.len() == CHUNK {
            let run = std::mem::take(&mut self.full);
            self.runs.push(run.into());
        }
    }

    /// Number of items.
    pub fn len(&self) -> usize {
        self.runs.len() * RUN + self.full.len() * CHUNK + self.open.len()
    }

    /// The item at a position below [`Growing::len`].
    pub fn get(&self, at: usize) -> &T {
        if let Some(run) = self.runs.get(at / RUN) {
            return &run[at % RUN / CHUNK][at % CHUNK];
        }
        let at = at - self.runs.len() * RUN;
        match self.full.get(at / CHUNK) {
            Some(chunk) => &chunk[at % CHUNK],
            None => &self.open[at - self.full.len() * CHUNK],
        }
    }

    /// The items in order.
    pub fn iter(&self) -> impl Iterator<Item = &T> {
        let chunks = self.runs.iter().flat_map(|run| run.iter()).chain(&self.full);
        chunks.flat_map(|chunk| chunk.iter()).chain(&self.open)
    }

    /// The first position whose item fails `holds`, for a list in which the items that pass come first.
    pub fn partition_point(&self, mut holds: impl FnMut(&T) -> bool) -> usize {
        let (mut low, mut high) = (0, self.len());
        while low < high {
            let middle = low + (high - low) / 2;
            if holds(self.get(middle)) {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        low
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_snapshot_keeps_its_prefix_while_the_list_grows() {
        let mut list = Growing::default();
        for (part, all) in [(700_u32, 2_000_u32), (66_000, 140_000), (131_072, 131_329)] {
            (list.len() as u32..part).for_each(|n| list.push(n));
            let snapshot = list.clone();
            (part..all).for_each(|n| list.push(n));
            assert_eq!((snapshot.len(), list.len()), (part as usize, all as usize));
            assert!(snapshot.iter().copied().eq(0..part) && list.iter().copied().eq(0..all));
            assert!((0..all).all(|n| *list.get(n as usize) == n));
            for bound in [0, 1, 255, 256, 257, part - 1, part, all] {
                assert_eq!(snapshot.partition_point(|n| *n < bound), part.min(bound) as usize);
            }
            list = Growing::default();
        }
    }
}

//! A list that only grows and whose snapshots are cheap: full chunks are shared, only the open one
//! is copied.

use std::sync::Arc;

/// Items per chunk: a snapshot copies at most this many.
const CHUNK: usize = 256;

/// The growing list.
#[derive(Clone, Debug)]
pub struct Growing<T> {
    full: Vec<Arc<[T]>>,
    open: Vec<T>,
}

impl<T> Default for Growing<T> {
    fn default() -> Self {
        Self { full: Vec::new(), open: Vec::new() }
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
    }

    /// Number of items.
    pub fn len(&self) -> usize {
        self.full.len() * CHUNK + self.open.len()
    }

    /// The item at a position below [`Growing::len`].
    pub fn get(&self, at: usize) -> &T {
        match self.full.get(at / CHUNK) {
            Some(chunk) => &chunk[at % CHUNK],
            None => &self.open[at - self.full.len() * CHUNK],
        }
    }

    /// The items in order.
    pub fn iter(&self) -> impl Iterator<Item = &T> {
        self.full.iter().flat_map(|chunk| chunk.iter()).chain(&self.open)
    }

    /// The first position whose item fails `holds`, for a list on which it holds for a prefix.
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
        (0..700u32).for_each(|n| list.push(n));
        let snapshot = list.clone();
        (700..2000).for_each(|n| list.push(n));
        assert_eq!((snapshot.len(), list.len()), (700, 2000));
        assert!(snapshot.iter().copied().eq(0..700));
        assert!((0..2000).all(|n| *list.get(n) == n as u32));
        for bound in [0, 1, 255, 256, 257, 699, 700, 5000] {
            assert_eq!(snapshot.partition_point(|n| *n < bound), 700.min(bound as usize));
        }
    }
}

//! The tree of paths among a tenant's series in a head: the child nodes of each node.
//!
//! The path of a series is the values of its level labels. Inner nodes are in one list, the last nodes
//! of series in another. Each has a link to the previous one with the same parent, so the children of a
//! node form a chain. Numbers and chains never change. So a reader that walks the tree ([`super::walk`])
//! may release the lock between two steps; it may or may not see nodes that are added meanwhile.

use std::hash::BuildHasher;

use foldhash::fast::RandomState;
use hashbrown::HashTable;

/// The parent of all first nodes.
pub(super) const ROOT: u32 = 0;
/// The absence of a node.
const NONE: u32 = u32::MAX;
/// Rows that are allocated at once.
const CHUNK: usize = 4_096;
/// Bytes of an inner node: itself, and its entry in the hash table.
pub(super) const NODE_BYTES: u64 = size_of::<Node>() as u64 + 10;
/// Bytes of the last node of a series.
pub(super) const END_BYTES: u64 = size_of::<End>() as u64;

/// A list that never moves its elements.
struct Rows<T>(Vec<Vec<T>>);

/// An inner node.
#[derive(Clone, Copy)]
struct Node {
    parent: u32,
    /// The number of its name.
    value: u32,
    /// The previous node with the same parent.
    before: u32,
    last_node: u32,
    last_end: u32,
}

/// The last node of a series.
#[derive(Clone, Copy)]
struct End {
    value: u32,
    series: u32,
    /// The previous end with the same parent.
    before: u32,
}

/// The tree of paths.
pub(super) struct Paths {
    nodes: Rows<Node>,
    ends: Rows<End>,
    by_place: HashTable<u32>,
    hasher: RandomState,
    /// The nodes of the latest series, from the root: the next series usually shares most of them.
    latest: Vec<u32>,
}

impl<T> Rows<T> {
    fn len(&self) -> usize {
        self.0.last().map_or(0, |last| (self.0.len() - 1) * CHUNK + last.len())
    }

    fn push(&mut self, row: T) {
        match self.0.last_mut() {
            Some(last) if last.len() < CHUNK => last.push(row),
            _ => self.0.push(vec![row]),
        }
    }

    fn get(&self, at: u32) -> Option<&T> {
        self.0.get(at as usize / CHUNK)?.get(at as usize % CHUNK)
    }

    fn get_mut(&mut self, at: u32) -> Option<&mut T> {
        self.0.get_mut(at as usize / CHUNK)?.get_mut(at as usize % CHUNK)
    }
}

impl Default for Paths {
    fn default() -> Self {
        let root = Node { parent: NONE, value: NONE, before: NONE, last_node: NONE, last_end: NONE };
        let (by_place, hasher) = (HashTable::default(), RandomState::default());
        Self { nodes: Rows(vec![vec![root]]), ends: Rows(Vec::new()), by_place, hasher, latest: Vec::new() }
    }
}

impl Paths {
    /// Adds a series whose nodes have these names. No series may be added twice.
    pub(super) fn add(&mut self, names: impl ExactSizeIterator<Item = u32>, series: u32) {
        let inner = names.len().saturating_sub(1);
        let mut parent = ROOT;
        for (level, value) in names.enumerate() {
            if level < inner {
                parent = self.node_of(parent, level, value);
                continue;
            }
            let number = self.ends.len() as u32;
            let Some(of) = self.nodes.get_mut(parent) else { return };
            let before = std::mem::replace(&mut of.last_end, number);
            self.ends.push(End { value, series, before });
        }
    }

    /// The node with this name below another. Adds it if it does not exist.
    fn node_of(&mut self, parent: u32, level: usize, value: u32) -> u32 {
        let is_it = |node: &u32| self.is_at(*node, parent, value);
        if let Some(known) = self.latest.get(level).copied().filter(is_it) {
            return known;
        }
        let number = self.node(parent, value).unwrap_or_else(|| self.add_node(parent, value));
        self.latest.truncate(level);
        self.latest.push(number);
        number
    }

    fn add_node(&mut self, parent: u32, value: u32) -> u32 {
        let number = self.nodes.len() as u32;
        let before = match self.nodes.get_mut(parent) {
            Some(of) => std::mem::replace(&mut of.last_node, number),
            None => NONE,
        };
        self.nodes.push(Node { parent, value, before, last_node: NONE, last_end: NONE });
        let Self { nodes, hasher, by_place, .. } = self;
        let hash_of = |number: &u32| {
            hasher.hash_one(nodes.get(*number).map_or((NONE, NONE), |node| (node.parent, node.value)))
        };
        by_place.insert_unique(hash_of(&number), number, hash_of);
        number
    }

    fn is_at(&self, node: u32, parent: u32, value: u32) -> bool {
        self.nodes.get(node).is_some_and(|node| node.parent == parent && node.value == value)
    }

    /// The node with this name below another, if it exists.
    pub(super) fn node(&self, parent: u32, value: u32) -> Option<u32> {
        let is_it = |node: &u32| self.is_at(*node, parent, value);
        self.by_place.find(self.hasher.hash_one((parent, value)), is_it).copied()
    }

    /// The inner nodes below a node, with the numbers of their names.
    pub(super) fn nodes_below(&self, parent: u32) -> impl Iterator<Item = (u32, u32)> + '_ {
        let mut next = self.nodes.get(parent).map_or(NONE, |node| node.last_node);
        std::iter::from_fn(move || {
            let (number, node) = (next, self.nodes.get(next)?);
            next = node.before;
            Some((number, node.value))
        })
    }

    /// The series that end directly below a node, with the numbers of the names of their last nodes.
    pub(super) fn ends_below(&self, parent: u32) -> impl Iterator<Item = (u32, u32)> + '_ {
        let mut next = self.nodes.get(parent).map_or(NONE, |node| node.last_end);
        std::iter::from_fn(move || {
            let end = self.ends.get(next)?;
            next = end.before;
            Some((end.series, end.value))
        })
    }

    /// The numbers of the names of a node and its ancestors, from the node up.
    pub(super) fn names_up(&self, node: u32) -> impl Iterator<Item = u32> + '_ {
        let mut next = node;
        std::iter::from_fn(move || {
            let node = self.nodes.get(next).filter(|node| node.parent != NONE)?;
            next = node.parent;
            Some(node.value)
        })
    }

    /// Bytes of the tree.
    pub(super) fn bytes(&self) -> u64 {
        self.nodes.len() as u64 * NODE_BYTES + self.ends.len() as u64 * END_BYTES
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_node_is_below_its_parent_once() {
        let mut paths = Paths::default();
        for series in 0..100_000_u32 {
            let names = [series % 3, 10 + series % 7, 100 + series % 1_000, series];
            paths.add(names.into_iter(), series);
        }
        paths.add([5].into_iter(), 100_000);
        assert_eq!(paths.nodes_below(ROOT).map(|(_, value)| value).collect::<Vec<_>>(), [2, 1, 0]);
        assert_eq!(paths.ends_below(ROOT).collect::<Vec<_>>(), [(100_000, 5)]);
        let (mut nodes, mut ends, mut open) = (0, 0, vec![ROOT]);
        while let Some(node) = open.pop() {
            open.extend(paths.nodes_below(node).map(|(below, _)| below));
            for (series, value) in paths.ends_below(node).filter(|(series, _)| *series < 100_000) {
                assert_eq!(value, series);
                let expected = [100 + series % 1_000, 10 + series % 7, series % 3];
                assert_eq!(paths.names_up(node).collect::<Vec<_>>(), expected);
                ends += 1;
            }
            nodes += 1;
        }
        assert_eq!((ends, nodes), (100_000, 1 + 3 + 21 + 21_000));
        let below = paths.node(ROOT, 2).and_then(|node| paths.node(node, 16)).unwrap();
        assert_eq!(paths.nodes_below(below).count(), 1_000);
        assert_eq!(paths.node(below, 7), None);
        assert_eq!(paths.bytes(), nodes * NODE_BYTES + 100_001 * END_BYTES);
    }
}

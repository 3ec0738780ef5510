//! A map that orders its entries by their last use. Its owner decides what to evict and when, because
//! owners bound memory in different ways.
//!
//! **Invariant.** Every entry is in the order exactly once.

use std::borrow::Borrow;
use std::collections::hash_map::RandomState;
use std::collections::{BTreeMap, HashMap};
use std::hash::{BuildHasher, Hash};

/// A map from keys to values, ordered by last use.
pub struct LruMap<K, V, S = RandomState> {
    entries: HashMap<K, Entry<V>, S>,
    /// Keys by the number of their last use, the least recent first.
    order: BTreeMap<u64, K>,
    uses: u64,
}

struct Entry<V> {
    value: V,
    used: u64,
}

impl<K, V, S: Default> Default for LruMap<K, V, S> {
    fn default() -> Self {
        Self { entries: HashMap::default(), order: BTreeMap::new(), uses: 0 }
    }
}

impl<K: Clone + Eq + Hash, V, S: BuildHasher> LruMap<K, V, S> {
    /// The number of entries.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether the map has no entries.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// The value of a key, which becomes the most recently used entry.
    pub fn get<Q: Eq + Hash + ?Sized>(&mut self, key: &Q) -> Option<&V>
    where
        K: Borrow<Q>,
    {
        let entry = self.entries.get_mut(key)?;
        let key = self.order.remove(&entry.used)?;
        self.uses += 1;
        entry.used = self.uses;
        self.order.insert(self.uses, key);
        Some(&entry.value)
    }

    /// The value of a key; does not count as a use.
    pub fn peek<Q: Eq + Hash + ?Sized>(&self, key: &Q) -> Option<&V>
    where
        K: Borrow<Q>,
    {
        self.entries.get(key).map(|entry| &entry.value)
    }

    /// Inserts a value, which becomes the most recently used; returns the value that it replaces.
    pub fn insert(&mut self, key: K, value: V) -> Option<V> {
        let replaced = self.remove(&key);
        self.uses += 1;
        self.order.insert(self.uses, key.clone());
        self.entries.insert(key, Entry { value, used: self.uses });
        replaced
    }

    /// Removes an entry.
    pub fn remove<Q: Eq + Hash + ?Sized>(&mut self, key: &Q) -> Option<V>
    where
        K: Borrow<Q>,
    {
        let entry = self.entries.remove(key)?;
        self.order.remove(&entry.used);
        Some(entry.value)
    }

    /// Removes the least recently used entry.
    pub fn pop_least_recent(&mut self) -> Option<(K, V)> {
        let (_, key) = self.order.pop_first()?;
        let entry = self.entries.remove(&key)?;
        Some((key, entry.value))
    }

    /// The entries, the least recently used first.
    pub fn from_least_recent(&self) -> impl Iterator<Item = (&K, &V)> {
        self.order.values().filter_map(|key| Some((key, &self.entries.get(key)?.value)))
    }

    /// Removes all entries.
    pub fn clear(&mut self) {
        self.entries.clear();
        self.order.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn order(map: &LruMap<String, u32>) -> String {
        map.from_least_recent().map(|(key, value)| format!("{key}{value} ")).collect()
    }

    #[test]
    fn entries_are_ordered_by_their_last_use() {
        let mut map: LruMap<String, u32> = LruMap::default();
        for (key, value) in [("a", 1), ("b", 2), ("c", 3)] {
            assert_eq!(map.insert(key.to_owned(), value), None);
        }
        assert_eq!(map.get("a").copied(), Some(1));
        assert_eq!((map.peek("b").copied(), map.get("x").copied()), (Some(2), None));
        assert_eq!(order(&map), "b2 c3 a1 ");
        assert_eq!(map.insert("b".to_owned(), 9), Some(2));
        assert_eq!(order(&map), "c3 a1 b9 ");
        assert_eq!(map.pop_least_recent(), Some(("c".to_owned(), 3)));
        assert_eq!((map.remove("a"), map.remove("a"), map.len()), (Some(1), None, 1));
        map.clear();
        assert_eq!((map.is_empty(), map.pop_least_recent(), order(&map)), (true, None, String::new()));
    }
}

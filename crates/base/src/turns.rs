//! A queue that is served round-robin over its parties, regardless of how much each has waiting.
//!
//! Elements of one party are in the order of their arrival, except those that are pushed to the front. This
//! module is pure data: the CPU pool, the admission of queries and the requests to a store wait in it.

use std::collections::{HashMap, VecDeque};
use std::hash::Hash;

/// A queue of `T` by parties `K`. Each element has a number.
#[derive(Debug)]
pub struct Turns<K, T> {
    lines: HashMap<K, VecDeque<(u64, T)>>,
    /// Parties with waiting elements, in round-robin order.
    order: VecDeque<K>,
    waiting: usize,
    numbered: u64,
}

impl<K, T> Default for Turns<K, T> {
    fn default() -> Self {
        Self { lines: HashMap::new(), order: VecDeque::new(), waiting: 0, numbered: 0 }
    }
}

impl<K: Clone + Eq + Hash, T> Turns<K, T> {
    /// The number of waiting elements.
    pub fn len(&self) -> usize {
        self.waiting
    }

    /// Whether nothing waits.
    pub fn is_empty(&self) -> bool {
        self.waiting == 0
    }

    /// All waiting elements, in no order.
    pub fn iter(&self) -> impl Iterator<Item = &T> {
        self.lines.values().flatten().map(|(_, item)| item)
    }

    /// Whether a party other than this one waits.
    pub fn others_wait(&self, own: &K) -> bool {
        self.order.iter().any(|party| party != own)
    }

    /// Adds an element behind those of its party; returns its number, for [`Turns::leave`].
    pub fn push(&mut self, party: K, item: T) -> u64 {
        let number = self.number();
        self.line(party).push_back((number, item));
        number
    }

    /// Adds an element before those of its party; returns its number.
    pub fn push_first(&mut self, party: K, item: T) -> u64 {
        let number = self.number();
        self.line(party).push_front((number, item));
        number
    }

    /// Removes the next element.
    pub fn pop(&mut self) -> Option<T> {
        self.pop_where(|_| true).map(|(_, item)| item)
    }

    /// Removes the next element of the first party in turn that may have it.
    pub fn pop_where(&mut self, may: impl Fn(&K) -> bool) -> Option<(K, T)> {
        let at = self.order.iter().position(may)?;
        let party = self.order.remove(at)?;
        let line = self.lines.get_mut(&party).expect("every party in the order has a queue");
        let (_, item) = line.pop_front().expect("the queue of a party in the order is not empty");
        self.waiting -= 1;
        if line.is_empty() {
            self.lines.remove(&party);
        } else {
            self.order.push_back(party.clone());
        }
        Some((party, item))
    }

    /// Removes the elements of a party that are not kept; returns how many are left.
    pub fn retain(&mut self, party: &K, keep: impl Fn(&T) -> bool) -> usize {
        let Some(line) = self.lines.get_mut(party) else { return 0 };
        let before = line.len();
        line.retain(|(_, item)| keep(item));
        let left = line.len();
        self.waiting -= before - left;
        if left == 0 {
            self.forget(party);
        }
        left
    }

    /// Removes an element; has no effect if it was removed already.
    pub fn leave(&mut self, party: &K, number: u64) {
        let Some(line) = self.lines.get_mut(party) else { return };
        let Some(at) = line.iter().position(|(n, _)| *n == number) else { return };
        line.remove(at);
        self.waiting -= 1;
        if line.is_empty() {
            self.forget(party);
        }
    }

    fn number(&mut self) -> u64 {
        self.numbered += 1;
        self.waiting += 1;
        self.numbered
    }

    fn line(&mut self, party: K) -> &mut VecDeque<(u64, T)> {
        if !self.lines.contains_key(&party) {
            self.order.push_back(party.clone());
        }
        self.lines.entry(party).or_default()
    }

    fn forget(&mut self, party: &K) {
        self.lines.remove(party);
        self.order.retain(|other| other != party);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parties_are_served_round_robin_and_front_elements_first() {
        let mut turns = Turns::default();
        for n in 0..3 {
            turns.push("a", format!("a{n}"));
        }
        turns.push("b", "b0".to_owned());
        turns.push("own", "own".to_owned());
        turns.push_first("a", "again".to_owned());
        assert!(turns.others_wait(&"a") && turns.iter().count() == 6);
        let order: Vec<String> = std::iter::from_fn(|| turns.pop()).collect();
        assert_eq!(order, ["again", "b0", "own", "a0", "a1", "a2"]);
        assert!(turns.is_empty() && turns.lines.is_empty());
    }

    #[test]
    fn a_party_that_may_not_is_passed_over_and_keeps_its_turn() {
        let mut turns = Turns::default();
        for (party, item) in [("a", 1), ("b", 2), ("a", 3)] {
            turns.push(party, item);
        }
        assert_eq!(turns.pop_where(|party| *party == "b"), Some(("b", 2)));
        assert_eq!(turns.pop_where(|party| *party == "b"), None);
        assert_eq!((turns.pop(), turns.pop(), turns.pop()), (Some(1), Some(3), None));
    }

    #[test]
    fn elements_that_leave_are_removed() {
        let mut turns = Turns::default();
        let first = turns.push("a", 1);
        let second = turns.push("a", 2);
        let other = turns.push("b", 3);
        turns.leave(&"a", first);
        turns.leave(&"a", first);
        turns.leave(&"b", other);
        turns.leave(&"absent", 9);
        assert_eq!((turns.len(), turns.pop(), turns.pop()), (1, Some(2), None));
        turns.leave(&"a", second);
        (0..4).for_each(|n| _ = turns.push("a", n));
        assert_eq!((turns.retain(&"a", |n| n % 2 == 0), turns.len()), (2, 2));
        assert_eq!((turns.retain(&"a", |_| false), turns.len(), turns.pop()), (0, 0, None));
    }
}

//! A queue that is served round-robin over tenants.
//!
//! Requests of one tenant are in the order of their arrival, except that a retry goes to the front,
//! because it has waited before. This module is pure data.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

/// The tenant of a request; `None` for the database itself.
pub(crate) type Whose = Option<Arc<str>>;

/// A queue of `T`; each element has a number.
#[derive(Debug)]
pub(crate) struct Turns<T> {
    lines: HashMap<Whose, VecDeque<(u64, T)>>,
    /// Tenants with waiting requests, in round-robin order.
    order: VecDeque<Whose>,
    waiting: usize,
    numbered: u64,
}

impl<T> Default for Turns<T> {
    fn default() -> Self {
        Self { lines: HashMap::new(), order: VecDeque::new(), waiting: 0, numbered: 0 }
    }
}

impl<T> Turns<T> {
    /// The number of waiting elements.
    pub fn len(&self) -> usize {
        self.waiting
    }

    /// Adds an element; returns its number, for [`Turns::leave`].
    pub fn push(&mut self, whose: Whose, is_repeated: bool, item: T) -> u64 {
        self.numbered += 1;
        self.waiting += 1;
        let number = self.numbered;
        let line = self.lines.entry(whose.clone()).or_default();
        if line.is_empty() {
            self.order.push_back(whose);
        }
        if is_repeated {
            line.push_front((number, item));
        } else {
            line.push_back((number, item));
        }
        number
    }

    /// Removes the next element.
    pub fn pop(&mut self) -> Option<T> {
        let whose = self.order.pop_front()?;
        let line = self.lines.get_mut(&whose).expect("every tenant in the order has a queue");
        let (_, item) = line.pop_front().expect("the queue of a tenant in the order is not empty");
        self.waiting -= 1;
        if line.is_empty() {
            self.lines.remove(&whose);
        } else {
            self.order.push_back(whose);
        }
        Some(item)
    }

    /// Removes an element; has no effect if it was removed already.
    pub fn leave(&mut self, whose: &Whose, number: u64) {
        let Some(line) = self.lines.get_mut(whose) else { return };
        let Some(at) = line.iter().position(|(n, _)| *n == number) else { return };
        line.remove(at);
        self.waiting -= 1;
        if line.is_empty() {
            self.lines.remove(whose);
            self.order.retain(|other| other != whose);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn whose(name: &str) -> Whose {
        Some(name.into())
    }

    #[test]
    fn tenants_are_served_round_robin_and_retries_go_first() {
        let mut turns = Turns::default();
        for n in 0..3 {
            turns.push(whose("a"), false, format!("a{n}"));
        }
        turns.push(whose("b"), false, "b0".to_owned());
        turns.push(None, false, "own".to_owned());
        turns.push(whose("a"), true, "again".to_owned());
        let order: Vec<String> = std::iter::from_fn(|| turns.pop()).collect();
        assert_eq!(order, ["again", "b0", "own", "a0", "a1", "a2"]);
        assert!(turns.len() == 0 && turns.lines.is_empty());
    }

    #[test]
    fn an_element_that_leaves_is_removed() {
        let mut turns = Turns::default();
        let first = turns.push(whose("a"), false, 1);
        let second = turns.push(whose("a"), false, 2);
        let other = turns.push(None, false, 3);
        turns.leave(&whose("a"), first);
        turns.leave(&whose("a"), first);
        turns.leave(&None, other);
        turns.leave(&whose("absent"), 9);
        assert_eq!((turns.len(), turns.pop(), turns.pop()), (1, Some(2), None));
        turns.leave(&whose("a"), second);
        assert_eq!(turns.len(), 0);
    }
}

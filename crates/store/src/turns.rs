//! A bounded line in which tenants take turns.
//!
//! Within a tenant the order is that of arrival; between tenants each in turn lets one pass. Who
//! repeats a request stands at the front of its tenant's line: it has waited already. Pure data.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

/// Whose turn it is: a tenant's, or the database's own.
pub(crate) type Whose = Option<Arc<str>>;

/// A line of waiting `T`, each with a number.
#[derive(Debug)]
pub(crate) struct Turns<T> {
    lines: HashMap<Whose, VecDeque<(u64, T)>>,
    /// Tenants with waiting requests, in the order of their turns.
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
    /// How many wait.
    pub fn len(&self) -> usize {
        self.waiting
    }

    /// Lines up; the number is for leaving early.
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

    /// The next one.
    pub fn pop(&mut self) -> Option<T> {
        let whose = self.order.pop_front()?;
        let line = self.lines.get_mut(&whose).expect("whoever has a turn has a line");
        let (_, item) = line.pop_front().expect("a line with a turn is not empty");
        self.waiting -= 1;
        if line.is_empty() {
            self.lines.remove(&whose);
        } else {
            self.order.push_back(whose);
        }
        Some(item)
    }

    /// Leaves the line; nothing when its turn has come already.
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
    fn tenants_take_turns_and_repeated_requests_go_first() {
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
    fn whoever_leaves_is_forgotten() {
        let mut turns = Turns::default();
        let first = turns.push(whose("a"), false, 1);
        let second = turns.push(whose("a"), false, 2);
        let other = turns.push(None, false, 3);
        turns.leave(&whose("a"), first);
        turns.leave(&whose("a"), first);
        turns.leave(&None, other);
        turns.leave(&whose("nobody"), 9);
        assert_eq!((turns.len(), turns.pop(), turns.pop()), (1, Some(2), None));
        turns.leave(&whose("a"), second);
        assert_eq!(turns.len(), 0);
    }
}

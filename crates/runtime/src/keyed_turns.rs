//! Queues by key: work on the same key runs one piece at a time, in the order of the requests; work
//! without a key in common runs concurrently.
//!
//! **Invariants.** A place waits only for earlier places, so there is no deadlock. A key is in the table
//! exactly while it has a place.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

/// The queue of each key. Cheap to clone: a handle.
#[derive(Clone, Default)]
pub struct KeyedTurns(Arc<Mutex<Table>>);

#[derive(Default)]
struct Table {
    queues: HashMap<u64, Queue>,
    waiting: HashMap<u64, Waiting>,
    /// The number of the next place.
    next: u64,
}

/// The places of one key, by number: the one whose turn it is, and those that wait.
struct Queue {
    front: u64,
    others: VecDeque<u64>,
}

/// A place that is not at the front of all its queues.
struct Waiting {
    /// The number of such queues.
    queues: usize,
    news: Arc<Notify>,
}

/// A place in the queues of one or more keys. Dropping it ends its turn or its wait.
pub struct Place {
    turns: KeyedTurns,
    number: u64,
    keys: Vec<u64>,
    news: Arc<Notify>,
}

/// The most memory of one key of a place, in bytes: its entry in a table that has just doubled (16/7 of
/// an entry per key), in `Place::keys`, and in the queue of another place.
pub const KEY_BYTES: u64 = (size_of::<(u64, Queue)>() as u64 + 1) * 16 / 7 + 32;

impl KeyedTurns {
    /// Takes a place in the queues of these keys. Turns come in the order of the calls.
    pub fn queue(&self, keys: impl IntoIterator<Item = u64>) -> Place {
        let mut keys: Vec<u64> = keys.into_iter().collect();
        keys.sort_unstable();
        keys.dedup();
        let mut table = self.table();
        let number = table.next;
        table.next += 1;
        let mut queues = 0;
        for key in &keys {
            match table.queues.entry(*key) {
                Entry::Vacant(new) => drop(new.insert(Queue { front: number, others: VecDeque::new() })),
                Entry::Occupied(mut queue) => {
                    queue.get_mut().others.push_back(number);
                    queues += 1;
                }
            }
        }
        let news = Arc::new(Notify::new());
        if queues > 0 {
            table.waiting.insert(number, Waiting { queues, news: Arc::clone(&news) });
        }
        drop(table);
        Place { turns: self.clone(), number, keys, news }
    }

    /// How many keys have a place.
    pub fn keys(&self) -> usize {
        self.table().queues.len()
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Table {
    /// Removes a place from the queue of a key.
    fn leave(&mut self, key: u64, number: u64) {
        let Some(queue) = self.queues.get_mut(&key) else { return };
        if queue.front != number {
            queue.others.retain(|other| *other != number);
            return;
        }
        let Some(next) = queue.others.pop_front() else {
            self.queues.remove(&key);
            return;
        };
        queue.front = next;
        let Some(waiting) = self.waiting.get_mut(&next) else { return };
        waiting.queues -= 1;
        if waiting.queues == 0 {
            waiting.news.notify_one();
            self.waiting.remove(&next);
        }
    }
}

impl Place {
    /// Waits for the turn. The turn lasts until the place is dropped.
    pub async fn wait(&mut self) {
        while self.turns.table().waiting.contains_key(&self.number) {
            self.news.notified().await;
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut table = self.turns.table();
        table.waiting.remove(&self.number);
        for key in std::mem::take(&mut self.keys) {
            table.leave(key, self.number);
        }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    fn has_turn(place: &mut Place) -> bool {
        place.wait().now_or_never().is_some()
    }

    #[test]
    fn places_with_a_common_key_take_turns_in_the_order_of_their_requests() {
        let turns = KeyedTurns::default();
        let mut first = turns.queue([1, 2, 2]);
        let mut second = turns.queue([2, 3]);
        let mut third = turns.queue([3]);
        let mut other = turns.queue([4]);
        assert!(has_turn(&mut first) && has_turn(&mut other));
        assert!(!has_turn(&mut second) && !has_turn(&mut third));
        drop(first);
        assert!(!has_turn(&mut third) && has_turn(&mut second));
        drop(second);
        assert!(has_turn(&mut third));
        drop((third, other));
        assert_eq!(turns.keys(), 0);
    }

    #[test]
    fn dropping_a_waiting_place_keeps_later_ones_waiting_for_earlier_ones() {
        let turns = KeyedTurns::default();
        let first = turns.queue([1]);
        let given_up = turns.queue([1, 2]);
        let mut second = turns.queue([1]);
        drop(given_up);
        let mut later = turns.queue([2]);
        assert!(has_turn(&mut later), "no other place has the key");
        let mut latest = turns.queue([1]);
        assert!(!has_turn(&mut second) && !has_turn(&mut latest));
        drop(first);
        assert!(has_turn(&mut second) && !has_turn(&mut latest));
        drop((second, later));
        assert!(has_turn(&mut latest));
        drop(latest);
        assert_eq!(turns.keys(), 0);
    }

    #[test]
    fn a_new_place_waits_for_the_first_after_the_last_was_dropped() {
        let turns = KeyedTurns::default();
        let first = turns.queue([1]);
        drop(turns.queue([1]));
        let mut next = turns.queue([1]);
        assert!(!has_turn(&mut next));
        drop(first);
        assert!(has_turn(&mut next));
        drop(next);
        assert_eq!(turns.keys(), 0);
    }
}

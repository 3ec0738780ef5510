//! Single flight: callers that request the same key at the same time share one execution.
//!
//! The first caller of a key is the leader; the others follow and wait for its value. A leader works in
//! one of two ways. It computes the value itself and calls [`Leader::settle`]; then the flight ends when
//! the leader fails or is dropped, and the followers learn that there is no value and compute it
//! themselves. Or it calls [`Leader::run`], which works in a task that is aborted only when no caller
//! waits any more.
//!
//! **Invariants.** A key is in the table exactly while its work runs; a later caller starts a new
//! flight. No caller waits for a flight that can no longer yield a value.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};

use tokio::sync::watch;

use crate::env::Env;
use crate::task::Task;

/// The flights in progress, by key.
pub struct SingleFlight<K: Key, V>(Arc<Mutex<Table<K, V>>>);

/// The key of a flight.
pub trait Key: Clone + Eq + Hash + Send + Sync + 'static {}

impl<K: Clone + Eq + Hash + Send + Sync + 'static> Key for K {}

struct Table<K: Key, V> {
    flights: HashMap<K, (u64, Weak<Flight<K, V>>)>,
    begun: u64,
}

/// What a caller must do.
pub enum Role<K: Key, V> {
    /// Compute the value.
    Lead(Leader<K, V>),
    /// Wait for the value of the leader.
    Follow(Follower<K, V>),
}

/// Leads the flight of a key. Dropping it without a value wakes its followers with `None`.
pub struct Leader<K: Key, V> {
    flight: Arc<Flight<K, V>>,
    landing: Landing<K, V>,
}

/// Waits for the value of the flight of a key.
pub struct Follower<K: Key, V>(Arc<Flight<K, V>>);

/// Exists while a caller leads or follows.
struct Flight<K: Key, V> {
    entry: Entry<K, V>,
    value: watch::Receiver<Option<V>>,
    /// The task of [`Leader::run`]; aborted when the flight is dropped.
    work: OnceLock<Task<()>>,
}

/// Publishes the value. Dropping it removes the flight from the table.
struct Landing<K: Key, V> {
    entry: Entry<K, V>,
    value: watch::Sender<Option<V>>,
}

/// The place of a flight in the table.
struct Entry<K: Key, V> {
    table: Arc<Mutex<Table<K, V>>>,
    key: K,
    number: u64,
}

impl<K: Key, V> Default for SingleFlight<K, V> {
    fn default() -> Self {
        Self(Arc::new(Mutex::new(Table { flights: HashMap::new(), begun: 0 })))
    }
}

impl<K: Key, V> SingleFlight<K, V> {
    /// Becomes the leader of the flight of `key`, or follows its leader.
    pub fn join(&self, key: K) -> Role<K, V> {
        let mut table = lock(&self.0);
        if let Some(flight) = table.flights.get(&key).and_then(|(_, flight)| flight.upgrade()) {
            return Role::Follow(Follower(flight));
        }
        table.begun += 1;
        let number = table.begun;
        let entry = || Entry { table: Arc::clone(&self.0), key: key.clone(), number };
        let (sender, value) = watch::channel(None);
        let flight = Arc::new(Flight { entry: entry(), value, work: OnceLock::new() });
        table.flights.insert(key.clone(), (number, Arc::downgrade(&flight)));
        Role::Lead(Leader { flight, landing: Landing { entry: entry(), value: sender } })
    }

    /// The number of flights in progress.
    pub fn count(&self) -> usize {
        lock(&self.0).flights.len()
    }
}

fn lock<K: Key, V>(table: &Mutex<Table<K, V>>) -> MutexGuard<'_, Table<K, V>> {
    table.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<K: Key, V> Leader<K, V> {
    /// Gives the value to all followers. The caller must first store the value where callers look before
    /// they join: a later caller finds it there.
    pub fn settle(self, value: V) {
        self.landing.value.send_replace(Some(value));
    }
}

impl<K: Key, V: Send + Sync + 'static> Leader<K, V> {
    /// Computes the value in a task, and becomes a follower. A caller that goes away or does not poll
    /// does not delay the others; when the last one is gone, the task is aborted.
    pub fn run<F>(self, env: &Env, name: &'static str, work: F) -> Follower<K, V>
    where
        F: Future<Output = V> + Send + 'static,
    {
        let Self { flight, landing } = self;
        let task = env.spawn(name, async move {
            let value = work.await;
            landing.value.send_replace(Some(value));
        });
        // `run` consumes the only leader, so the cell is set once.
        let _ = flight.work.set(task);
        Follower(flight)
    }
}

impl<K: Key, V: Clone> Follower<K, V> {
    /// The value; `None` when the leader failed or was dropped.
    pub async fn value(self) -> Option<V> {
        let mut value = self.0.value.clone();
        value.wait_for(Option::is_some).await.ok().and_then(|value| value.clone())
    }
}

impl<K: Key, V> Entry<K, V> {
    fn remove(&self) {
        let mut table = lock(&self.table);
        if table.flights.get(&self.key).is_some_and(|(number, _)| *number == self.number) {
            table.flights.remove(&self.key);
        }
    }
}

impl<K: Key, V> Drop for Landing<K, V> {
    fn drop(&mut self) {
        self.entry.remove();
    }
}

impl<K: Key, V> Drop for Flight<K, V> {
    fn drop(&mut self) {
        self.entry.remove();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};
    use std::time::Duration;

    use super::*;

    type Flights = SingleFlight<&'static str, u32>;

    fn lead(flights: &Flights) -> Leader<&'static str, u32> {
        let Role::Lead(leader) = flights.join("k") else { panic!("there is no other leader") };
        leader
    }

    fn follow(flights: &Flights) -> Follower<&'static str, u32> {
        let Role::Follow(follower) = flights.join("k") else { panic!("there is a leader") };
        follower
    }

    #[tokio::test]
    async fn followers_get_the_value_of_the_leader_or_none_if_it_is_dropped() {
        let flights = Flights::default();
        let leader = lead(&flights);
        let (first, second) = (follow(&flights), follow(&flights));
        leader.settle(7);
        assert_eq!((first.value().await, second.value().await), (Some(7), Some(7)));
        assert_eq!(flights.count(), 0);
        let leader = lead(&flights);
        let waiting = follow(&flights);
        drop(leader);
        assert_eq!((waiting.value().await, flights.count()), (None, 0));
    }

    #[tokio::test]
    async fn a_caller_after_the_value_is_set_leads_while_others_hold_the_flight() {
        let flights = Flights::default();
        let leader = lead(&flights);
        let slow = follow(&flights);
        leader.settle(1);
        lead(&flights).settle(2);
        assert_eq!((slow.value().await, flights.count()), (Some(1), 0));
    }

    /// Work that lasts a tenth of a second; adds 1 to `count` when it begins and 100 when it ends.
    fn work(env: &Env, count: &Arc<AtomicU32>) -> impl Future<Output = u32> + Send + use<> {
        let (env, count) = (env.clone(), Arc::clone(count));
        async move {
            count.fetch_add(1, Ordering::Relaxed);
            env.sleep(Duration::from_millis(100)).await;
            count.fetch_add(100, Ordering::Relaxed);
            7
        }
    }

    #[tokio::test(start_paused = true)]
    async fn work_survives_its_first_caller_and_is_aborted_with_the_last() {
        let (env, flights, count) = (Env::simulated(1, 0), Flights::default(), Arc::default());
        let first = lead(&flights).run(&env, "work", work(&env, &count));
        let second = follow(&flights);
        assert!(env.timeout(Duration::from_millis(10), first.value()).await.is_none());
        assert_eq!(second.value().await, Some(7));
        assert_eq!((count.load(Ordering::Relaxed), flights.count()), (101, 0));
        let only = lead(&flights).run(&env, "work", work(&env, &count));
        assert!(env.timeout(Duration::from_millis(10), only.value()).await.is_none());
        assert_eq!(flights.count(), 0, "removed at once, so that no caller joins aborted work");
        env.sleep(Duration::from_secs(1)).await;
        assert_eq!(count.load(Ordering::Relaxed), 102);
    }

    #[tokio::test]
    async fn followers_of_work_that_panicked_get_none() {
        let (env, flights) = (Env::simulated(1, 0), Flights::default());
        let follower = lead(&flights).run(&env, "work", async { panic!("boom") });
        assert_eq!((follower.value().await, flights.count()), (None, 0));
    }
}

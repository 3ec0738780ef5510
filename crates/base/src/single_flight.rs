//! Single flight: callers who want the same thing at the same time share one piece of work.
//!
//! The first caller of a key is the leader, the others follow and wait for its value. A leader works in one
//! of two ways: by itself ([`Leader::settle`]), then its flight ends when it fails or goes away, and the
//! followers are told to help themselves; or in a task ([`Leader::run`]), which ends only when no caller
//! waits any more.
//!
//! **Invariants.** A key is in the table exactly while its work goes on: a later caller begins anew.
//! No caller waits for a flight that can bring no value any more.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};

use tokio::sync::watch;

use crate::env::Env;
use crate::task::Task;

/// The flights under way.
pub struct SingleFlight<K: Key, V>(Arc<Mutex<Table<K, V>>>);

/// What flights are told apart by.
pub trait Key: Clone + Eq + Hash + Send + Sync + 'static {}

impl<K: Clone + Eq + Hash + Send + Sync + 'static> Key for K {}

struct Table<K: Key, V> {
    flights: HashMap<K, (u64, Weak<Flight<K, V>>)>,
    begun: u64,
}

/// What a caller has to do.
pub enum Role<K: Key, V> {
    /// The work.
    Lead(Leader<K, V>),
    /// Wait for the leader.
    Follow(Follower<K, V>),
}

/// Leads the flight of a key. Dropping it without a value tells its followers so.
pub struct Leader<K: Key, V> {
    flight: Arc<Flight<K, V>>,
    landing: Landing<K, V>,
}

/// Follows the flight of a key.
pub struct Follower<K: Key, V>(Arc<Flight<K, V>>);

/// Lives as long as a caller leads or follows.
struct Flight<K: Key, V> {
    entry: Entry<K, V>,
    value: watch::Receiver<Option<V>>,
    /// Ended with the flight.
    work: OnceLock<Task<()>>,
}

/// Hands out the value. Dropping it takes the flight out of the table.
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
    /// Leads the flight of `key`, or follows its leader.
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

    /// Flights under way.
    pub fn count(&self) -> usize {
        lock(&self.0).flights.len()
    }
}

fn lock<K: Key, V>(table: &Mutex<Table<K, V>>) -> MutexGuard<'_, Table<K, V>> {
    table.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<K: Key, V> Leader<K, V> {
    /// Hands the value to all who wait. Before that it belongs where callers look first: a later caller
    /// looks there.
    pub fn settle(self, value: V) {
        self.landing.value.send_replace(Some(value));
    }
}

impl<K: Key, V: Send + Sync + 'static> Leader<K, V> {
    /// Works in a task, and becomes a follower itself. A caller who goes away, or who does not poll, does not
    /// hold up the others; when the last one is gone the task is aborted.
    pub fn run<F>(self, env: &Env, name: &'static str, work: F) -> Follower<K, V>
    where
        F: Future<Output = V> + Send + 'static,
    {
        let Self { flight, landing } = self;
        let task = env.spawn(name, async move {
            let value = work.await;
            landing.value.send_replace(Some(value));
        });
        // The leader is gone, so it is set once.
        let _ = flight.work.set(task);
        Follower(flight)
    }
}

impl<K: Key, V: Clone> Follower<K, V> {
    /// The value; `None` when the leader failed or went away.
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
        let Role::Lead(leader) = flights.join("k") else { panic!("nobody else leads") };
        leader
    }

    fn follow(flights: &Flights) -> Follower<&'static str, u32> {
        let Role::Follow(follower) = flights.join("k") else { panic!("somebody leads") };
        follower
    }

    #[tokio::test]
    async fn followers_get_the_value_of_the_leader_or_learn_that_there_is_none() {
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
    async fn whoever_comes_after_the_landing_leads_though_others_still_hold_the_flight() {
        let flights = Flights::default();
        let leader = lead(&flights);
        let slow = follow(&flights);
        leader.settle(1);
        lead(&flights).settle(2);
        assert_eq!((slow.value().await, flights.count()), (Some(1), 0));
    }

    /// Work of a tenth of a second; counts 1 when it begins and 100 when it ends.
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
    async fn work_goes_on_when_its_first_caller_goes_away_and_ends_with_the_last() {
        let (env, flights, count) = (Env::simulated(1, 0), Flights::default(), Arc::default());
        let first = lead(&flights).run(&env, "work", work(&env, &count));
        let second = follow(&flights);
        assert!(env.timeout(Duration::from_millis(10), first.value()).await.is_none());
        assert_eq!(second.value().await, Some(7));
        assert_eq!((count.load(Ordering::Relaxed), flights.count()), (101, 0));
        let only = lead(&flights).run(&env, "work", work(&env, &count));
        assert!(env.timeout(Duration::from_millis(10), only.value()).await.is_none());
        assert_eq!(flights.count(), 0, "at once: nobody joins what is aborted");
        env.sleep(Duration::from_secs(1)).await;
        assert_eq!(count.load(Ordering::Relaxed), 102);
    }

    #[tokio::test]
    async fn followers_of_work_that_panicked_are_told() {
        let (env, flights) = (Env::simulated(1, 0), Flights::default());
        let follower = lead(&flights).run(&env, "work", async { panic!("boom") });
        assert_eq!((follower.value().await, flights.count()), (None, 0));
    }
}

//! Callers who want the same range of the same block at the same time share one request.
//!
//! Only for blocks: they never change, so an answer to a request that began earlier is still
//! right. Catalog and WAL reads must see everything that happened before they were asked, so they
//! are never shared. The request runs in a task of its own: a caller who goes away, or who does
//! not poll, never holds up the others; when the last caller is gone, the request is aborted.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use futures_util::FutureExt;
use futures_util::future::{Shared, WeakShared};
use sandur_base::{BoxFuture, Env};

use crate::error::{Error, Place};

type Outcome = Result<Bytes, Error>;
type Flight = Shared<BoxFuture<'static, Outcome>>;
type Key = (String, Option<(u64, u64)>);

/// The requests under way.
#[derive(Clone, Default)]
pub(crate) struct Flights(Arc<Mutex<Table>>);

#[derive(Default)]
struct Table {
    flights: HashMap<Key, (u64, WeakShared<BoxFuture<'static, Outcome>>)>,
    begun: u64,
}

impl Flights {
    /// Joins the flight for this object and range, or begins it with `request`.
    pub async fn join<F>(&self, env: &Env, at: Place, range: Option<Range<u64>>, request: F) -> Outcome
    where
        F: Future<Output = Outcome> + Send + 'static,
    {
        let key: Key = (at.path.clone(), range.map(|r| (r.start, r.end)));
        let flight = self.find_or_begin(env, at, key, request);
        flight.await
    }

    fn find_or_begin<F>(&self, env: &Env, at: Place, key: Key, request: F) -> Flight
    where
        F: Future<Output = Outcome> + Send + 'static,
    {
        let mut table = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(flight) = table.flights.get(&key).and_then(|(_, weak)| weak.upgrade()) {
            return flight;
        }
        table.begun += 1;
        let number = table.begun;
        let entry = Entry { flights: self.clone(), key: key.clone(), number };
        let task = env.spawn("store-get", request);
        let waiting = async move {
            let _entry = entry;
            let joined = task.join().await;
            joined.unwrap_or_else(|error| Err(Error::Internal { at, reason: error.to_string() }))
        };
        let boxed: BoxFuture<'static, Outcome> = Box::pin(waiting);
        let flight = boxed.shared();
        if let Some(weak) = flight.downgrade() {
            table.flights.insert(key, (number, weak));
        }
        flight
    }

    #[cfg(test)]
    fn len(&self) -> usize {
        self.0.lock().unwrap().flights.len()
    }
}

/// Takes the flight out of the table when it has landed or when nobody waits any more.
struct Entry {
    flights: Flights,
    key: Key,
    number: u64,
}

impl Drop for Entry {
    fn drop(&mut self) {
        let mut table = self.flights.0.lock().unwrap_or_else(PoisonError::into_inner);
        if table.flights.get(&self.key).is_some_and(|(number, _)| *number == self.number) {
            table.flights.remove(&self.key);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};
    use std::time::Duration;

    use super::*;
    use crate::operation::Operation;

    fn place() -> Place {
        Place { store: "memory://".into(), operation: Operation::Get, path: "blocks/a".into() }
    }

    fn request(env: &Env, count: &Arc<AtomicU32>) -> impl Future<Output = Outcome> + Send + use<> {
        let (env, count) = (env.clone(), Arc::clone(count));
        async move {
            count.fetch_add(1, Ordering::Relaxed);
            env.sleep(Duration::from_millis(100)).await;
            count.fetch_add(100, Ordering::Relaxed);
            Ok(Bytes::from_static(b"body"))
        }
    }

    #[tokio::test(start_paused = true)]
    async fn waiters_share_one_request_even_when_the_first_one_goes_away() {
        let (env, flights, count) = (Env::simulated(1, 0), Flights::default(), Arc::default());
        let first = flights.join(&env, place(), None, request(&env, &count));
        let second = flights.join(&env, place(), None, request(&env, &count));
        let impatient = env.timeout(Duration::from_millis(10), first);
        let (gone, body) = tokio::join!(impatient, second);
        assert!(gone.is_none());
        assert_eq!(body.unwrap(), "body");
        assert_eq!((count.load(Ordering::Relaxed), flights.len()), (101, 0));
    }

    #[tokio::test(start_paused = true)]
    async fn a_flight_without_waiters_is_aborted() {
        let (env, flights, count) = (Env::simulated(1, 0), Flights::default(), Arc::default());
        let only = flights.join(&env, place(), Some(0..5), request(&env, &count));
        assert!(env.timeout(Duration::from_millis(10), only).await.is_none());
        env.sleep(Duration::from_secs(1)).await;
        assert_eq!((count.load(Ordering::Relaxed), flights.len()), (1, 0));
    }

    #[tokio::test(start_paused = true)]
    async fn a_panic_reaches_the_waiters_as_an_error() {
        let (env, flights) = (Env::simulated(1, 0), Flights::default());
        let outcome = flights.join(&env, place(), None, async { panic!("boom") }).await;
        assert!(outcome.unwrap_err().to_string().contains("boom"));
    }
}

//! Reading through the cache: a value that is in no tier is fetched from its origin, once.
//!
//! For keys whose value never changes, such as ranges of immutable objects: a fetch that began before a
//! write of the same key would overwrite the newer value with the older one.
//!
//! Invariant: of all callers that miss a key at the same time one fetches it. The keys of one call are
//! read from the device, fetched or awaited concurrently.

use bytes::Bytes;
use sandur_runtime::single_flight::{Follower, Leader, Role};

use crate::cache::Cache;
use crate::flights::FlightKey;
use crate::item::{Tier, Value};
use crate::ram::Record;
use crate::request::{Put, Read};

/// A value and where it came from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fetched {
    /// The value.
    pub value: Value,
    /// The tier that had the value; [`Tier::Origin`] if this caller or another fetched it.
    pub tier: Tier,
    /// Whether another caller fetched it.
    pub shared: bool,
}

impl Fetched {
    fn at_origin(value: Value, shared: bool) -> Option<Self> {
        Some(Self { value, tier: Tier::Origin, shared })
    }
}

/// The keys that are in no tier, by their positions in the caller's list: those to fetch and those that
/// other callers fetch.
#[derive(Default)]
struct Missing {
    ours: Vec<usize>,
    claims: Vec<Leader<FlightKey, Value>>,
    others: Vec<(usize, Follower<FlightKey, Value>)>,
}

impl Cache {
    /// Returns the values of many keys, in their order. Calls `fetch` once with the positions in `keys`
    /// of all keys that are in no tier; it returns their values in that order, which may be slices of
    /// larger buffers. Calls it a second time for keys that another caller failed to fetch.
    ///
    /// # Panics
    /// When `fetch` returns fewer values than positions were passed to it.
    pub async fn get_or_fetch_many<E, F>(
        &self,
        keys: &[&[u8]],
        put: &Put,
        fetch: impl Fn(Vec<usize>) -> F,
    ) -> Result<Vec<Fetched>, E>
    where
        F: Future<Output = Result<Vec<Bytes>, E>>,
    {
        let mut lookups = Vec::with_capacity(keys.len());
        self.get_many(keys.iter().copied(), &Read::with_hint(put.hint), &mut lookups);
        let mut found: Vec<Option<Fetched>> = Vec::with_capacity(keys.len());
        for lookup in lookups {
            // Reads of the device were submitted together and run in parallel.
            let item = lookup.wait().await;
            found.push(item.map(|item| Fetched { value: item.value, tier: item.meta.tier, shared: false }));
        }
        let missing = self.divide(keys, &found);
        if !missing.ours.is_empty() {
            let values = fetch(missing.ours.clone()).await?;
            assert!(values.len() >= missing.ours.len(), "one value for each requested position");
            for ((at, claim), value) in missing.ours.into_iter().zip(missing.claims).zip(values) {
                self.keep(keys[at], &value, put);
                let value = Value::from(value);
                claim.settle(value.clone());
                found[at] = Fetched::at_origin(value, false);
            }
        }
        let mut failed = Vec::new();
        for (at, waiting) in missing.others {
            match waiting.value().await {
                Some(value) => found[at] = Fetched::at_origin(value, true),
                None => failed.push(at),
            }
        }
        if !failed.is_empty() {
            let values = fetch(failed.clone()).await?;
            assert!(values.len() >= failed.len(), "one value for each requested position");
            for (at, value) in failed.into_iter().zip(values) {
                self.keep(keys[at], &value, put);
                found[at] = Fetched::at_origin(value.into(), false);
            }
        }
        Ok(found.into_iter().flatten().collect())
    }

    /// Claims the missing keys that no caller fetches yet, and joins the flights of the others.
    fn divide(&self, keys: &[&[u8]], found: &[Option<Fetched>]) -> Missing {
        let mut missing = Missing::default();
        for (at, key) in keys.iter().enumerate().filter(|(at, _)| found[*at].is_none()) {
            match self.flights().join((*key).into()) {
                Role::Lead(claim) => {
                    missing.ours.push(at);
                    missing.claims.push(claim);
                }
                Role::Follow(waiting) => missing.others.push((at, waiting)),
            }
        }
        missing
    }

    /// Stores a copy of a fetched value, which may be a slice of a much larger buffer. The record copies
    /// small values anyway.
    fn keep(&self, key: &[u8], value: &Bytes, put: &Put) {
        // A value that the cache cannot keep is fetched again.
        let copy = if Record::is_packed(value.len()) { value.clone() } else { Bytes::copy_from_slice(value) };
        let _ = self.put(key, copy, put);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::time::Duration;

    use sandur_runtime::Env;

    use super::*;
    use crate::CacheOptions;

    fn open() -> (Env, Cache) {
        let env = Env::simulated(1, 1_700_000_000_000_000_000);
        let cache = Cache::open(&env, CacheOptions::default()).unwrap();
        (env, cache)
    }

    fn value(at: usize) -> Bytes {
        Bytes::from(format!("value {at}"))
    }

    /// Reads one key.
    async fn fetch_one<E, F>(cache: &Cache, fetch: impl Fn() -> F) -> Result<Fetched, E>
    where
        F: Future<Output = Result<Bytes, E>>,
    {
        let fetch = |_: Vec<usize>| {
            let fetching = fetch();
            async move { Ok(vec![fetching.await?]) }
        };
        let mut found = cache.get_or_fetch_many(&[b"k"], &Put::default(), fetch).await?;
        Ok(found.swap_remove(0))
    }

    #[tokio::test(start_paused = true)]
    async fn overlapping_callers_fetch_each_key_once_in_one_call() {
        let (env, cache) = open();
        let (fetches, keys_fetched) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let names: Vec<String> = (0..20).map(|n| n.to_string()).collect();
        let ask = async |range: std::ops::Range<usize>| {
            let keys: Vec<&[u8]> = names[range.clone()].iter().map(|n| n.as_bytes()).collect();
            let fetch = |places: Vec<usize>| {
                fetches.fetch_add(1, Ordering::Relaxed);
                keys_fetched.fetch_add(places.len(), Ordering::Relaxed);
                let (env, start) = (&env, range.start);
                async move {
                    env.sleep(Duration::from_millis(30)).await;
                    Ok::<_, ()>(places.into_iter().map(|at| value(start + at)).collect())
                }
            };
            let found = cache.get_or_fetch_many(&keys, &Put::default(), fetch).await.unwrap();
            for (at, found) in range.zip(&found) {
                assert_eq!(*found.value, *value(at));
            }
            found
        };
        let (first, second) = tokio::join!(ask(0..12), ask(8..20));
        assert_eq!(first.iter().filter(|f| f.shared).count() + second.iter().filter(|f| f.shared).count(), 4);
        assert_eq!((fetches.load(Ordering::Relaxed), keys_fetched.load(Ordering::Relaxed)), (2, 20));
        let again = ask(0..20).await;
        assert!(again.iter().all(|f| f.tier == Tier::Ram));
        assert_eq!(fetches.load(Ordering::Relaxed), 2);
    }

    #[tokio::test(start_paused = true)]
    async fn a_failed_fetch_fails_its_caller_and_its_followers_fetch_again() {
        let (env, cache) = open();
        let attempts = AtomicUsize::new(0);
        let ask = async || {
            let fetch = || {
                let attempt = attempts.fetch_add(1, Ordering::Relaxed);
                let env = &env;
                async move {
                    env.sleep(Duration::from_millis(30)).await;
                    if attempt == 0 { Err("down") } else { Ok(value(1)) }
                }
            };
            fetch_one(&cache, fetch).await
        };
        let (first, second, third) = tokio::join!(ask(), ask(), ask());
        assert_eq!(first.unwrap_err(), "down");
        assert_eq!((&*second.unwrap().value, &*third.unwrap().value), (&*value(1), &*value(1)));
        assert_eq!(attempts.load(Ordering::Relaxed), 3);
    }

    #[tokio::test(start_paused = true)]
    async fn a_follower_fetches_when_the_leader_is_cancelled() {
        let (env, cache) = open();
        let fetch = || async {
            env.sleep(Duration::from_millis(30)).await;
            Ok::<_, ()>(value(1))
        };
        let impatient = env.timeout(Duration::from_millis(5), fetch_one(&cache, &fetch));
        let (gone, patient) = tokio::join!(impatient, fetch_one(&cache, &fetch));
        assert!(gone.is_none());
        assert_eq!(*patient.unwrap().value, *value(1));
    }
}

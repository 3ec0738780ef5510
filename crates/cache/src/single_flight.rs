//! Single flight: callers who miss the same key at the same time share one fetch.
//!
//! The first caller is the leader and fetches; the others follow and wait for its value. When the leader
//! fails or goes away its followers are told, and each fetches for itself: no error is shared, and no
//! follower becomes a leader that others wait for.
//!
//! Invariant: a key is in the table exactly while its leader lives. A leader never follows another one
//! before its own flight has landed, so waiting cannot form a circle.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::watch;

use crate::item::Value;

type Flying = watch::Receiver<Option<Value>>;
type Table = Arc<Mutex<HashMap<Box<[u8]>, Flying>>>;

/// The keys in flight.
#[derive(Clone, Debug, Default)]
pub(crate) struct SingleFlight(Table);

/// What a caller who misses a key has to do.
pub(crate) enum Role {
    /// Fetch the key.
    Lead(Leader),
    /// Wait for the leader.
    Follow(Follower),
}

/// Leads the flight of a key. Dropping it without a value tells its followers to fetch for themselves.
pub(crate) struct Leader {
    table: Table,
    key: Box<[u8]>,
    landing: watch::Sender<Option<Value>>,
}

/// Follows the flight of a key.
pub(crate) struct Follower(Flying);

impl SingleFlight {
    /// Leads the flight of `key`, or follows its leader.
    pub fn join(&self, key: &[u8]) -> Role {
        let mut table = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(flying) = table.get(key) {
            return Role::Follow(Follower(flying.clone()));
        }
        let (landing, flying) = watch::channel(None);
        let key: Box<[u8]> = key.into();
        table.insert(key.clone(), flying);
        Role::Lead(Leader { table: Arc::clone(&self.0), key, landing })
    }

    #[cfg(test)]
    fn len(&self) -> usize {
        self.0.lock().unwrap().len()
    }
}

impl Leader {
    /// Hands the value to all who wait. Put it into the cache first: whoever comes later looks there.
    pub fn settle(self, value: Value) {
        self.landing.send_replace(Some(value));
    }
}

impl Drop for Leader {
    fn drop(&mut self) {
        let mut table = self.table.lock().unwrap_or_else(PoisonError::into_inner);
        table.remove(&self.key);
    }
}

impl Follower {
    /// The value; `None` when whoever fetched it failed or went away.
    pub async fn value(mut self) -> Option<Value> {
        self.0.wait_for(Option::is_some).await.ok().and_then(|value| value.clone())
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;

    #[tokio::test]
    async fn followers_get_the_value_of_the_leader_or_learn_that_there_is_none() {
        let flights = SingleFlight::default();
        let Role::Lead(claim) = flights.join(b"k") else { panic!("nobody else fetches") };
        let (Role::Follow(first), Role::Follow(second)) = (flights.join(b"k"), flights.join(b"k")) else {
            panic!("the key is claimed")
        };
        claim.settle(Value::from(Bytes::from_static(b"v")));
        assert_eq!(&*first.value().await.unwrap(), b"v");
        assert_eq!(&*second.value().await.unwrap(), b"v");
        assert_eq!(flights.len(), 0);
        let Role::Lead(claim) = flights.join(b"k") else { panic!("it has landed") };
        let Role::Follow(waiting) = flights.join(b"k") else { panic!("the key is claimed") };
        drop(claim);
        assert!(waiting.value().await.is_none());
    }
}

//! Callers who miss the same key at the same time share one fetch.
//!
//! The first one claims the key and fetches; the others wait for what it brings. When it fails or
//! goes away they are told, and each fetches for itself: no error is shared, nobody waits in turn.
//!
//! Invariant: a key is in the table exactly while its claim lives, and who holds a claim never waits
//! for another one before it has settled its own, so waiting cannot form a circle.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::watch;

use crate::item::Value;

type Flying = watch::Receiver<Option<Value>>;
type Table = Arc<Mutex<HashMap<Box<[u8]>, Flying>>>;

/// The keys that are being fetched.
#[derive(Clone, Debug, Default)]
pub(crate) struct Flights(Table);

/// What a caller who misses a key has to do.
pub(crate) enum Role {
    /// Fetch it.
    Fetch(Claim),
    /// Wait for who fetches it.
    Wait(Waiting),
}

/// The right and duty to fetch a key. Dropping it unsettled tells those who wait to help themselves.
pub(crate) struct Claim {
    table: Table,
    key: Box<[u8]>,
    landing: watch::Sender<Option<Value>>,
}

/// A place among those who wait for a key.
pub(crate) struct Waiting(Flying);

impl Flights {
    /// Claims `key` or joins who has.
    pub fn join(&self, key: &[u8]) -> Role {
        let mut table = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(flying) = table.get(key) {
            return Role::Wait(Waiting(flying.clone()));
        }
        let (landing, flying) = watch::channel(None);
        let key: Box<[u8]> = key.into();
        table.insert(key.clone(), flying);
        Role::Fetch(Claim { table: Arc::clone(&self.0), key, landing })
    }

    #[cfg(test)]
    fn len(&self) -> usize {
        self.0.lock().unwrap().len()
    }
}

impl Claim {
    /// Hands the value to all who wait. Put it into the cache first: whoever comes later looks there.
    pub fn settle(self, value: Value) {
        self.landing.send_replace(Some(value));
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        let mut table = self.table.lock().unwrap_or_else(PoisonError::into_inner);
        table.remove(&self.key);
    }
}

impl Waiting {
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
    async fn those_who_wait_get_the_value_or_learn_that_there_is_none() {
        let flights = Flights::default();
        let Role::Fetch(claim) = flights.join(b"k") else { panic!("nobody else fetches") };
        let (Role::Wait(first), Role::Wait(second)) = (flights.join(b"k"), flights.join(b"k")) else {
            panic!("the key is claimed")
        };
        claim.settle(Value::from(Bytes::from_static(b"v")));
        assert_eq!(&*first.value().await.unwrap(), b"v");
        assert_eq!(&*second.value().await.unwrap(), b"v");
        assert_eq!(flights.len(), 0);
        let Role::Fetch(claim) = flights.join(b"k") else { panic!("it has landed") };
        let Role::Wait(waiting) = flights.join(b"k") else { panic!("the key is claimed") };
        drop(claim);
        assert!(waiting.value().await.is_none());
    }
}

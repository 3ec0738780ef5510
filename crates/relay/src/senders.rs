//! Admits senders: bounds their connections and memory, and records why a connection was closed.
//!
//! **Invariants.** A [`Place`] counts until it is dropped, both in total and for its address. The memory
//! of connections is reserved from one budget before it is used, and an address gets a share of it. There
//! is one routing buffer per thread that routes at a time, not one per connection.

use std::collections::HashMap;
use std::hash::BuildHasher;
use std::net::IpAddr;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use sandur_base::party_of;
use sandur_memory::MemoryBudget;
use sandur_runtime::{Env, FairBudget, FairReservation, Party, Patience, Short};

use crate::counters::Counter;
use crate::relay::{Relay, Sorter};

/// The largest number of connections to all listeners of a relay. One address, or one /64 of IPv6, gets
/// at most half of them.
pub const CONNECTIONS_MAX: usize = 4_096;
/// How long a line or pickle may take to be complete once it has begun, as `carbon.message_timeout`.
pub const MESSAGE_TIMEOUT: Duration = Duration::from_secs(60);

/// How connections wait for memory. A sender whose connection is read again after a few seconds loses
/// nothing; one whose connection is closed loses what its system has sent. Senders whose message takes
/// ten seconds are closed first.
const PATIENCE: Patience =
    Patience { wait: Duration::from_secs(5), waiting_max: 256, receive: Duration::from_secs(10) };
/// The party of all senders; a reservation has two parties. With a multiple of seven, an eighth of the
/// budget stays free for new senders.
const ALL: Party = Party { key: 0, multiple: 7 };
/// The share of one address, as a multiple of what is free: with no other sender two thirds, as in the
/// server.
const ADDRESS_MULTIPLE: u64 = 2;
/// The least time between two warnings of one kind, since thousands of connections may be closed in a
/// second.
const WARN_EVERY: Duration = Duration::from_secs(10);

/// Why the relay closed a connection.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Closed {
    /// All places are taken.
    #[error("{most} connections are open, which is the limit")]
    Full {
        /// The limit of connections.
        most: usize,
    },
    /// The address has its share of places.
    #[error("its address has {most} connections open, which is the limit of one address")]
    AddressFull {
        /// The limit of one address.
        most: usize,
    },
    /// There is no memory for what it sends.
    #[error("{0}")]
    Memory(#[from] Short),
    /// A line or pickle was not complete in time.
    #[error("a line or pickle was not complete within {} s", MESSAGE_TIMEOUT.as_secs())]
    Slow,
    /// An HTTP client opened the connection.
    #[error("it begins with an HTTP request, which a web page may have made")]
    Http,
}

/// Admits connections to one relay. Cheap to clone: a handle.
#[derive(Clone)]
pub struct Senders(Arc<Inner>);

struct Inner {
    env: Env,
    relay: Relay,
    memory: FairBudget,
    places: Mutex<Places>,
    /// Sorters that are not in use.
    sorters: Mutex<Vec<Sorter>>,
    /// When the next warning of each kind may be logged.
    warnings: Mutex<[Duration; 4]>,
    keys: foldhash::fast::RandomState,
}

struct Places {
    most: usize,
    open: usize,
    by_address: HashMap<IpAddr, usize>,
}

impl Senders {
    /// Admits senders whose connections use memory of this budget.
    pub fn new(env: &Env, relay: &Relay, memory: &MemoryBudget) -> Self {
        Self(Arc::new(Inner {
            env: env.clone(),
            relay: relay.clone(),
            memory: FairBudget::new(env.clone(), memory.clone(), PATIENCE),
            places: Mutex::new(Places { most: CONNECTIONS_MAX, open: 0, by_address: HashMap::new() }),
            sorters: Mutex::default(),
            warnings: Mutex::default(),
            keys: foldhash::fast::RandomState::default(),
        }))
    }

    /// Lowers the limit of connections below [`CONNECTIONS_MAX`], if fewer files may be open.
    pub fn limit_connections(&self, most: usize) {
        self.places().most = most.clamp(1, CONNECTIONS_MAX);
    }

    /// Returns a place for a connection from this address, or `None` if there is none.
    pub fn admit(&self, address: IpAddr) -> Option<Place> {
        let address = party_of(address);
        let mut places = self.places();
        let of_address = places.by_address.get(&address).copied().unwrap_or(0);
        let (most, of_one) = (places.most, places.most.div_ceil(2));
        let refused = match (places.open < most, of_address < of_one) {
            (false, _) => Some(Closed::Full { most }),
            (true, false) => Some(Closed::AddressFull { most: of_one }),
            (true, true) => None,
        };
        if let Some(reason) = refused {
            drop(places);
            self.closed(address, &reason);
            return None;
        }
        places.open += 1;
        places.by_address.insert(address, of_address + 1);
        self.0.relay.connections().fetch_add(1, Ordering::Relaxed);
        Some(Place { senders: self.clone(), address })
    }

    /// Returns the clock and tasks that connections use.
    pub(crate) fn env(&self) -> &Env {
        &self.0.env
    }

    /// Returns the relay that they send to.
    pub(crate) fn relay(&self) -> &Relay {
        &self.0.relay
    }

    /// Routes what one connection sent and moves it to the lanes.
    pub(crate) fn sort<T>(&self, work: impl FnOnce(&mut Sorter) -> T) -> T {
        let kept = self.sorters().pop();
        let mut sorter = kept.unwrap_or_else(|| self.0.relay.sorter());
        let done = work(&mut sorter);
        sorter.flush();
        self.sorters().push(sorter);
        done
    }

    fn places(&self) -> MutexGuard<'_, Places> {
        self.0.places.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn sorters(&self) -> MutexGuard<'_, Vec<Sorter>> {
        self.0.sorters.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn closed(&self, address: IpAddr, reason: &Closed) {
        let (kind, counter) = self.kind(reason);
        counter.add(1);
        let now = self.0.env.monotonic();
        let mut warnings = self.0.warnings.lock().unwrap_or_else(PoisonError::into_inner);
        if now < warnings[kind] {
            return tracing::debug!(%address, %reason, "the relay closed a sender's connection");
        }
        warnings[kind] = now + WARN_EVERY;
        tracing::warn!(
            %address, %reason,
            "the relay closed a sender's connection; further ones within {} s are not logged",
            WARN_EVERY.as_secs()
        );
    }

    fn kind(&self, reason: &Closed) -> (usize, &Counter) {
        let counters = self.0.relay.counters();
        match reason {
            Closed::Full { .. } | Closed::AddressFull { .. } => (0, &counters.refused_connections),
            Closed::Memory(_) => (1, &counters.connections_over_memory),
            Closed::Slow => (2, &counters.slow_connections),
            Closed::Http => (3, &counters.http_connections),
        }
    }
}

/// The permission to send. Dropping it frees the place.
pub struct Place {
    senders: Senders,
    address: IpAddr,
}

impl Place {
    /// Returns the senders that the place belongs to.
    pub(crate) fn senders(&self) -> &Senders {
        &self.senders
    }

    /// Returns an empty reservation for the memory of the connection.
    pub(crate) fn reservation(&self) -> FairReservation {
        // If the key collides with that of all senders, the address just loses its own share.
        let key = self.senders.0.keys.hash_one(self.address);
        self.senders.0.memory.reservation([Party { key, multiple: ADDRESS_MULTIPLE }, ALL])
    }

    /// Counts and logs why the relay closes the connection.
    pub(crate) fn closed(&self, reason: &Closed) {
        self.senders.closed(self.address, reason);
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut places = self.senders.places();
        places.open -= 1;
        if let Some(count) = places.by_address.get_mut(&self.address) {
            *count -= 1;
            if *count == 0 {
                places.by_address.remove(&self.address);
            }
        }
        self.senders.0.relay.connections().fetch_sub(1, Ordering::Relaxed);
    }
}

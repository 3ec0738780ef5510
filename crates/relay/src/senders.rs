//! Who may send to a relay: its places, the memory that connections hold, and why one was closed.
//!
//! **Invariants.** A [`Place`] counts until it is dropped, against all places and against those of its
//! address. Memory of connections is claimed from one budget, of which an address has a share, before it is
//! used. Routing buffers are as many as threads that sort at a time, not as connections.

use std::collections::HashMap;
use std::hash::BuildHasher;
use std::net::IpAddr;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use sandur_base::{Claim, Env, FairMemory, MemoryBudget, Party, Patience, Short, party_of};

use crate::counters::Counter;
use crate::relay::{Relay, Sorter};

/// Connections to all listeners of a relay at a time; half of them of one address, or of one /64 of IPv6.
pub const CONNECTIONS_MAX: usize = 4_096;
/// How long a line or a pickle that has begun may take to be whole, as in `carbon.message_timeout`.
pub const MESSAGE_TIMEOUT: Duration = Duration::from_secs(60);

/// How connections wait for memory. A sender that is read again within seconds loses nothing, one that is
/// closed loses what its system has sent; who took ten seconds for a message makes way first.
const PATIENCE: Patience =
    Patience { wait: Duration::from_secs(5), waiting_max: 256, receive: Duration::from_secs(10) };
/// The party of all senders: a claim has two. With a multiple of seven an eighth stays free for newcomers.
const ALL: Party = Party { key: 0, multiple: 7 };
/// What one address may hold, as a multiple of what is free: alone two thirds, as in the server.
const ADDRESS_MULTIPLE: u64 = 2;
/// Between two warnings of one kind: thousands of connections may be closed in a second.
const WARN_EVERY: Duration = Duration::from_secs(10);

/// Why the relay closed a connection.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Closed {
    /// All places are taken.
    #[error("{most} connections are open, as many as there may be")]
    Full {
        /// How many that is.
        most: usize,
    },
    /// The address has its share of places.
    #[error("its address has {most} connections open, as many as one may have")]
    AddressFull {
        /// How many that is.
        most: usize,
    },
    /// There is no memory for what it sends.
    #[error("{0}")]
    Memory(#[from] Short),
    /// A line or a pickle was not whole in time.
    #[error("a line or pickle was not whole within {} s", MESSAGE_TIMEOUT.as_secs())]
    Slow,
    /// It is not of a sender.
    #[error("it begins with an HTTP request, which a web page may have made")]
    Http,
}

/// Those who send to one relay. Cheap to clone: a handle.
#[derive(Clone)]
pub struct Senders(Arc<Inner>);

struct Inner {
    env: Env,
    relay: Relay,
    memory: FairMemory,
    places: Mutex<Places>,
    /// Sorters that nothing uses now.
    sorters: Mutex<Vec<Sorter>>,
    /// When the next warning of each kind may be written.
    warnings: Mutex<[Duration; 4]>,
    keys: foldhash::fast::RandomState,
}

struct Places {
    most: usize,
    open: usize,
    by_address: HashMap<IpAddr, usize>,
}

impl Senders {
    /// Senders whose connections hold memory of this budget.
    pub fn new(env: &Env, relay: &Relay, memory: &MemoryBudget) -> Self {
        Self(Arc::new(Inner {
            env: env.clone(),
            relay: relay.clone(),
            memory: FairMemory::new(env.clone(), memory.clone(), PATIENCE),
            places: Mutex::new(Places { most: CONNECTIONS_MAX, open: 0, by_address: HashMap::new() }),
            sorters: Mutex::default(),
            warnings: Mutex::default(),
            keys: foldhash::fast::RandomState::default(),
        }))
    }

    /// Bounds the connections, where fewer than [`CONNECTIONS_MAX`] files may be open.
    pub fn limit_connections(&self, most: usize) {
        self.places().most = most.clamp(1, CONNECTIONS_MAX);
    }

    /// A place for a connection from this address, unless there is none.
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

    /// The world that connections live in.
    pub(crate) fn env(&self) -> &Env {
        &self.0.env
    }

    /// What they send to.
    pub(crate) fn relay(&self) -> &Relay {
        &self.0.relay
    }

    /// Sorts what one connection sent, and hands it over.
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
            "the relay closed a sender's connection; more of them within {} s are not logged",
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

/// The right to send; dropping it makes room for another.
pub struct Place {
    senders: Senders,
    address: IpAddr,
}

impl Place {
    /// Whose place it is.
    pub(crate) fn senders(&self) -> &Senders {
        &self.senders
    }

    /// Memory of the connection, none so far.
    pub(crate) fn claim(&self) -> Claim {
        // A key that happens to be that of all senders costs one address a share, and nothing else.
        let key = self.senders.0.keys.hash_one(self.address);
        self.senders.0.memory.claim([Party { key, multiple: ADDRESS_MULTIPLE }, ALL])
    }

    /// Counts and tells why the relay closes it.
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

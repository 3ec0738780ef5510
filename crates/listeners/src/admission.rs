//! Bounds the number of connections of a listener of any protocol, in total and per address.
//!
//! When no place is free, a new connection evicts an idle one: one of the address with the most
//! connections, and of these the one that has been idle for longest. An address that fills its share with
//! busy connections is refused. When all places are busy, new connections wait in the backlog of the
//! operating system. Memory for the heads of requests is reserved, so that many large heads at once are
//! refused and do not exhaust the memory of the process.
//!
//! Invariant: a [`Place`] counts until it is dropped or until its connection is evicted, whichever is
//! first.

use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Waker;

use futures_util::task::AtomicWaker;
use prometheus_client::metrics::counter::Counter;
use sandur_base::party_of;
use sandur_memory::MemoryBudget;
use sandur_runtime::Env;
use tokio::sync::Notify;

/// The state of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Phase {
    /// No byte was received yet.
    New,
    /// The connection waits for the next request.
    Idle,
    /// The head of a request is being received.
    Head,
    /// A request is being answered. Its body has a timeout of its own.
    Request,
    /// The answer is being sent.
    Answer,
    /// The connection is a websocket now, which has timeouts of its own.
    Upgraded,
    /// The connection has to close because another one takes its place.
    Evicted,
}

const PHASES: [Phase; 7] =
    [Phase::New, Phase::Idle, Phase::Head, Phase::Request, Phase::Answer, Phase::Upgraded, Phase::Evicted];

/// Counts connections that had to close or were not accepted. Cheap to clone; all clones count together.
#[derive(Clone, Debug, Default)]
pub struct ConnectionCounts {
    /// Idle connections that were closed to accept others.
    pub evicted: Counter,
    /// Connections that were refused because their address has its share.
    pub refused: Counter,
}

/// The connections of a process. Cheap to clone: a handle.
#[derive(Clone)]
pub struct Connections(Arc<Inner>);

struct Inner {
    env: Env,
    most: usize,
    most_per_address: usize,
    heads: MemoryBudget,
    counts: ConnectionCounts,
    table: Mutex<Table>,
    /// Notified when a place becomes free or a connection becomes idle.
    freed: Notify,
}

#[derive(Default)]
struct Table {
    next: u64,
    open: BTreeMap<u64, Arc<Seat>>,
    by_address: HashMap<IpAddr, usize>,
}

struct Seat {
    address: IpAddr,
    phase: AtomicU8,
    /// Start of the present phase, monotonic time in nanoseconds.
    since: AtomicU64,
    /// The task that reads from the connection. It has to poll the stream again when an answer is
    /// complete; otherwise the idle timeout would not start.
    reader: AtomicWaker,
    evicted: Notify,
}

enum Outcome {
    Admitted(Place),
    Refused,
    Full,
}

impl Connections {
    /// Allows `most` connections, and `per_address` from one address (0: half of `most`). The memory of
    /// heads is reserved from `heads`.
    pub fn new(
        env: Env,
        (most, per_address): (u64, u64),
        heads: MemoryBudget,
        counts: ConnectionCounts,
    ) -> Self {
        let most = usize::try_from(most).unwrap_or(usize::MAX).max(1);
        let most_per_address = match usize::try_from(per_address).unwrap_or(usize::MAX) {
            0 => most.div_ceil(2),
            number => number.min(most),
        };
        let table = Mutex::default();
        Self(Arc::new(Inner { env, most, most_per_address, heads, counts, table, freed: Notify::new() }))
    }

    /// Returns a place for a connection from this address. Waits while all connections are busy; returns
    /// `None` when the address has its share of busy connections already.
    pub async fn admit(&self, address: IpAddr) -> Option<Place> {
        let address = party_of(address);
        loop {
            match self.try_admit(address) {
                Outcome::Admitted(place) => return Some(place),
                Outcome::Refused => {
                    self.0.counts.refused.inc();
                    return None;
                }
                Outcome::Full => self.0.freed.notified().await,
            }
        }
    }

    fn try_admit(&self, address: IpAddr) -> Outcome {
        let mut table = self.table();
        let of_address = table.by_address.get(&address).copied().unwrap_or(0);
        if of_address >= self.0.most_per_address && !self.evict(&mut table, Some(address)) {
            return Outcome::Refused;
        }
        if table.open.len() >= self.0.most && !self.evict(&mut table, None) {
            return Outcome::Full;
        }
        let seat = Arc::new(Seat {
            address,
            phase: AtomicU8::new(Phase::New as u8),
            since: AtomicU64::new(self.now()),
            reader: AtomicWaker::new(),
            evicted: Notify::new(),
        });
        let number = table.next;
        table.next += 1;
        table.open.insert(number, Arc::clone(&seat));
        *table.by_address.entry(address).or_default() += 1;
        let unread = AtomicBool::new(false);
        Outcome::Admitted(Place { connections: self.clone(), number, seat, unread })
    }

    /// Evicts the connection that has been idle for longest: of the given address, or else of the address
    /// with the most connections. Returns whether there was one.
    fn evict(&self, table: &mut Table, of: Option<IpAddr>) -> bool {
        let quiet = table.open.iter().filter(|(_, seat)| {
            of.is_none_or(|address| seat.address == address)
                && matches!(seat.phase(), Phase::New | Phase::Idle | Phase::Head)
        });
        let victim = quiet.min_by_key(|(_, seat)| {
            let rivals = table.by_address.get(&seat.address).copied().unwrap_or(0);
            // A partial head is evicted last: it may be the request of a slow client.
            (seat.phase() == Phase::Head, usize::MAX - rivals, seat.since.load(Ordering::Relaxed))
        });
        let Some((&number, seat)) = victim else { return false };
        seat.phase.store(Phase::Evicted as u8, Ordering::Relaxed);
        seat.evicted.notify_one();
        table.remove(number);
        self.0.counts.evicted.inc();
        true
    }

    fn now(&self) -> u64 {
        u64::try_from(self.0.env.monotonic().as_nanos()).unwrap_or(u64::MAX)
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        self.0.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Table {
    fn remove(&mut self, number: u64) {
        let Some(seat) = self.open.remove(&number) else { return };
        if let Some(count) = self.by_address.get_mut(&seat.address) {
            *count -= 1;
            if *count == 0 {
                self.by_address.remove(&seat.address);
            }
        }
    }
}

impl Seat {
    fn phase(&self) -> Phase {
        PHASES[usize::from(self.phase.load(Ordering::Relaxed))]
    }
}

/// The right to be connected. Dropping it makes room for another connection.
pub struct Place {
    connections: Connections,
    number: u64,
    seat: Arc<Seat>,
    /// Set when a request was answered before its body was read to the end.
    unread: AtomicBool,
}

impl Place {
    /// The state of the connection.
    pub fn phase(&self) -> Phase {
        self.seat.phase()
    }

    /// Sets the state of the connection, unless it was evicted.
    pub fn set(&self, phase: Phase) {
        let keep = |now: u8| (now != Phase::Evicted as u8).then_some(phase as u8);
        if self.seat.phase.fetch_update(Ordering::Relaxed, Ordering::Relaxed, keep).is_err() {
            return;
        }
        self.seat.since.store(self.connections.now(), Ordering::Relaxed);
        if phase == Phase::Idle {
            self.seat.reader.wake();
            self.connections.0.freed.notify_one();
        }
    }

    /// Registers a task to wake when the connection becomes idle.
    pub fn watch(&self, waker: &Waker) {
        self.seat.reader.register(waker);
    }

    /// Waits until the connection is evicted.
    pub async fn evicted(&self) {
        self.seat.evicted.notified().await;
    }

    /// Notes that the latest request was not read to its end, so that the connection closes after its
    /// answer.
    pub fn leave_unread(&self) {
        self.unread.store(true, Ordering::Relaxed);
    }

    /// Whether the client may still be sending when the connection closes.
    pub fn is_left_unread(&self) -> bool {
        self.unread.load(Ordering::Relaxed)
    }

    /// The budget that the memory of heads is reserved from.
    pub fn heads(&self) -> &MemoryBudget {
        &self.connections.0.heads
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.connections.table().remove(self.number);
        self.connections.0.freed.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    fn connections(most: u64, per_address: u64) -> Connections {
        let heads = MemoryBudget::root("heads", 1 << 20);
        Connections::new(Env::simulated(1, 0), (most, per_address), heads, ConnectionCounts::default())
    }

    fn address(last: u8) -> IpAddr {
        IpAddr::from([10, 0, 0, last])
    }

    fn with_time(test: impl AsyncFnOnce()) {
        let runtime =
            tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
        runtime.block_on(test());
    }

    fn admit(connections: &Connections, last: u8) -> Option<Option<Place>> {
        connections.admit(address(last)).now_or_never()
    }

    #[test]
    fn the_longest_idle_connection_makes_room() {
        with_time(async || {
            let all = connections(3, 3);
            let env = all.0.env.clone();
            let mut places = Vec::new();
            for last in [1, 1, 2] {
                places.push(admit(&all, last).unwrap().unwrap());
                env.sleep(std::time::Duration::from_secs(1)).await;
            }
            places[0].set(Phase::Request);
            // The second has been idle for longest, of the address that has the most connections.
            let newcomer = admit(&all, 3).unwrap().unwrap();
            assert_eq!(places[1].phase(), Phase::Evicted);
            assert!(places[1].evicted().now_or_never().is_some());
            assert_eq!((places[0].phase(), places[2].phase()), (Phase::Request, Phase::New));
            // All others are busy, so a new connection waits until one of them ends.
            places[2].set(Phase::Head);
            newcomer.set(Phase::Upgraded);
            assert!(admit(&all, 4).is_some(), "a partial head is evicted when nothing else is idle");
            places[1].set(Phase::Idle);
            assert_eq!(places[1].phase(), Phase::Evicted, "an evicted connection stays evicted");
        });
    }

    #[test]
    fn busy_connections_of_one_address_leave_places_for_others() {
        with_time(async || {
            let all = connections(4, 0);
            let busy: Vec<Place> = (0..2).map(|_| admit(&all, 1).unwrap().unwrap()).collect();
            busy.iter().for_each(|place| place.set(Phase::Request));
            assert!(admit(&all, 1).unwrap().is_none(), "two are the share of an address");
            let others: Vec<Place> = (2..4).map(|last| admit(&all, last).unwrap().unwrap()).collect();
            others.iter().for_each(|place| place.set(Phase::Request));
            let mut waiting = std::pin::pin!(all.admit(address(5)));
            assert!(waiting.as_mut().now_or_never().is_none(), "all are busy");
            drop(busy);
            assert!(waiting.now_or_never().is_some());
        });
    }
}

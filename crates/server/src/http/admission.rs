//! Who may be connected: a bound on connections in all and per address, for any listener.
//!
//! When the places run out the newcomer gets one: of the connections that do nothing, the one that has done
//! so for longest is closed, first of the address that has most of them. An address that fills its share with
//! busy connections is refused; when all places are busy, newcomers wait in the system's queue. Heads of
//! requests take memory that is reserved, so that many large ones at once are refused instead of taking the
//! process down.
//!
//! Invariant: a [`Place`] counts until it is dropped or its connection was told to close, whichever is first.

use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Waker;

use futures_util::task::AtomicWaker;
use sandur_base::{Env, MemoryBudget, party_of};
use tokio::sync::Notify;

use crate::server_metrics::ServerMetrics;

/// What a connection is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Phase {
    /// Nothing was received yet.
    New,
    /// Between requests.
    Idle,
    /// A head is being received.
    Head,
    /// A request is being answered; its body has a timeout of its own.
    Request,
    /// The answer is there and on its way to the client.
    Answer,
    /// A websocket now, which has timeouts of its own.
    Upgraded,
    /// It has to close, so that another one can be served.
    Evicted,
}

const PHASES: [Phase; 7] =
    [Phase::New, Phase::Idle, Phase::Head, Phase::Request, Phase::Answer, Phase::Upgraded, Phase::Evicted];

/// All connections of a process. Cheap to clone: a handle.
#[derive(Clone)]
pub struct Connections(Arc<Inner>);

struct Inner {
    env: Env,
    most: usize,
    most_per_address: usize,
    heads: MemoryBudget,
    metrics: ServerMetrics,
    table: Mutex<Table>,
    /// A place was given back, or a connection became idle.
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
    /// Monotonic time in nanoseconds since when it is in this phase.
    since: AtomicU64,
    /// The connection's task, which must look at the stream again when an answer is complete: it
    /// does not by itself, and the time between requests would never be measured.
    reader: AtomicWaker,
    evicted: Notify,
}

enum Outcome {
    Admitted(Place),
    Refused,
    Full,
}

impl Connections {
    /// At most `most` connections, and so many per address (0: half of them). Heads take memory from `heads`.
    pub fn new(
        env: Env,
        (most, per_address): (u64, u64),
        heads: MemoryBudget,
        metrics: ServerMetrics,
    ) -> Self {
        let most = usize::try_from(most).unwrap_or(usize::MAX).max(1);
        let most_per_address = match usize::try_from(per_address).unwrap_or(usize::MAX) {
            0 => most.div_ceil(2),
            number => number.min(most),
        };
        let table = Mutex::default();
        Self(Arc::new(Inner { env, most, most_per_address, heads, metrics, table, freed: Notify::new() }))
    }

    /// A place for a connection from this address. Waits while all others are busy; `None` when the address
    /// has its share of busy ones already.
    pub async fn admit(&self, address: IpAddr) -> Option<Place> {
        let address = party_of(address);
        loop {
            match self.try_admit(address) {
                Outcome::Admitted(place) => return Some(place),
                Outcome::Refused => {
                    self.0.metrics.connections_refused.inc();
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

    /// Closes the connection that has done nothing for longest, of this address or of the one with most.
    fn evict(&self, table: &mut Table, of: Option<IpAddr>) -> bool {
        let quiet = table.open.iter().filter(|(_, seat)| {
            of.is_none_or(|address| seat.address == address)
                && matches!(seat.phase(), Phase::New | Phase::Idle | Phase::Head)
        });
        let victim = quiet.min_by_key(|(_, seat)| {
            let rivals = table.by_address.get(&seat.address).copied().unwrap_or(0);
            // A head on its way may be a client's request.
            (seat.phase() == Phase::Head, usize::MAX - rivals, seat.since.load(Ordering::Relaxed))
        });
        let Some((&number, seat)) = victim else { return false };
        seat.phase.store(Phase::Evicted as u8, Ordering::Relaxed);
        seat.evicted.notify_one();
        table.remove(number);
        self.0.metrics.connections_evicted.inc();
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

/// The right to be connected; dropping it makes room for another.
pub struct Place {
    connections: Connections,
    number: u64,
    seat: Arc<Seat>,
    /// Set when a request was answered that has not been read to its end.
    unread: AtomicBool,
}

impl Place {
    /// What the connection does.
    pub fn phase(&self) -> Phase {
        self.seat.phase()
    }

    /// Says what the connection does from now on, unless it has to close.
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

    /// Wakes this task when the connection becomes idle.
    pub fn watch(&self, waker: &Waker) {
        self.seat.reader.register(waker);
    }

    /// Waits until the connection has to close in favour of another.
    pub async fn evicted(&self) {
        self.seat.evicted.notified().await;
    }

    /// Says that the latest request has not been read to its end: the connection closes behind its answer.
    pub fn leave_unread(&self) {
        self.unread.store(true, Ordering::Relaxed);
    }

    /// Whether the client may be sending still when the connection closes.
    pub fn is_left_unread(&self) -> bool {
        self.unread.load(Ordering::Relaxed)
    }

    /// Where the memory of heads comes from.
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
        Connections::new(Env::simulated(1, 0), (most, per_address), heads, ServerMetrics::default())
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
            // The second is idle for longest, and of the address that has most.
            let newcomer = admit(&all, 3).unwrap().unwrap();
            assert_eq!(places[1].phase(), Phase::Evicted);
            assert!(places[1].evicted().now_or_never().is_some());
            assert_eq!((places[0].phase(), places[2].phase()), (Phase::Request, Phase::New));
            // All others are busy: the next one waits until one of them ends.
            places[2].set(Phase::Head);
            newcomer.set(Phase::Upgraded);
            assert!(admit(&all, 4).is_some(), "a half head gives way when nothing else does");
            places[1].set(Phase::Idle);
            assert_eq!(places[1].phase(), Phase::Evicted, "it comes back never");
        });
    }

    #[test]
    fn busy_connections_of_one_address_leave_places_for_others() {
        with_time(async || {
            let all = connections(4, 0);
            let busy: Vec<Place> = (0..2).map(|_| admit(&all, 1).unwrap().unwrap()).collect();
            busy.iter().for_each(|place| place.set(Phase::Request));
            assert!(admit(&all, 1).unwrap().is_none(), "its share is two");
            let others: Vec<Place> = (2..4).map(|last| admit(&all, last).unwrap().unwrap()).collect();
            others.iter().for_each(|place| place.set(Phase::Request));
            let mut waiting = std::pin::pin!(all.admit(address(5)));
            assert!(waiting.as_mut().now_or_never().is_none(), "all are busy");
            drop(busy);
            assert!(waiting.now_or_never().is_some());
        });
    }
}

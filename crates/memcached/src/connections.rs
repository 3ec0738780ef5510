//! The table of connections, for limits and for `stats conns`.
//!
//! Invariant: every open socket of the server, including listening ones, has exactly one entry, from
//! before its first byte until after its last. The exception is a connection that was cut in favour of
//! another: its entry is removed when it is cut.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::task::Waker;

/// The state of a connection, with memcached's names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum State {
    Listening,
    Waiting,
    Parsing,
    Receiving,
    Skipping,
    Sending,
    Watching,
    Fetching,
}

const STATES: [(State, &str); 8] = [
    (State::Listening, "conn_listening"),
    (State::Waiting, "conn_read"),
    (State::Parsing, "conn_parse_cmd"),
    (State::Receiving, "conn_nread"),
    (State::Skipping, "conn_swallow"),
    (State::Sending, "conn_mwrite"),
    (State::Watching, "conn_watch"),
    (State::Fetching, "conn_io_queue"),
];

/// Returns the name of a state.
pub(super) fn name_of(state: State) -> &'static str {
    STATES.iter().find(|(known, _)| *known == state).map_or("conn_closed", |(_, name)| name)
}

/// Seconds of silence after which a connection is cut in favour of another one if there are too many. An
/// active client keeps its place, and a silent one blocks others for no longer than this.
const GIVES_WAY_S: u32 = 5;

/// One socket.
#[derive(Debug)]
pub(super) struct Peer {
    pub descriptor: i32,
    /// `local`, `tcp` or `udp`.
    pub transport: &'static str,
    /// The address of the client as `PROTOCOL:ADDRESS`; for a listening socket its own address.
    pub address: String,
    /// The local address that the client connected to.
    pub listen_address: Option<String>,
    state: AtomicU8,
    last_command: AtomicU32,
    /// Wakes the worker of this connection.
    waker: OnceLock<Waker>,
    makes_way: AtomicBool,
}

impl Peer {
    pub fn new(
        descriptor: i32,
        transport: &'static str,
        address: String,
        listen_address: Option<String>,
        now: u32,
    ) -> Arc<Self> {
        let state = if listen_address.is_none() { State::Listening } else { State::Waiting };
        let state = AtomicU8::new(state as u8);
        Arc::new(Self {
            descriptor,
            transport,
            address,
            listen_address,
            state,
            last_command: AtomicU32::new(now),
            waker: OnceLock::new(),
            makes_way: AtomicBool::new(false),
        })
    }

    /// Sets the state.
    #[inline]
    pub fn set_state(&self, state: State) {
        self.state.store(state as u8, Ordering::Relaxed);
    }

    /// Returns the name of the state.
    pub fn state(&self) -> &'static str {
        let state = self.state.load(Ordering::Relaxed);
        STATES.iter().find(|(known, _)| *known as u8 == state).map_or("conn_closed", |(_, name)| name)
    }

    /// Records the waker of this connection in its worker.
    pub fn adopted(&self, waker: Waker) {
        // a connection has the same worker all its life
        let _ = self.waker.set(waker);
    }

    /// Makes its worker close it.
    fn make_way(&self) {
        self.makes_way.store(true, Ordering::Release);
        self.waker.get().into_iter().for_each(Waker::wake_by_ref);
    }

    /// Returns whether it is to be closed in favour of another.
    #[inline]
    pub fn makes_way(&self) -> bool {
        self.makes_way.load(Ordering::Acquire)
    }

    /// Records activity.
    #[inline]
    pub fn touch(&self, now: u32) {
        self.last_command.store(now, Ordering::Relaxed);
    }

    /// Returns whether it was silent for so long that it may be cut.
    fn gives_way(&self, now: u32) -> bool {
        let is_watching = self.state.load(Ordering::Relaxed) == State::Watching as u8;
        // listening sockets have no worker
        self.waker.get().is_some() && !is_watching && now.saturating_sub(self.last_command()) >= GIVES_WAY_S
    }

    /// Returns the time of the last activity, in seconds since the epoch.
    pub fn last_command(&self) -> u32 {
        self.last_command.load(Ordering::Relaxed)
    }
}

/// All sockets of the server.
#[derive(Debug, Default)]
pub(super) struct Connections {
    peers: Mutex<BTreeMap<i32, Arc<Peer>>>,
    total: AtomicU64,
    rejected: AtomicU64,
    most: AtomicU64,
}

impl Connections {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<i32, Arc<Peer>>> {
        self.peers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a listening socket.
    pub fn listening(&self, peer: Arc<Peer>) {
        self.lock().insert(peer.descriptor, peer);
    }

    /// Adds a connection. If there are `limit` sockets already, the one that was silent for the longest
    /// time is cut, and its worker closes it; if none may be cut, the new connection is refused.
    pub fn admit(&self, peer: &Arc<Peer>, limit: usize, now: u32) -> bool {
        let mut peers = self.lock();
        if peers.len() >= limit {
            let silent = peers.values().filter(|peer| peer.gives_way(now));
            let Some(longest) = silent.min_by_key(|peer| peer.last_command()).cloned() else {
                self.rejected.fetch_add(1, Ordering::Relaxed);
                return false;
            };
            peers.remove(&longest.descriptor);
            longest.make_way();
        }
        peers.insert(peer.descriptor, Arc::clone(peer));
        self.total.fetch_add(1, Ordering::Relaxed);
        self.most.fetch_max(peers.len() as u64, Ordering::Relaxed);
        true
    }

    /// Returns whether there are `limit` sockets, none of which may be cut.
    pub fn is_full(&self, limit: usize, now: u32) -> bool {
        let peers = self.lock();
        peers.len() >= limit && !peers.values().any(|peer| peer.gives_way(now))
    }

    /// Removes a connection, before its descriptor is closed.
    pub fn remove(&self, peer: &Peer) {
        self.lock().remove(&peer.descriptor);
    }

    /// Returns all sockets.
    pub fn all(&self) -> Vec<Arc<Peer>> {
        self.lock().values().cloned().collect()
    }

    /// Returns the number of open sockets without the listening ones.
    pub fn current(&self) -> u64 {
        self.lock().values().filter(|peer| peer.listen_address.is_some()).count() as u64
    }

    /// Returns the number of connections since the start.
    pub fn total(&self) -> u64 {
        self.total.load(Ordering::Relaxed)
    }

    /// Returns the number of connections refused because of the limit.
    pub fn rejected(&self) -> u64 {
        self.rejected.load(Ordering::Relaxed)
    }

    /// Returns the largest number of sockets that were open at a time.
    pub fn most(&self) -> u64 {
        self.most.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_number_of_sockets_is_limited() {
        let connections = Connections::default();
        connections.listening(Peer::new(3, "tcp", "tcp:0.0.0.0:1".into(), None, 0));
        let peer = |n| Peer::new(n, "tcp", "tcp:127.0.0.1:9".into(), Some("tcp:127.0.0.1:1".into()), 0);
        let (first, second) = (peer(4), peer(5));
        assert!(connections.admit(&first, 2, 0));
        assert!(!connections.admit(&second, 2, 0));
        assert_eq!((connections.current(), connections.total(), connections.rejected()), (1, 1, 1));
        connections.remove(&first);
        assert!(connections.admit(&second, 2, 0));
        assert_eq!((connections.total(), connections.most()), (2, 2));
        second.set_state(State::Receiving);
        assert_eq!(second.state(), "conn_nread");
    }

    #[test]
    fn the_longest_silent_client_is_cut_and_no_active_one() {
        let connections = Connections::default();
        connections.listening(Peer::new(3, "tcp", "tcp:0.0.0.0:1".into(), None, 0));
        let peer = |n, at| Peer::new(n, "tcp", "tcp:127.0.0.1:9".into(), Some("tcp:127.0.0.1:1".into()), at);
        let peers = [peer(4, 0), peer(5, 0), peer(6, 0), peer(7, 0)];
        for (peer, last) in peers.iter().zip([2, 1, 3, 0]) {
            peer.adopted(Waker::noop().clone());
            peer.touch(last);
            assert!(connections.admit(peer, 5, 0));
        }
        peers[3].set_state(State::Watching);
        let admit = |number, now| connections.admit(&peer(number, now), 5, now);
        assert!(!admit(8, 5) && connections.is_full(5, 5), "no client has been silent for long enough");
        assert!(!connections.is_full(5, 6) && admit(8, 6));
        assert!(!admit(9, 6), "one connection is cut for one place");
        assert!(admit(9, 100));
        assert_eq!(peers.map(|peer| peer.makes_way()), [true, true, false, false]);
        assert_eq!((connections.rejected(), connections.current()), (2, 4));
    }
}

//! Who is connected, for limits and `stats conns`.
//!
//! Invariant: every open socket of the server, listening ones included, has exactly one entry, from
//! before its first byte until after its last.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// What a connection is doing, with the names of memcached's states.
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

/// The name of a state.
pub(super) fn name_of(state: State) -> &'static str {
    STATES.iter().find(|(known, _)| *known == state).map_or("conn_closed", |(_, name)| name)
}

/// One socket.
#[derive(Debug)]
pub(super) struct Peer {
    pub descriptor: i32,
    /// `local`, `tcp` or `udp`.
    pub transport: &'static str,
    /// Where the other side is, as `PROTOCOL:ADDRESS`; for a listening socket its own address.
    pub address: String,
    /// The address that it connected to.
    pub listen_address: Option<String>,
    state: AtomicU8,
    last_command: AtomicU32,
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
        })
    }

    /// Says what it is doing.
    #[inline]
    pub fn set_state(&self, state: State) {
        self.state.store(state as u8, Ordering::Relaxed);
    }

    /// The name of what it is doing.
    pub fn state(&self) -> &'static str {
        let state = self.state.load(Ordering::Relaxed);
        STATES.iter().find(|(known, _)| *known as u8 == state).map_or("conn_closed", |(_, name)| name)
    }

    /// Notes a command.
    #[inline]
    pub fn touch(&self, now: u32) {
        self.last_command.store(now, Ordering::Relaxed);
    }

    /// When the last command came.
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

    /// Adds a connection unless there are `limit` sockets already.
    pub fn admit(&self, peer: &Arc<Peer>, limit: usize) -> bool {
        let mut peers = self.lock();
        if peers.len() >= limit {
            self.rejected.fetch_add(1, Ordering::Relaxed);
            return false;
        }
        peers.insert(peer.descriptor, Arc::clone(peer));
        self.total.fetch_add(1, Ordering::Relaxed);
        self.most.fetch_max(peers.len() as u64, Ordering::Relaxed);
        true
    }

    /// Removes a connection, before its descriptor is closed.
    pub fn remove(&self, peer: &Peer) {
        self.lock().remove(&peer.descriptor);
    }

    /// Everyone.
    pub fn all(&self) -> Vec<Arc<Peer>> {
        self.lock().values().cloned().collect()
    }

    /// Open sockets, the listening ones aside.
    pub fn current(&self) -> u64 {
        self.lock().values().filter(|peer| peer.listen_address.is_some()).count() as u64
    }

    /// Connections since the start.
    pub fn total(&self) -> u64 {
        self.total.load(Ordering::Relaxed)
    }

    /// Connections that were refused for the limit.
    pub fn rejected(&self) -> u64 {
        self.rejected.load(Ordering::Relaxed)
    }

    /// Most sockets that were open at a time.
    pub fn most(&self) -> u64 {
        self.most.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_of_sockets_holds() {
        let connections = Connections::default();
        connections.listening(Peer::new(3, "tcp", "tcp:0.0.0.0:1".into(), None, 0));
        let peer = |n| Peer::new(n, "tcp", "tcp:127.0.0.1:9".into(), Some("tcp:127.0.0.1:1".into()), 0);
        let (first, second) = (peer(4), peer(5));
        assert!(connections.admit(&first, 2));
        assert!(!connections.admit(&second, 2));
        assert_eq!((connections.current(), connections.total(), connections.rejected()), (1, 1, 1));
        connections.remove(&first);
        assert!(connections.admit(&second, 2));
        assert_eq!((connections.total(), connections.most()), (2, 2));
        second.set_state(State::Receiving);
        assert_eq!(second.state(), "conn_nread");
    }
}

//! What this process knows of the cluster. Only ever a hint: data never depends on it.

use std::sync::Arc;
use std::time::Duration;

use sandur_base::Id;

use crate::state::NodeState;

/// Whether a peer seems alive. Times are of this process's monotonic clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Liveness {
    /// Its signs of life arrive.
    Alive {
        /// Since when.
        since: Duration,
    },
    /// Its signs of life have stopped.
    Dead {
        /// Since when: the time of the last sign of life.
        since: Duration,
    },
    /// It said that it stops.
    Left {
        /// Since when.
        since: Duration,
    },
}

impl Liveness {
    /// Whether the peer is alive.
    pub fn is_alive(self) -> bool {
        matches!(self, Self::Alive { .. })
    }

    /// For how long the peer has not been alive; `None` if it is.
    pub fn gone_for(self, now: Duration) -> Option<Duration> {
        match self {
            Self::Alive { .. } => None,
            Self::Dead { since } | Self::Left { since } => Some(now.saturating_sub(since)),
        }
    }
}

/// A peer whose state is known.
#[derive(Clone, Debug, PartialEq)]
pub struct Peer {
    /// Its process start, as gossip names it.
    pub id: Id,
    /// What it says about itself.
    pub state: Arc<NodeState>,
    /// Whether it seems alive.
    pub liveness: Liveness,
    /// The newest number of the catalog's log that it announced.
    pub catalog: u64,
    /// The number of its next WAL segment that it announced.
    pub wal: u64,
    /// It hands its work to others.
    pub is_draining: bool,
}

/// All peers at one instant, ordered by id. This process is not among them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct View {
    /// When the view was made, by this process's monotonic clock.
    pub at: Duration,
    /// The peers, dead ones for ten minutes.
    pub peers: Vec<Peer>,
}

impl View {
    /// The peers that are alive.
    pub fn alive(&self) -> impl Iterator<Item = &Peer> {
        self.peers.iter().filter(|peer| peer.liveness.is_alive())
    }

    /// The peer that writes under this incarnation: a live one if there are several.
    pub fn writer(&self, incarnation: Id) -> Option<&Peer> {
        let mut writers = self.peers.iter().filter(|peer| peer.state.writer == Some(incarnation));
        let first = writers.next()?;
        if first.liveness.is_alive() {
            Some(first)
        } else {
            writers.find(|p| p.liveness.is_alive()).or(Some(first))
        }
    }

    /// The newest catalog number that a live peer announced.
    pub fn catalog(&self) -> u64 {
        self.alive().map(|peer| peer.catalog).max().unwrap_or(0)
    }

    /// Whether each of these writers is a live peer.
    pub fn covers(&self, writers: impl IntoIterator<Item = Id>) -> bool {
        let is_alive = |writer| self.writer(writer).is_some_and(|peer| peer.liveness.is_alive());
        writers.into_iter().all(is_alive)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::tests::state_of;

    fn peer(id: u128, writer: u128, liveness: Liveness) -> Peer {
        let state = Arc::new(NodeState { writer: Some(Id(writer)), ..state_of(1) });
        Peer { id: Id(id), state, liveness, catalog: id as u64, wal: 0, is_draining: false }
    }

    #[test]
    fn only_live_peers_cover_writers_and_announce_numbers() {
        let second = Duration::from_secs(1);
        let (alive, dead) = (Liveness::Alive { since: second }, Liveness::Dead { since: second });
        let peers = vec![peer(1, 10, alive), peer(2, 20, dead), peer(9, 10, dead), peer(12, 30, dead)];
        let view = View { at: 3 * second, peers };
        assert_eq!(view.catalog(), 1);
        assert!(view.covers([Id(10)]) && !view.covers([Id(10), Id(20)]) && !view.covers([Id(11)]));
        assert!(view.covers([]));
        assert_eq!(view.writer(Id(10)).unwrap().id, Id(1));
        assert_eq!(view.writer(Id(20)).unwrap().liveness.gone_for(view.at), Some(2 * second));
        assert_eq!(alive.gone_for(view.at), None);
    }
}

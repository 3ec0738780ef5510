//! The network between the nodes of a fleet, and what it makes them believe of each other.
//!
//! Nodes are in groups; calls and announcements pass only within a group. In addition each node may have a
//! wrong [`Belief`]. Whatever it is, it must change no answer.

use std::collections::BTreeMap;
use std::fmt;
use std::net::SocketAddr;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use bytes::Bytes;
use sandur_base::{BoxFuture, Id};
use sandur_catalog::Hints;
use sandur_engine::{AskedFrames, Engine, PeerFrames, Peers};
use sandur_runtime::Env;
use tokio::sync::watch;

/// The most bytes of an answer of a peer.
const ANSWER_BYTES: u64 = 1 << 20;
/// The longest time of a call within a group, in microseconds.
const CALL_US: u64 = 3_000;
/// One of this many calls takes longer than the caller waits.
const SLOW_EACH: u64 = 20;
/// How long a node that is believed to be dead has been so.
const GONE_FOR: Duration = Duration::from_secs(60);
/// How far wrong numbers are from the right ones.
const WRONG_BY: u64 = 1_000;

/// What a node believes of the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Belief {
    /// Whoever is in its group is alive, and says what is true.
    Right,
    AllDead,
    AllAlive,
    /// Each time another half seems to be dead.
    Flapping,
    /// Nobody has written anything.
    Stale,
    /// Everybody has written much more.
    Ahead,
}

pub const BELIEFS: [Belief; 6] =
    [Belief::Right, Belief::AllDead, Belief::AllAlive, Belief::Flapping, Belief::Stale, Belief::Ahead];

/// The network.
#[derive(Default)]
pub struct Town {
    places: Mutex<Vec<Place>>,
    writers: Mutex<BTreeMap<Id, (usize, u64)>>,
}

/// A node as the network knows it.
struct Place {
    group: u64,
    belief: Belief,
    engine: Weak<Engine>,
    catalog: u64,
    news: watch::Sender<u64>,
}

impl Town {
    /// A network of `count` nodes in one group.
    pub fn new(count: usize) -> Arc<Self> {
        let place = |_| Place {
            group: 0,
            belief: Belief::Right,
            engine: Weak::new(),
            catalog: 0,
            news: watch::Sender::new(0),
        };
        Arc::new(Self { places: Mutex::new((0..count).map(place).collect()), writers: Mutex::default() })
    }

    /// Moves a node into a group, and changes what it believes.
    pub fn place(&self, node: usize, group: u64, belief: Belief) {
        let mut places = self.places();
        (places[node].group, places[node].belief) = (group, belief);
    }

    /// Sets the engine that answers for a node.
    pub fn house(&self, node: usize, engine: &Arc<Engine>) {
        self.places()[node].engine = Arc::downgrade(engine);
    }

    /// The address of a node.
    pub fn address(node: usize) -> String {
        format!("node-{node}")
    }

    fn places(&self) -> MutexGuard<'_, Vec<Place>> {
        self.places.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn writer(&self, writer: Id) -> Option<(usize, u64)> {
        self.writers.lock().unwrap_or_else(PoisonError::into_inner).get(&writer).copied()
    }

    /// Wakes the nodes of the group of a node.
    fn tell(&self, from: usize) {
        let places = self.places();
        let group = places[from].group;
        places.iter().filter(|place| place.group == group).for_each(|place| {
            place.news.send_modify(|count| *count += 1);
        });
    }

    /// The engine of a node, if another one reaches it.
    fn reach(&self, from: usize, address: &str) -> Option<Arc<Engine>> {
        let to: usize = address.strip_prefix("node-")?.parse().ok()?;
        let places = self.places();
        (places[from].group == places.get(to)?.group).then(|| places[to].engine.upgrade())?
    }
}

/// A node's access to the network.
pub struct Resident {
    pub town: Arc<Town>,
    pub node: usize,
    pub env: Env,
}

impl Resident {
    fn belief(&self) -> Belief {
        self.town.places()[self.node].belief
    }

    fn shares_group_with(&self, other: usize) -> bool {
        let places = self.town.places();
        places[self.node].group == places[other].group && places[other].engine.strong_count() > 0
    }

    /// A call takes some time, and sometimes too long.
    async fn travel(&self, patience: Duration) -> Option<()> {
        if self.env.random_below(SLOW_EACH) == 0 {
            self.env.sleep(patience).await;
            return None;
        }
        self.env.sleep(Duration::from_micros(self.env.random_below(CALL_US))).await;
        Some(())
    }
}

impl fmt::Debug for Resident {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Resident").field("node", &self.node).finish_non_exhaustive()
    }
}

impl Peers for Resident {
    fn frames<'a>(
        &'a self,
        address: &'a str,
        AskedFrames { writer, from, wait, most_bytes }: AskedFrames,
        patience: Duration,
    ) -> BoxFuture<'a, Option<PeerFrames>> {
        Box::pin(async move {
            self.travel(patience).await?;
            let engine = self.town.reach(self.node, address)?;
            engine.frames_for_peer(writer, from, (wait, most_bytes.min(ANSWER_BYTES))).await
        })
    }

    fn pieces<'a>(
        &'a self,
        address: &'a str,
        (block, ranges): (Id, &'a [Range<u64>]),
        patience: Duration,
    ) -> BoxFuture<'a, Option<Vec<Option<Bytes>>>> {
        Box::pin(async move {
            self.travel(patience).await?;
            let engine = self.town.reach(self.node, address)?;
            Some(engine.pieces_for_peer(block, ranges).await)
        })
    }
}

impl Hints for Resident {
    fn address(&self) -> Option<SocketAddr> {
        let port = u16::try_from(self.node + 1).unwrap_or(u16::MAX);
        Some(SocketAddr::from(([10, 0, 0, 1], port)))
    }

    fn note_addresses(&self, _addresses: Vec<SocketAddr>) {}

    fn gone_for(&self, writer: Id) -> Option<Duration> {
        let (node, _) = self.town.writer(writer)?;
        let is_gone = match self.belief() {
            Belief::AllDead => true,
            Belief::AllAlive => false,
            Belief::Flapping => self.env.random_below(2) == 0,
            Belief::Right | Belief::Stale | Belief::Ahead => !self.shares_group_with(node),
        };
        is_gone.then_some(GONE_FOR)
    }

    fn next_segment(&self, writer: Id) -> Option<u64> {
        let (node, next) = self.town.writer(writer)?;
        match self.belief() {
            Belief::Right => self.shares_group_with(node).then_some(next),
            Belief::AllDead => None,
            Belief::AllAlive => Some(next),
            Belief::Flapping => (self.env.random_below(2) == 0).then_some(next),
            Belief::Stale => Some(0),
            Belief::Ahead => Some(next + WRONG_BY),
        }
    }

    fn catalog(&self) -> u64 {
        let belief = self.belief();
        let places = self.town.places();
        let group = places[self.node].group;
        let heard = places.iter().filter(|place| place.group == group).map(|place| place.catalog).max();
        match belief {
            Belief::Stale => 0,
            Belief::Ahead => heard.unwrap_or(0) + WRONG_BY,
            _ => heard.unwrap_or(0),
        }
    }

    fn news(&self) -> watch::Receiver<u64> {
        self.town.places()[self.node].news.subscribe()
    }

    fn announce_catalog(&self, number: u64) {
        {
            let place = &mut self.town.places()[self.node];
            place.catalog = place.catalog.max(number);
        }
        self.town.tell(self.node);
    }

    fn announce_segment(&self, writer: Id, next: u64) {
        let mut writers = self.town.writers.lock().unwrap_or_else(PoisonError::into_inner);
        writers.insert(writer, (self.node, next));
        drop(writers);
        self.town.tell(self.node);
    }
}

//! The protocol as a state machine without clock, randomness or network: who is alive, and who knows.
//!
//! Every second a node counts up its own beat and sends the beats that it knows, those first that were
//! sent least, to three live peers and to one address at which nobody answers yet (a seed or a dead
//! peer). They answer with theirs. A beat with a greater counter is a sign of life. A node that sees a
//! beat of an unknown node, or of a newer state, asks the sender for the state. News (numbers of the
//! catalog and the WAL) are pushed to three peers at once, and these push them further.
//!
//! **Lying peers.** A process with the secret can send false beats of other nodes. A node that receives its
//! own beat with a counter that is too large continues from that counter, so the false beat is replaced
//! within a round. Other false messages do no harm, because every user of a view takes it as a hint.
//!
//! **Invariants.** At most [`NODES_MAX`] peers are known. A message causes at most [`ANSWER_MAX`] + 1
//! datagrams in return, all to its sender. A pause of this process counts as nobody's silence.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use sandur_base::Id;

use crate::arrivals::Arrivals;
use crate::datagram::Refused;
use crate::error::Error;
use crate::message::{BEATS_MAX, Beat, COUNTER_MAX, Message, STATE_VERSION_MAX, WANTED_MAX};
use crate::state::NodeState;
use crate::view::{Liveness, Peer, View};

/// Time between two ticks.
pub const TICK: Duration = Duration::from_secs(1);
/// Peers that are known, at most. Each takes about 2 KiB.
pub const NODES_MAX: usize = 1_024;
/// Datagrams of one answer, at most.
pub const ANSWER_MAX: usize = 4;
/// Live peers to which a round goes.
const FANOUT: usize = 3;
/// Peers that are told when a node stops, at most.
const FAREWELLS_MAX: usize = 128;
/// How long a peer that is gone is shown, and its address is tried.
const GONE_FOR: Duration = Duration::from_secs(600);
/// How long a node that others mention may give no sign of life before it is forgotten.
const UNPROVEN_FOR: Duration = Duration::from_secs(60);
/// How long the beat of a node that has left is sent to others.
const FAREWELL_FOR: Duration = Duration::from_secs(5);
/// A tick that is later than this means that this process was suspended.
const PAUSE_MIN: Duration = Duration::from_secs(3);

/// A source of random numbers: given `n`, one of `0..n`.
pub type Random<'a> = &'a mut dyn FnMut(u64) -> u64;

/// A payload to send.
#[derive(Clone, Debug)]
pub struct Outgoing {
    /// The receiver.
    pub to: SocketAddr,
    /// The encoded message.
    pub payload: Arc<[u8]>,
}

/// What happened, for metrics.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Beats of unknown nodes that were not kept because [`NODES_MAX`] are known.
    pub overflowing: u64,
    /// States that are not valid.
    pub bad_states: u64,
    /// Beats of this process that it did not send.
    pub refuted: u64,
}

/// Whether a node that others mention has given a sign of life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Standing {
    /// Only one beat was seen, and not from the node itself: it may be old.
    Unproven,
    Proven(Liveness),
}

struct Known {
    beat: Beat,
    /// When the counter last grew.
    heard: Duration,
    arrivals: Arrivals,
    standing: Standing,
    state: Option<Arc<NodeState>>,
    state_bytes: Arc<[u8]>,
    /// The version of `state`.
    state_version: u32,
    /// How often this beat was sent.
    sent: u32,
}

/// One node's part of the protocol.
pub struct Gossip {
    own: Beat,
    own_address: SocketAddr,
    own_state: Arc<[u8]>,
    peers: BTreeMap<Id, Known>,
    ticked: Option<Duration>,
    has_news: bool,
    news: u64,
    has_changed: bool,
    must_rename: bool,
    counts: Counts,
}

impl Gossip {
    /// A node that knows nobody.
    pub fn new(id: Id, state: &NodeState) -> Result<Self, Error> {
        Ok(Self {
            own: Beat { id, counter: 1, state_version: 1, ..Beat::default() },
            own_address: state.gossip_address,
            own_state: state.encode()?.into(),
            peers: BTreeMap::new(),
            ticked: None,
            has_news: false,
            news: 0,
            has_changed: true,
            must_rename: false,
            counts: Counts::default(),
        })
    }

    /// The own id.
    pub fn id(&self) -> Id {
        self.own.id
    }

    /// What happened.
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// Grows when a live peer announces another number of the catalog or the WAL, or another state.
    pub fn news(&self) -> u64 {
        self.news
    }

    /// Whether there is something to push.
    pub fn has_news(&self) -> bool {
        self.has_news
    }

    /// Whether the view may differ from the one that was returned last.
    pub fn has_changed(&self) -> bool {
        self.has_changed
    }

    /// Whether a false beat has the largest counter that there is. Then the node needs another id.
    pub fn must_rename(&self) -> bool {
        self.must_rename
    }

    /// Goes on under another id.
    pub fn rename(&mut self, id: Id) {
        self.own = Beat { id, counter: 1, state_version: 1, ..self.own };
        (self.must_rename, self.has_news) = (false, true);
    }

    /// Announces the own numbers.
    pub fn announce(&mut self, catalog: u64, wal: u64, is_draining: bool) {
        let own = Beat { catalog, wal, is_draining, ..self.own };
        if own != self.own {
            self.own = Beat { counter: own.counter + 1, ..own };
            self.has_news = true;
        }
    }

    /// Announces another own state.
    pub fn set_state(&mut self, state: &NodeState) -> Result<(), Error> {
        let bytes = state.encode()?;
        if *bytes != *self.own_state {
            (self.own_state, self.own_address) = (bytes.into(), state.gossip_address);
            self.own.state_version += 1;
            self.own.counter += 1;
            self.has_news = true;
        }
        Ok(())
    }

    /// Ends the silence of peers that are not heard, and starts a round.
    pub fn tick(&mut self, now: Duration, seeds: &[SocketAddr], random: Random) -> Vec<Outgoing> {
        self.forgive_own_pause(now);
        self.ticked = Some(now);
        self.own.counter += 1;
        self.judge(now);
        let mut live = self.live_addresses();
        let mut others = self.silent_addresses(seeds, &live);
        let (live_most, others_most) = if live.is_empty() { (0, FANOUT) } else { (FANOUT, 1) };
        choose(&mut live, live_most, random);
        choose(&mut others, others_most, random);
        let payloads = self.beats(now, ANSWER_MAX, true);
        let to_all = live.into_iter().chain(others);
        to_all
            .flat_map(|to| payloads.clone().into_iter().map(move |payload| Outgoing { to, payload }))
            .collect()
    }

    /// Sends the newest beats to some peers at once, if there are news.
    pub fn push(&mut self, now: Duration, random: Random) -> Vec<Outgoing> {
        if !std::mem::take(&mut self.has_news) {
            return Vec::new();
        }
        let mut live = self.live_addresses();
        choose(&mut live, FANOUT, random);
        let payloads = self.beats(now, 1, false);
        let payload = payloads.into_iter().next().expect("the own beat is always sent");
        live.into_iter().map(|to| Outgoing { to, payload: Arc::clone(&payload) }).collect()
    }

    /// Tells peers that this node stops.
    pub fn leave(&mut self, random: Random) -> Vec<Outgoing> {
        self.own.has_left = true;
        self.own.counter += 1;
        let mut live = self.live_addresses();
        choose(&mut live, FAREWELLS_MAX, random);
        let payload: Arc<[u8]> = Message::Beats { asks: false, beats: vec![self.own] }.encode().into();
        live.into_iter().map(|to| Outgoing { to, payload: Arc::clone(&payload) }).collect()
    }

    /// Takes the authentic payload of a datagram that `sender` sealed. Returns the answer.
    pub fn take(
        &mut self,
        now: Duration,
        (sender, from): (Id, SocketAddr),
        payload: &[u8],
    ) -> Result<Vec<Outgoing>, Refused> {
        let answer = match Message::parse(payload).ok_or(Refused::Malformed)? {
            Message::Beats { asks, beats } => self.take_beats(now, sender, asks, &beats),
            Message::Wanted(ids) => self.states_of(&ids),
            Message::States(states) => {
                states.into_iter().for_each(|(id, version, bytes)| self.take_state(id, version, bytes));
                Vec::new()
            }
        };
        Ok(answer.into_iter().map(|payload| Outgoing { to: from, payload }).collect())
    }

    /// All peers whose state is known and that have given a sign of life.
    pub fn view(&mut self, now: Duration) -> View {
        self.has_changed = false;
        let peers = self.peers.iter().filter_map(|(id, known)| {
            let (Standing::Proven(liveness), Some(state)) = (known.standing, &known.state) else {
                return None;
            };
            let Beat { catalog, wal, is_draining, .. } = known.beat;
            Some(Peer { id: *id, state: Arc::clone(state), liveness, catalog, wal, is_draining })
        });
        View { at: now, peers: peers.collect() }
    }

    fn take_beats(&mut self, now: Duration, sender: Id, asks: bool, beats: &[Beat]) -> Vec<Arc<[u8]>> {
        let mut wanted = BTreeSet::new();
        for beat in beats {
            if beat.id == self.own.id {
                self.refute(beat);
            } else if self.take_beat(now, beat, beat.id == sender) && wanted.len() < WANTED_MAX {
                wanted.insert(beat.id);
            }
        }
        let mut answer = if asks { self.beats(now, ANSWER_MAX, false) } else { Vec::new() };
        if !wanted.is_empty() {
            answer.push(Message::Wanted(wanted.into_iter().collect()).encode().into());
        }
        answer
    }

    /// Takes one beat. Returns whether the state of its node is wanted.
    fn take_beat(&mut self, now: Duration, beat: &Beat, is_from_itself: bool) -> bool {
        let is_full = self.peers.len() >= NODES_MAX;
        let Some(known) = self.peers.get_mut(&beat.id) else {
            if beat.has_left {
                return false;
            }
            if is_full {
                self.counts.overflowing += 1;
                return false;
            }
            self.peers.insert(beat.id, Known::new(*beat, now, is_from_itself));
            return true;
        };
        let is_proof = is_from_itself && known.standing == Standing::Unproven && !beat.has_left;
        if beat.counter > known.beat.counter {
            let before = known.standing;
            let has_news = known.follow(now, beat);
            self.has_changed |= has_news || known.standing != before;
            if has_news && known.is_alive() {
                self.news += 1;
                self.has_news = true;
            }
        } else if is_proof {
            known.standing = Standing::Proven(Liveness::Alive { since: now });
            self.has_changed = true;
        }
        known.state.is_none() || known.beat.state_version > known.state_version
    }

    /// Counts on from a counter of ours that we did not send.
    fn refute(&mut self, beat: &Beat) {
        let is_ours = beat.counter <= self.own.counter && beat.state_version <= self.own.state_version;
        if is_ours {
            return;
        }
        self.counts.refuted += 1;
        if beat.counter > COUNTER_MAX / 2 || beat.state_version > STATE_VERSION_MAX / 2 {
            self.must_rename = true;
            return;
        }
        self.own.counter = self.own.counter.max(beat.counter) + 1;
        if beat.state_version > self.own.state_version {
            self.own.state_version = beat.state_version + 1;
        }
        self.has_news = true;
    }

    fn states_of(&self, ids: &[Id]) -> Vec<Arc<[u8]>> {
        let ids: BTreeSet<Id> = ids.iter().copied().collect();
        let states = ids.into_iter().filter_map(|id| {
            if id == self.own.id {
                return Some((id, self.own.state_version, self.own_state.to_vec()));
            }
            let known = self.peers.get(&id).filter(|known| known.state.is_some())?;
            Some((id, known.state_version, known.state_bytes.to_vec()))
        });
        let messages = Message::of_states(states, ANSWER_MAX);
        messages.into_iter().map(|message| message.encode().into()).collect()
    }

    /// Takes the state of a peer, if a beat announced its version.
    fn take_state(&mut self, id: Id, version: u32, bytes: Vec<u8>) {
        let Some(known) = self.peers.get_mut(&id) else { return };
        let is_newer = known.state.is_none() || version > known.state_version;
        if !is_newer || version > known.beat.state_version {
            return;
        }
        let Some(state) = NodeState::parse(&bytes) else {
            self.counts.bad_states += 1;
            return;
        };
        (known.state, known.state_bytes, known.state_version) =
            (Some(Arc::new(state)), bytes.into(), version);
        self.has_changed = true;
    }

    /// The own beat and those of live peers that were sent least, as messages.
    fn beats(&mut self, now: Duration, messages_max: usize, asks: bool) -> Vec<Arc<[u8]>> {
        let mut order: Vec<(u32, std::cmp::Reverse<Duration>, Id)> = self
            .peers
            .iter()
            .filter(|(_, known)| known.is_sent(now))
            .map(|(id, known)| (known.sent, std::cmp::Reverse(known.heard), *id))
            .collect();
        order.sort_unstable();
        order.truncate(messages_max * BEATS_MAX - 1);
        let mut beats = vec![self.own];
        for (_, _, id) in order {
            let known = self.peers.get_mut(&id).expect("it was listed above");
            known.sent = known.sent.saturating_add(1);
            beats.push(known.beat);
        }
        let parts = beats.chunks(BEATS_MAX).enumerate();
        let message =
            |(at, beats): (usize, &[Beat])| Message::Beats { asks: asks && at == 0, beats: beats.to_vec() };
        parts.map(|part| message(part).encode().into()).collect()
    }

    /// If this process was paused, adds the pause to the time at which each peer was last heard.
    fn forgive_own_pause(&mut self, now: Duration) {
        let late = self.ticked.map_or(Duration::ZERO, |ticked| now.saturating_sub(ticked));
        if late > PAUSE_MIN {
            self.peers.values_mut().for_each(|known| known.heard = (known.heard + late).min(now));
        }
    }

    fn judge(&mut self, now: Duration) {
        for known in self.peers.values_mut() {
            let silence = now.saturating_sub(known.heard);
            if known.is_alive() && silence > known.arrivals.silence() {
                known.standing = Standing::Proven(Liveness::Dead { since: known.heard });
                self.has_changed = true;
            }
        }
        let before = self.peers.len();
        self.peers.retain(|_, known| match known.standing {
            Standing::Unproven => now.saturating_sub(known.heard) < UNPROVEN_FOR,
            Standing::Proven(liveness) => liveness.gone_for(now).is_none_or(|gone| gone < GONE_FOR),
        });
        self.has_changed |= self.peers.len() != before;
    }

    fn live_addresses(&self) -> Vec<SocketAddr> {
        let live = self.peers.values().filter(|known| known.is_alive());
        let addresses = live.filter_map(|known| known.state.as_ref().map(|state| state.gossip_address));
        let unique: BTreeSet<SocketAddr> = addresses.filter(|address| *address != self.own_address).collect();
        unique.into_iter().collect()
    }

    /// Addresses of seeds and of peers that are gone.
    fn silent_addresses(&self, seeds: &[SocketAddr], live: &[SocketAddr]) -> Vec<SocketAddr> {
        let gone = self.peers.values().filter(|known| !known.is_alive());
        let gone = gone.filter_map(|known| known.state.as_ref().map(|state| state.gossip_address));
        let all: BTreeSet<SocketAddr> = seeds.iter().copied().chain(gone).collect();
        let is_other = |address: &SocketAddr| *address != self.own_address && !live.contains(address);
        all.into_iter().filter(is_other).collect()
    }
}

impl Known {
    fn new(beat: Beat, now: Duration, is_from_itself: bool) -> Self {
        Self {
            beat,
            heard: now,
            arrivals: Arrivals::default(),
            standing: match is_from_itself {
                true => Standing::Proven(Liveness::Alive { since: now }),
                false => Standing::Unproven,
            },
            state: None,
            state_bytes: Arc::default(),
            state_version: 0,
            sent: 0,
        }
    }

    fn is_alive(&self) -> bool {
        matches!(self.standing, Standing::Proven(Liveness::Alive { .. }))
    }

    /// Whether the beat is sent to others: only then can a node that is gone be forgotten by all.
    fn is_sent(&self, now: Duration) -> bool {
        match self.standing {
            Standing::Proven(Liveness::Alive { .. }) => true,
            Standing::Proven(Liveness::Left { since }) => now.saturating_sub(since) < FAREWELL_FOR,
            _ => false,
        }
    }

    /// Takes a newer beat. Returns whether it announces something.
    fn follow(&mut self, now: Duration, beat: &Beat) -> bool {
        if self.is_alive() {
            self.arrivals.note(now.saturating_sub(self.heard));
        }
        let before = std::mem::replace(&mut self.beat, *beat);
        (self.heard, self.sent) = (now, 0);
        self.standing = match self.standing {
            _ if beat.has_left => Standing::Proven(Liveness::Left { since: now }),
            alive @ Standing::Proven(Liveness::Alive { .. }) => alive,
            _ => Standing::Proven(Liveness::Alive { since: now }),
        };
        let numbers = |beat: &Beat| (beat.catalog, beat.wal, beat.is_draining, beat.state_version);
        numbers(&before) != numbers(beat)
    }
}

/// Keeps `most` random elements.
fn choose(all: &mut Vec<SocketAddr>, most: usize, random: Random) {
    let kept = most.min(all.len());
    for at in 0..kept {
        let other = at + random((all.len() - at) as u64) as usize;
        all.swap(at, other);
    }
    all.truncate(kept);
}

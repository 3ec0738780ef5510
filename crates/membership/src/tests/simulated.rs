//! Many nodes of the protocol, a lossy network, and a clock that jumps from event to event: everything
//! repeats from a seed.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::time::Duration;

use sandur_base::Id;

use crate::datagram::DATAGRAM_BYTES_MAX;
use crate::gossip::{Gossip, Outgoing, TICK};
use crate::membership::PUSH_GAP;
use crate::state::tests::state_of;
use crate::view::View;

/// Bytes that sealing adds to a payload.
const SEAL_BYTES: usize = DATAGRAM_BYTES_MAX - crate::datagram::PAYLOAD_BYTES_MAX;

pub(super) const SECOND: Duration = Duration::from_secs(1);

pub(super) fn address(number: u16) -> SocketAddr {
    state_of(number).gossip_address
}

pub(super) fn id(number: u16) -> Id {
    Id(u128::from(number) << 64)
}

enum Event {
    Tick(u16),
    Push(u16),
    Arrival { to: u16, sender: Id, from: SocketAddr, payload: std::sync::Arc<[u8]> },
}

pub(super) struct Node {
    pub(super) gossip: Gossip,
    pub(super) view: View,
    /// Number and time of the newest announcement of node 1 that this node has seen.
    pub(super) heard: BTreeMap<u64, Duration>,
    is_push_due: bool,
    pushed: Duration,
    pub(super) bytes_sent: u64,
    pub(super) datagrams_sent: u64,
}

pub(super) struct Simulated {
    pub(super) now: Duration,
    pub(super) nodes: BTreeMap<u16, Node>,
    events: BTreeMap<(Duration, u64), Event>,
    number: u64,
    random: u64,
    /// Datagrams of a thousand that are lost.
    pub(super) lost_permille: u64,
    /// Pairs of groups that do not reach each other; a node's group is by this function.
    pub(super) group_of: fn(u16) -> u16,
    pub(super) is_cut: bool,
    /// Nodes whose events wait: suspended processes.
    pub(super) suspended: BTreeSet<u16>,
    seeds: Vec<SocketAddr>,
}

impl Simulated {
    /// Nodes 1 to `nodes` that start within a second, and of which each knows the address of node 1.
    pub(super) fn new(nodes: u16, seed: u64) -> Self {
        let mut simulated = Self {
            now: SECOND,
            nodes: BTreeMap::new(),
            events: BTreeMap::new(),
            number: 0,
            random: seed * 2 + 1,
            lost_permille: 0,
            group_of: |_| 0,
            is_cut: false,
            suspended: BTreeSet::new(),
            seeds: vec![address(1)],
        };
        (1..=nodes).for_each(|number| simulated.start(number));
        simulated
    }

    pub(super) fn start(&mut self, number: u16) {
        let gossip = Gossip::new(id(number), &state_of(number)).unwrap();
        let node = Node {
            gossip,
            view: View::default(),
            heard: BTreeMap::new(),
            is_push_due: false,
            pushed: Duration::ZERO,
            bytes_sent: 0,
            datagrams_sent: 0,
        };
        self.nodes.insert(number, node);
        let delay = Duration::from_millis(self.below(1_000));
        self.at(delay, Event::Tick(number));
    }

    pub(super) fn below(&mut self, bound: u64) -> u64 {
        below(&mut self.random, bound)
    }

    pub(super) fn announce(&mut self, number: u16, catalog: u64) {
        let node = self.nodes.get_mut(&number).unwrap();
        node.gossip.announce(catalog, catalog, false);
        self.follow_up(number);
    }

    fn at(&mut self, delay: Duration, event: Event) {
        self.number += 1;
        self.events.insert((self.now + delay, self.number), event);
    }

    /// Runs for a time.
    pub(super) fn run(&mut self, duration: Duration) {
        let until = self.now + duration;
        while let Some(entry) = self.events.first_entry().filter(|entry| entry.key().0 <= until) {
            let ((now, _), event) = entry.remove_entry();
            self.now = now;
            self.handle(event);
        }
        self.now = until;
    }

    /// Runs until something holds; returns after how long. Fails after `most`.
    pub(super) fn until(&mut self, most: Duration, holds: impl Fn(&Self) -> bool) -> Duration {
        let began = self.now;
        while !holds(self) {
            assert!(self.now - began < most, "it does not hold after {most:?}");
            self.run(SECOND / 10);
        }
        self.now - began
    }

    fn handle(&mut self, event: Event) {
        let number = match &event {
            Event::Tick(number) | Event::Push(number) | Event::Arrival { to: number, .. } => *number,
        };
        if self.suspended.contains(&number) {
            // Arrivals wait in the socket's buffer, timers are late.
            self.at(SECOND / 10, event);
            return;
        }
        let now = self.now;
        let Some(node) = self.nodes.get_mut(&number) else { return };
        let random = &mut self.random;
        let outgoing = match event {
            Event::Tick(_) => {
                let ticked = node.gossip.tick(now, &self.seeds, &mut |bound| below(random, bound));
                let next = TICK * 9 / 10 + Duration::from_millis(self.below(200));
                self.at(next, Event::Tick(number));
                ticked
            }
            Event::Push(_) => {
                (node.is_push_due, node.pushed) = (false, now);
                node.gossip.push(now, &mut |bound| below(random, bound))
            }
            Event::Arrival { sender, from, payload, .. } => {
                node.gossip.take(now, (sender, from), &payload).unwrap_or_default()
            }
        };
        self.send(number, outgoing);
        self.follow_up(number);
    }

    /// What a running node does after each event.
    fn follow_up(&mut self, number: u16) {
        let now = self.now;
        let node = self.nodes.get_mut(&number).unwrap();
        if node.gossip.must_rename() {
            node.gossip.rename(Id(id(number).0 + 1));
        }
        if node.gossip.has_changed() {
            node.view = node.gossip.view(now);
            if let Some(peer) = node.view.writer(Id(1)) {
                node.heard.entry(peer.catalog).or_insert(now);
            }
        }
        if node.gossip.has_news() && !node.is_push_due {
            node.is_push_due = true;
            let delay = PUSH_GAP.saturating_sub(now - node.pushed);
            self.at(delay, Event::Push(number));
        }
    }

    /// Sends what a node wants to send.
    pub(super) fn send(&mut self, number: u16, outgoing: Vec<Outgoing>) {
        let sender = self.nodes[&number].gossip.id();
        for Outgoing { to, payload } in outgoing {
            let node = self.nodes.get_mut(&number).unwrap();
            node.bytes_sent += (payload.len() + SEAL_BYTES) as u64;
            node.datagrams_sent += 1;
            let is_apart = self.is_cut && (self.group_of)(number) != (self.group_of)(to.port());
            if is_apart || self.below(1_000) < self.lost_permille {
                continue;
            }
            let delay = Duration::from_micros(200 + self.below(2_000));
            self.at(delay, Event::Arrival { to: to.port(), sender, from: address(number), payload });
        }
    }

    /// Delivers an authentic message of somebody with the secret.
    pub(super) fn inject(&mut self, to: u16, sender: Id, message: &crate::message::Message) {
        let payload = message.encode().into();
        self.at(Duration::ZERO, Event::Arrival { to, sender, from: address(9_999), payload });
    }

    /// Whether each node sees exactly the others of `numbers` as alive.
    pub(super) fn agree(&self, numbers: &BTreeSet<u16>) -> bool {
        numbers.iter().all(|number| {
            let alive = self.nodes[number].view.alive().map(|peer| peer.state.gossip_address.port());
            let mut seen: BTreeSet<u16> = alive.collect();
            seen.insert(*number);
            seen == *numbers
        })
    }

    pub(super) fn all(&self) -> BTreeSet<u16> {
        self.nodes.keys().copied().collect()
    }
}

fn below(random: &mut u64, bound: u64) -> u64 {
    // xorshift64* (Vigna 2016).
    *random ^= *random >> 12;
    *random ^= *random << 25;
    *random ^= *random >> 27;
    ((u128::from(random.wrapping_mul(0x2545_F491_4F6C_DD1D)) * u128::from(bound)) >> 64) as u64
}

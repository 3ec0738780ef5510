//! Peers that have the secret and lie.

use sandur_base::Id;

use super::simulated::{SECOND, Simulated, id};
use crate::gossip::{Gossip, NODES_MAX};
use crate::message::{Beat, COUNTER_MAX, Message, STATE_VERSION_MAX};
use crate::state::NodeState;
use crate::state::tests::state_of;

const LIAR: Id = Id(0xbad);

fn beats(beats: Vec<Beat>) -> Message {
    Message::Beats { asks: false, beats }
}

/// Somebody counts ahead for a node, so that its own beats would be old.
#[test]
fn a_node_answers_a_lie_about_itself_and_stays_alive() {
    for (counter, state_version) in
        [(1 << 40, 1), (COUNTER_MAX - 1, 1), (COUNTER_MAX, 1), (1 << 40, 1 << 20), (5, STATE_VERSION_MAX)]
    {
        let mut cluster = Simulated::new(5, 2);
        let all = cluster.all();
        cluster.run(20 * SECOND);
        let lie = Beat { id: id(3), counter: counter.max(1 << 20), state_version, ..Beat::default() };
        for to in 1..=5 {
            cluster.inject(to, LIAR, &beats(vec![lie]));
        }
        cluster.run(60 * SECOND);
        assert!(cluster.agree(&all), "counter {counter}, state version {state_version}");
        let view = &cluster.nodes[&1].view;
        let three = view.alive().find(|peer| peer.state.node == "node-3").unwrap();
        assert_eq!(*three.state, state_of(3));
    }
}

#[test]
fn a_lie_that_a_node_has_left_is_answered() {
    let mut cluster = Simulated::new(5, 2);
    let all = cluster.all();
    cluster.run(20 * SECOND);
    let lie = Beat { id: id(3), counter: 1 << 20, state_version: 1, has_left: true, ..Beat::default() };
    cluster.inject(1, LIAR, &beats(vec![lie]));
    cluster.run(SECOND / 1_000);
    assert!(!cluster.agree(&all));
    cluster.until(10 * SECOND, |cluster| cluster.agree(&all));
}

/// A state that no beat announced is not taken, and one that a beat announced is replaced by its owner.
#[test]
fn a_forged_state_does_not_last() {
    let mut cluster = Simulated::new(5, 2);
    cluster.run(20 * SECOND);
    let forged = NodeState { peer_address: "evil:1".to_owned(), ..state_of(3) };
    let states = |version| Message::States(vec![(id(3), version, forged.encode().unwrap())]);
    let is_forged = |cluster: &Simulated| {
        let views = cluster.nodes.values().flat_map(|node| &node.view.peers);
        views.filter(|peer| peer.state.peer_address == "evil:1").count()
    };
    cluster.inject(1, LIAR, &states(9));
    cluster.inject(1, LIAR, &states(1));
    cluster.run(SECOND);
    assert_eq!(is_forged(&cluster), 0);
    let beat = Beat { id: id(3), counter: 1 << 20, state_version: 9, ..Beat::default() };
    cluster.inject(1, LIAR, &beats(vec![beat]));
    cluster.inject(1, LIAR, &states(9));
    cluster.run(SECOND / 1_000);
    assert_eq!(is_forged(&cluster), 1);
    cluster.until(10 * SECOND, |cluster| is_forged(cluster) == 0);
}

/// Thousands of invented nodes take bounded memory, are not passed on, and are forgotten.
#[test]
fn invented_nodes_are_bounded_and_not_passed_on() {
    let mut cluster = Simulated::new(3, 2);
    let all = cluster.all();
    cluster.run(20 * SECOND);
    for group in 0..1_000_u128 {
        let invented = (0..20).map(|n| Id((1 << 100) | (group * 20 + n)));
        let invented = invented.map(|id| Beat { id, counter: 5, state_version: 1, ..Beat::default() });
        cluster.inject(1, LIAR, &beats(invented.collect()));
    }
    cluster.run(SECOND / 1_000);
    let overflowing = cluster.nodes[&1].gossip.counts().overflowing;
    assert_eq!(overflowing, 20_000 - (NODES_MAX as u64 - 2));
    assert_eq!(cluster.nodes[&2].gossip.counts().overflowing, 0);
    assert!(cluster.agree(&all));
    // Others that start meanwhile are known again when the invented ones are forgotten.
    cluster.start(4);
    cluster.run(90 * SECOND);
    assert!(cluster.agree(&cluster.all()));
}

#[test]
fn states_that_are_none_are_counted_and_change_nothing() {
    let mut gossip = Gossip::new(id(1), &state_of(1)).unwrap();
    let from = (id(2), state_of(2).gossip_address);
    let beat = Beat { id: id(2), counter: 1, state_version: 1, ..Beat::default() };
    let answer = gossip.take(SECOND, from, &beats(vec![beat]).encode()).unwrap();
    assert_eq!(Message::parse(&answer[0].payload), Some(Message::Wanted(vec![id(2)])));
    for bytes in [Vec::new(), vec![1; 30], vec![0xFF; 1_024]] {
        gossip.take(SECOND, from, &Message::States(vec![(id(2), 1, bytes)]).encode()).unwrap();
    }
    assert_eq!((gossip.counts().bad_states, gossip.view(SECOND).peers.len()), (3, 0));
}

/// Any sequence of valid messages is answered by few datagrams that each fit, and nothing panics.
#[test]
fn arbitrary_messages_are_answered_within_bounds() {
    let mut random = 1_u64;
    let mut next = move || {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        random >> 33
    };
    let mut gossip = Gossip::new(id(1), &state_of(1)).unwrap();
    let from = state_of(2).gossip_address;
    for step in 0..20_000_u64 {
        let now = SECOND * (step / 20) as u32;
        let ids = |next: &mut dyn FnMut() -> u64| id((next() % 40) as u16);
        let message = match next() % 3 {
            0 => Message::Beats {
                asks: next() % 2 == 0,
                beats: (0..next() % 26)
                    .map(|_| Beat {
                        id: ids(&mut next),
                        counter: if next() % 50 == 0 { COUNTER_MAX } else { next() % 1_000 },
                        catalog: next(),
                        wal: u64::MAX - next(),
                        state_version: (next() % 4) as u32 * (STATE_VERSION_MAX / 3),
                        is_draining: next() % 2 == 0,
                        has_left: next() % 9 == 0,
                    })
                    .collect(),
            },
            1 => Message::Wanted((0..next() % 73).map(|_| ids(&mut next)).collect()),
            _ => Message::States(vec![(ids(&mut next), 1, state_of(next() as u16).encode().unwrap())]),
        };
        let answer = gossip.take(now, (ids(&mut next), from), &message.encode()).unwrap();
        assert!(answer.len() <= 5, "{}", answer.len());
        let sent = gossip.tick(now, &[from], &mut |bound| next() % bound);
        let pushed = gossip.push(now, &mut |bound| next() % bound);
        for outgoing in answer.iter().chain(&sent).chain(&pushed) {
            assert!(Message::parse(&outgoing.payload).is_some());
        }
        gossip.view(now);
    }
}

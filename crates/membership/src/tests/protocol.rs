//! Convergence, failures, partitions, pauses and costs of the protocol.

use super::simulated::{SECOND, Simulated, id};
use crate::view::Liveness;

const SEEDS: u64 = 8;

#[test]
fn nodes_that_know_one_address_find_each_other() {
    for (nodes, most) in [(2, 2), (3, 3), (20, 5), (100, 8)] {
        for seed in 0..if nodes == 100 { 1 } else { SEEDS } {
            let mut cluster = Simulated::new(nodes, seed);
            let all = cluster.all();
            cluster.until(most * SECOND, |cluster| cluster.agree(&all));
            let view = &cluster.nodes[&2].view;
            assert_eq!(view.writer(id(1)), None);
            assert_eq!(view.peers[0].state.zone, "zone-1");
        }
    }
}

#[test]
fn a_run_repeats_from_its_seed() {
    let trace = |seed| {
        let mut cluster = Simulated::new(10, seed);
        cluster.lost_permille = 100;
        cluster.run(30 * SECOND);
        cluster.nodes.values().map(|node| (node.view.clone(), node.bytes_sent)).collect::<Vec<_>>()
    };
    assert_eq!(trace(3), trace(3));
    assert_ne!(trace(3), trace(4));
}

/// A killed node is noticed by every other within 16 s, and nobody else is suspected.
#[test]
fn a_killed_node_is_noticed_by_all_and_forgotten_after_ten_minutes() {
    for nodes in [3, 20] {
        for seed in 0..SEEDS {
            let mut cluster = Simulated::new(nodes, seed);
            cluster.run(20 * SECOND);
            cluster.nodes.remove(&2);
            let left = cluster.all();
            cluster.run(4 * SECOND);
            let is_seen = |cluster: &Simulated| cluster.nodes[&1].view.peers.iter().any(|p| p.id == id(2));
            assert!(!cluster.agree(&left), "it is too early to tell");
            cluster.until(12 * SECOND, |cluster| cluster.agree(&left));
            assert!(is_seen(&cluster));
            if seed == 0 {
                cluster.run(630 * SECOND);
                assert!(!is_seen(&cluster) && cluster.agree(&left));
            }
        }
    }
}

#[test]
fn a_node_that_leaves_is_known_to_have_left_within_two_seconds() {
    let mut cluster = Simulated::new(20, 1);
    cluster.run(20 * SECOND);
    let farewell = cluster.nodes.get_mut(&5).unwrap().gossip.leave(&mut |_| 0);
    cluster.send(5, farewell);
    cluster.nodes.remove(&5);
    cluster.run(2 * SECOND);
    for node in cluster.nodes.values() {
        let peer = node.view.peers.iter().find(|peer| peer.id == id(5)).unwrap();
        assert!(matches!(peer.liveness, Liveness::Left { .. }), "{peer:?}");
    }
}

#[test]
fn a_fifth_of_all_datagrams_may_be_lost_without_a_wrong_suspicion() {
    for nodes in [3, 20] {
        let mut cluster = Simulated::new(nodes, 7);
        cluster.lost_permille = 200;
        let all = cluster.all();
        cluster.until(20 * SECOND, |cluster| cluster.agree(&all));
        for _ in 0..200 {
            cluster.run(SECOND / 2);
            assert!(cluster.agree(&all), "at {:?}", cluster.now);
        }
    }
}

/// Short cuts of the network: longer than a pause, shorter than the silence of a dead node.
#[test]
fn a_network_that_flaps_for_three_seconds_makes_nobody_dead() {
    let mut cluster = Simulated::new(20, 3);
    cluster.group_of = |number| number % 2;
    let all = cluster.all();
    cluster.run(20 * SECOND);
    for _ in 0..20 {
        cluster.is_cut = true;
        cluster.run(3 * SECOND);
        assert!(cluster.agree(&all));
        cluster.is_cut = false;
        cluster.run(3 * SECOND);
        assert!(cluster.agree(&all));
    }
}

/// The halves see each other dead and themselves alive, and find together again: after a minute, and
/// after half an hour, when they have forgotten each other and only the seed is left.
#[test]
fn halves_of_a_cluster_find_together_again() {
    for (nodes, minutes) in [(2, 1), (20, 1), (6, 30)] {
        let mut cluster = Simulated::new(nodes, u64::from(nodes));
        cluster.group_of = |number| number % 2;
        let all = cluster.all();
        cluster.run(20 * SECOND);
        cluster.is_cut = true;
        cluster.run(minutes * 60 * SECOND);
        for half in [0, 1] {
            let half = all.iter().copied().filter(|number| number % 2 == half).collect();
            assert!(cluster.agree(&half));
        }
        cluster.is_cut = false;
        let healed = cluster.until(30 * SECOND, |cluster| cluster.agree(&all));
        println!("{nodes} nodes after {minutes} min: healed in {healed:?}");
    }
}

/// A process that was suspended has heard nobody, and that says nothing about the others.
#[test]
fn a_node_that_was_suspended_suspects_nobody_and_is_alive_again_at_once() {
    for seed in 0..SEEDS {
        let mut cluster = Simulated::new(5, seed);
        let all = cluster.all();
        cluster.run(20 * SECOND);
        cluster.suspended.insert(3);
        cluster.run(60 * SECOND);
        let others = all.iter().copied().filter(|number| *number != 3).collect();
        assert!(cluster.agree(&others));
        cluster.suspended.clear();
        for _ in 0..30 {
            cluster.run(SECOND / 10);
            let dead = cluster.nodes[&3].view.peers.iter().filter(|peer| !peer.liveness.is_alive());
            assert_eq!(dead.count(), 0, "seed {seed}");
        }
        assert!(cluster.agree(&all));
    }
}

/// A restarted node has another id, the same name and the same address.
#[test]
fn a_node_that_restarts_is_found_under_its_new_id_while_the_old_one_is_dead() {
    let mut cluster = Simulated::new(5, 1);
    cluster.run(20 * SECOND);
    cluster.nodes.remove(&4);
    cluster.run(SECOND);
    cluster.start(4);
    cluster.nodes.get_mut(&4).unwrap().gossip.rename(sandur_base::Id(44));
    cluster.run(20 * SECOND);
    let view = &cluster.nodes[&2].view;
    let four: Vec<_> = view.peers.iter().filter(|peer| peer.state.node == "node-4").collect();
    let alive: Vec<_> = four.iter().filter(|peer| peer.liveness.is_alive()).map(|peer| peer.id).collect();
    assert_eq!((four.len(), alive), (2, vec![sandur_base::Id(44)]));
}

/// How long an announcement takes to reach all, and what gossip costs. Every node announces twice a
/// second, as writers with a WAL of half a second do, or none does.
#[test]
fn announcements_are_quick_and_traffic_is_small() {
    let is_long = sandur_runtime::environment::variable("SANDUR_LONG_FORMS").is_some();
    let of_twenty = if is_long { 60 } else { 25 };
    for (nodes, seconds, p99_max, bytes_max) in
        [(3_u16, 60, 20, 10_000), (20, of_twenty, 600, 60_000), (100, 5, 1_000, 120_000)]
    {
        for is_busy in [false, true] {
            let mut cluster = Simulated::new(nodes, 11);
            cluster.run(20 * SECOND);
            let before: u64 = cluster.nodes.values().map(|node| node.bytes_sent).sum();
            let datagrams: u64 = cluster.nodes.values().map(|node| node.datagrams_sent).sum();
            let mut announced = Vec::new();
            for number in 1..=2 * seconds {
                let others = (2..=nodes).filter(|_| is_busy);
                others.for_each(|node| cluster.announce(node, number));
                announced.push((number, cluster.now));
                cluster.announce(1, number);
                cluster.run(SECOND / 2);
            }
            cluster.run(3 * SECOND);
            let delays = cluster.nodes.values().skip(1).flat_map(|node| {
                // A number that was overtaken by a greater one was heard with it.
                announced.iter().map(|(number, at)| *node.heard.range(number..).next().unwrap().1 - *at)
            });
            let mut delays: Vec<_> = delays.collect();
            delays.sort_unstable();
            let at = |percent: usize| delays[(delays.len() - 1) * percent / 100].as_millis();
            let per_node = u64::from(nodes) * (u64::from(seconds as u32) + 3);
            let bytes = (cluster.nodes.values().map(|node| node.bytes_sent).sum::<u64>() - before) / per_node;
            let datagrams =
                (cluster.nodes.values().map(|node| node.datagrams_sent).sum::<u64>() - datagrams) / per_node;
            println!(
                "{nodes} nodes, {}: heard after p50 {} p99 {} max {} ms; {bytes} bytes and {datagrams} \
                 datagrams per node and second",
                if is_busy { "all announce" } else { "one announces" },
                at(50),
                at(99),
                at(100)
            );
            assert!(at(99) <= p99_max && bytes <= bytes_max);
        }
    }
}

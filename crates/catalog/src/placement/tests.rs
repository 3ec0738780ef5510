//! Goal: the owner of a key depends only on the set of nodes, moves only when it must, and no node has more
//! than 1.05 times its share; the members change rarely. Method: rings of many sizes against each other, a
//! golden file of owners, views that are fed histories of silence.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::Duration;

use proptest::prelude::*;
use sandur_base::Id;
use sandur_model::{Dataset, HOUR_NS, Role, Roles, Signal, TenantId, TimeRange};

use super::*;

const GIB: u64 = 1 << 30;

fn node(n: usize) -> LiveNode {
    LiveNode {
        id: format!("node-{n}"),
        zone: format!("zone-{}", n % 3),
        roles: Roles::ALL,
        cache_bytes: 100 * GIB,
        draining: false,
    }
}

fn ring(nodes: impl IntoIterator<Item = usize>) -> Ring {
    Ring::new(nodes.into_iter().map(node))
}

/// One key per slot.
fn keys() -> impl Iterator<Item = PlaceKey> {
    let mut found: BTreeMap<usize, PlaceKey> = BTreeMap::new();
    let mut n = 0u64;
    while found.len() < SLOTS {
        let key = PlaceKey::of_name(&format!("work {n}"));
        found.entry(key.slot()).or_insert(key);
        n += 1;
    }
    found.into_values()
}

/// The part of the slots whose owner differs.
fn moved(before: &Ring, after: &Ring) -> f64 {
    let id = |ring: &Ring, key| ring.owner(key).map(|node| node.id.clone());
    keys().filter(|key| id(before, *key) != id(after, *key)).count() as f64 / SLOTS as f64
}

#[test]
fn no_node_has_more_than_its_share_and_a_twentieth() {
    for count in [1, 2, 3, 5, 8, 20, 50, 100] {
        let ring = ring(0..count);
        let loads: Vec<usize> = (0..count).map(|n| ring.slots_of(&format!("node-{n}"))).collect();
        let (most, mean) = (*loads.iter().max().unwrap(), SLOTS as f64 / count as f64);
        assert_eq!(loads.iter().sum::<usize>(), SLOTS);
        assert!(most as f64 <= (1.05 * mean).ceil(), "{most} of {mean} with {count} nodes");
        let least = *loads.iter().min().unwrap() as f64;
        assert!(least >= 0.7 * mean, "{least} of {mean} with {count} nodes");
    }
}

#[test]
fn a_node_that_leaves_or_comes_moves_its_share_and_little_else() {
    for count in [2usize, 3, 8, 20, 50] {
        let whole = ring(0..count);
        let share = 1.0 / count as f64;
        for gone in [0, count / 2, count - 1] {
            let rest = ring((0..count).filter(|n| *n != gone));
            let part = moved(&whole, &rest);
            let own = whole.slots_of(&format!("node-{gone}")) as f64 / SLOTS as f64;
            assert!(part >= own && part <= own + 0.25 * share, "{part} moved for {own} of {count}");
        }
    }
}

#[test]
fn larger_caches_own_more_within_a_bound() {
    let sized = |n: usize, gib: u64| LiveNode { cache_bytes: gib * GIB, ..node(n) };
    let ring = Ring::new([sized(0, 64), sized(1, 64), sized(2, 128), sized(3, 1)]);
    let slots: Vec<f64> = (0..4).map(|n| ring.slots_of(&format!("node-{n}")) as f64 / SLOTS as f64).collect();
    // Weights 4, 4, 8 and 1: a cache counts as at least an eighth of the largest.
    for (found, weight) in slots.into_iter().zip([4.0, 4.0, 8.0, 1.0]) {
        let share = weight / 17.0;
        assert!((0.85 * share..=1.0501 * share).contains(&found), "{found} of {share}");
    }
}

#[test]
fn the_second_choice_is_another_node_in_another_zone() {
    let ring = ring(0..9);
    let mut seconds: BTreeMap<String, usize> = BTreeMap::new();
    for key in keys() {
        let (first, second) = (ring.owner(key).unwrap(), ring.second(key).unwrap());
        assert_ne!(first.zone, second.zone);
        *seconds.entry(second.id.clone()).or_default() += 1;
    }
    let most = *seconds.values().max().unwrap();
    assert!(most < SLOTS / 9 * 13 / 10, "{most} second choices of one node");
    let one_zone = Ring::new((0..3).map(|n| LiveNode { zone: String::new(), ..node(n) }));
    for key in keys().take(100) {
        assert_ne!(one_zone.owner(key).unwrap().id, one_zone.second(key).unwrap().id);
    }
    let key = PlaceKey::of_name("a");
    assert!(Ring::new([node(0)]).second(key).is_none() && Ring::new([]).owner(key).is_none());
}

#[test]
fn only_nodes_with_the_role_that_do_not_drain_own_work() {
    let mut nodes: Vec<LiveNode> = (0..4).map(node).collect();
    nodes[0].roles = Roles::ALL.without(Role::Compact);
    nodes[1].draining = true;
    let placement = Placement::new(nodes);
    for key in keys().take(2_000) {
        let owner = placement.owner(Role::Compact, key).unwrap();
        assert!(["node-2", "node-3"].contains(&owner.id.as_str()), "{}", owner.id);
        assert_ne!(placement.second(Role::Compact, key).unwrap().id, owner.id);
    }
    assert_eq!(placement.ring(Role::Ingest).len(), 3);
    let unwilling = LiveNode { roles: Roles::ALL.without(Role::Compact), ..node(0) };
    assert!(Placement::new([unwilling]).owner(Role::Compact, PlaceKey::of_name("a")).is_none());
}

#[test]
fn more_nodes_than_the_limit_own_nothing() {
    let ring = ring(0..NODES_MAX + 5);
    assert_eq!(ring.len(), NODES_MAX);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(8))]

    #[test]
    fn the_order_of_the_nodes_makes_no_difference(
        sizes in prop::collection::vec(0u64..5_000, 1..12),
        rotation in 0usize..12,
        names in prop::collection::vec("[a-z]{1,8}", 20),
    ) {
        let nodes: Vec<LiveNode> =
            sizes.iter().enumerate().map(|(n, gib)| LiveNode { cache_bytes: gib * GIB, ..node(n) }).collect();
        let mut turned = nodes.clone();
        turned.rotate_left(rotation % nodes.len());
        turned.reverse();
        turned.push(nodes[0].clone());
        let (a, b) = (Ring::new(nodes), Ring::new(turned));
        for name in names {
            let key = PlaceKey::of_name(&name);
            prop_assert_eq!(a.owner(key), b.owner(key));
            prop_assert_eq!(a.second(key), b.second(key));
        }
    }
}

/// Set `UPDATE_GOLDEN=1` to write the file after a new `PLACEMENT_VERSION`.
#[test]
fn owners_are_those_of_the_golden_file() {
    let mut text =
        String::from("# keys: tenant signal hour shard; rings of 1, 3, 8 and 50 nodes, of sizes\n");
    let uneven = |n: usize| LiveNode { cache_bytes: (n as u64 % 4 + 1) * 37 * GIB, ..node(n) };
    let rings: Vec<(String, Ring)> = [1, 3, 8, 50]
        .map(|count| (count.to_string(), ring(0..count)))
        .into_iter()
        .chain([("12 uneven".to_owned(), Ring::new((0..12).map(uneven)))])
        .collect();
    for (name, ring) in &rings {
        let owners: Vec<u8> =
            keys().flat_map(|key| ring.owner(key).unwrap().id.clone().into_bytes()).collect();
        writeln!(text, "ring of {name}: {:016x}", xxhash_rust::xxh3::xxh3_64(&owners)).unwrap();
    }
    for tenant in ["fake", "team-a", "metrics-of-b"] {
        for (signal, shard) in [(Signal::Logs, None), (Signal::Metrics, None), (Signal::Metrics, Some(200))] {
            for hour in [0i64, 498_674, -1] {
                let dataset = Dataset { tenant: TenantId::new(tenant).unwrap(), signal };
                let window = TimeRange::new(hour * HOUR_NS, (hour + 1) * HOUR_NS);
                let key = match shard {
                    Some(shard) => PlaceKey::of_shard(&dataset, window, shard),
                    None => PlaceKey::of_window(&dataset, window),
                };
                let owners: Vec<&str> =
                    rings.iter().map(|(_, ring)| ring.owner(key).unwrap().id.as_str()).collect();
                let second = &rings[2].1.second(key).unwrap().id;
                let (owners, slot) = (owners.join(" "), key.slot());
                writeln!(text, "{tenant} {signal} {hour} {shard:?}: slot {slot}, {owners}, then {second}")
                    .unwrap();
            }
        }
    }
    let writer = PlaceKey::of_writer(Id::from_parts(1_795_219_200_000, 7));
    writeln!(text, "writer: slot {}, {}", writer.slot(), rings[2].1.owner(writer).unwrap().id).unwrap();
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/fixtures/placement-v1.txt");
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::write(path, &text).unwrap();
    }
    assert_eq!(std::fs::read_to_string(path).unwrap(), text);
}

mod view {
    use super::*;

    const fn s(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    fn seen(n: usize, silent: u64) -> Observed {
        Observed { node: node(n), silent_for: s(silent) }
    }

    fn ids(nodes: &[LiveNode]) -> Vec<&str> {
        nodes.iter().map(|node| node.id.as_str()).collect()
    }

    #[test]
    fn a_silent_node_leaves_after_15_s_and_comes_back_after_5_s_alive() {
        let mut view = NodeView::default();
        assert_eq!(ids(view.observe(s(100), &[seen(0, 0), seen(1, 0), seen(2, 0)])).len(), 3);
        for (now, silent, members) in [(114, 14, 3), (115, 15, 2), (130, 30, 2)] {
            let found = view.observe(s(now), &[seen(0, 0), seen(1, 0), seen(2, silent)]).len();
            assert_eq!(found, members, "at {now}");
        }
        for (now, members) in [(131, 2), (135, 2), (136, 3)] {
            assert_eq!(view.observe(s(now), &[seen(0, 0), seen(1, 0), seen(2, 0)]).len(), members, "{now}");
        }
    }

    #[test]
    fn a_restart_within_15_s_changes_nothing() {
        let mut view = NodeView::default();
        let before = view.observe(s(0), &[seen(0, 0), seen(1, 0)]).to_vec();
        assert_eq!(view.observe(s(10), &[seen(0, 0)]), before, "its process has ended");
        // The next process, while the one before is not sealed yet.
        assert_eq!(view.observe(s(14), &[seen(0, 0), seen(1, 14), seen(1, 0)]), before);
        assert_eq!(view.observe(s(40), &[seen(0, 0), seen(1, 40), seen(1, 0)]), before);
        assert_eq!(ids(view.observe(s(60), &[seen(0, 0)])), ["node-0"], "it did not come back");
    }

    #[test]
    fn a_node_that_flaps_stays_out() {
        let mut view = NodeView::default();
        view.observe(s(0), &[seen(0, 0), seen(1, 0), seen(2, 0)]);
        for round in 1..20u64 {
            let now = round * 20;
            assert_eq!(view.observe(s(now), &[seen(0, 0), seen(1, 0), seen(2, 16)]).len(), 2);
            assert_eq!(view.observe(s(now + 1), &[seen(0, 0), seen(1, 0), seen(2, 0)]).len(), 2);
            assert_eq!(view.observe(s(now + 5), &[seen(0, 0), seen(1, 0), seen(2, 4)]).len(), 2);
        }
    }

    #[test]
    fn a_view_that_lost_most_of_the_nodes_keeps_the_last_members() {
        let mut view = NodeView::default();
        let all: Vec<Observed> = (0..5).map(|n| seen(n, 0)).collect();
        let before = view.observe(s(0), &all).to_vec();
        let cut_off: Vec<Observed> = (0..5).map(|n| seen(n, if n < 2 { 0 } else { 60 })).collect();
        assert_eq!(view.observe(s(60), &cut_off), before);
        assert!(view.is_held());
        // The dead are adopted and no longer registered: the view is good again.
        assert_eq!(ids(view.observe(s(70), &cut_off[..2])), ["node-0", "node-1"]);
        assert!(!view.is_held());
    }

    #[test]
    fn the_first_look_needs_no_earlier_members() {
        let mut view = NodeView::default();
        let mostly_dead: Vec<Observed> = (0..5).map(|n| seen(n, if n == 3 { 0 } else { 60 })).collect();
        assert_eq!(ids(view.observe(s(60), &mostly_dead)), ["node-3"]);
    }
}

/// Before, owners were computed from the ids of process starts. Prints the part of the windows that change
/// their owner when one of eight nodes restarts:
/// `cargo test -p sandur-catalog --lib -- reshuffles --nocapture`.
#[test]
fn a_restart_reshuffles_nothing() {
    let count = 8;
    let windows: Vec<PlaceKey> = keys().collect();
    let hash = |incarnation: u64, key: &PlaceKey| {
        xxhash_rust::xxh3::xxh3_64(format!("{incarnation} {}", key.slot()).as_bytes())
    };
    let by_incarnation = |incarnations: &[u64]| -> Vec<u64> {
        windows.iter().map(|key| *incarnations.iter().max_by_key(|id| hash(**id, key)).unwrap()).collect()
    };
    let first: Vec<u64> = (0..count).collect();
    // The node with incarnation 7 dies; its next process is 100. Until the adoption both are registered.
    let [during, after]: [Vec<u64>; 2] = [[&first[..], &[100]].concat(), [&first[..7], &[100]].concat()];
    let (owners, next) = (by_incarnation(&first), by_incarnation(&after));
    let same_node = |a: u64, b: u64| a == b || (a == 7 && b == 100);
    let differ = owners.iter().zip(&next).filter(|(a, b)| !same_node(**a, **b)).count();
    let unowned = by_incarnation(&during).iter().filter(|id| **id == 7).count();
    let before = differ as f64 / windows.len() as f64;
    let mut view = NodeView::default();
    let mut observed: Vec<Observed> =
        (0..8).map(|n| Observed { node: node(n), silent_for: Duration::ZERO }).collect();
    let ring = Ring::new(view.observe(Duration::ZERO, &observed).to_vec());
    observed[7].silent_for = Duration::from_secs(12);
    let down = Ring::new(view.observe(Duration::from_secs(12), &observed).to_vec());
    observed[7].silent_for = Duration::ZERO;
    let up = Ring::new(view.observe(Duration::from_secs(14), &observed).to_vec());
    println!(
        "a restart of 1 of 8 changed the owner of {:.1} % of the windows and left {:.1} % to a dead process; \
         now it changes {:.1} %",
        100.0 * before,
        100.0 * unowned as f64 / windows.len() as f64,
        100.0 * moved(&ring, &up)
    );
    assert!(before > 0.15);
    assert_eq!((moved(&ring, &down), moved(&ring, &up)), (0.0, 0.0));
}

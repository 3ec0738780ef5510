//! The faults of a run, drawn from a seed.
//!
//! Invariants: a plan of at least [`KINDS`]`.len()` faults has every kind; faults begin in order; a fault
//! concerns nodes that exist.

use std::time::Duration;

/// A kind of fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// `kill -9`, and a start after the length of the fault.
    Kill,
    /// SIGSTOP, and SIGCONT.
    Pause,
    /// SIGTERM, sometimes after a drain, and a start after the process has ended.
    Restart,
    /// `kill -9`, and a start with another clock.
    Clock,
    /// A node does not reach the bucket.
    StoreCut,
    /// Each chunk of bytes between a node and the bucket takes longer.
    StoreSlow,
    /// Two groups of nodes do not reach each other. All reach the bucket.
    PeersCut,
    /// The nodes of a zone reach neither the bucket nor the nodes of other zones.
    ZoneCut,
}

/// All kinds, and their names in tables.
pub const KINDS: [(Kind, &str); 8] = [
    (Kind::Kill, "kill -9"),
    (Kind::Pause, "SIGSTOP"),
    (Kind::Restart, "SIGTERM"),
    (Kind::Clock, "kill -9, other clock"),
    (Kind::StoreCut, "bucket cut off"),
    (Kind::StoreSlow, "bucket slow"),
    (Kind::PeersCut, "nodes cut off"),
    (Kind::ZoneCut, "zone cut off"),
];

/// The number of zones; node `n` is in zone `n % ZONES`.
pub const ZONES: usize = 3;
/// The shortest and the longest pause between the beginnings of two faults, in milliseconds.
const PAUSE_MS: (u64, u64) = (1_000, 4_000);
/// The shortest and the longest fault, in milliseconds.
const LENGTH_MS: (u64, u64) = (1_000, 7_000);
/// One of this many faults of a long plan takes long enough for the others to adopt its node.
const LONG_EACH: u64 = 6;
const LONG_MS: (u64, u64) = (12_000, 25_000);
/// Plans with fewer faults have no long ones.
const LONG_FROM: usize = 20;
/// How far a clock can be wrong, in milliseconds: beyond the 30 s that gossip accepts.
const CLOCK_MS: u64 = 90_000;
/// The longest delay of a chunk of bytes, in milliseconds.
const SLOW_MS: u64 = 1_500;

/// A fault.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    pub kind: Kind,
    /// When it begins, from the start of the plan.
    pub at: Duration,
    pub length: Duration,
    /// The nodes that it concerns; one, except for cut connections between nodes.
    pub nodes: Vec<usize>,
    /// Cut connections are closed, or else stay open without passing bytes.
    pub closes: bool,
    /// The node is drained before it is stopped.
    pub drains: bool,
    /// By how much each chunk is delayed.
    pub delay: Duration,
    /// By how many milliseconds the clock is ahead.
    pub clock_ms: i64,
}

/// Pseudo-random numbers (SplitMix64).
pub struct Random(pub u64);

impl Random {
    /// A number below `bound`.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (z ^ (z >> 31)) % bound.max(1)
    }

    /// An index of a list with `length` items.
    pub fn index(&mut self, length: usize) -> usize {
        self.below(length as u64) as usize
    }

    fn between_ms(&mut self, (least, most): (u64, u64)) -> Duration {
        Duration::from_millis(least + self.below(most - least + 1))
    }

    fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            items.swap(last, self.index(last + 1));
        }
    }
}

/// The name of a kind.
pub fn name(kind: Kind) -> &'static str {
    KINDS.iter().find(|(one, _)| *one == kind).map_or("", |(_, name)| name)
}

/// Draws a plan of `count` faults over `nodes` nodes.
pub fn draw(seed: u64, count: usize, nodes: usize) -> Vec<Fault> {
    let mut random = Random(seed);
    let mut kinds = Vec::new();
    while kinds.len() < count {
        let mut round = KINDS.map(|(kind, _)| kind);
        random.shuffle(&mut round);
        kinds.extend(round);
    }
    kinds.truncate(count);
    let mut at = Duration::ZERO;
    let mut faults = Vec::new();
    for kind in kinds {
        at += random.between_ms(PAUSE_MS);
        let is_long = count >= LONG_FROM && random.below(LONG_EACH) == 0;
        let length = random.between_ms(if is_long { LONG_MS } else { LENGTH_MS });
        let clock_ms = random.below(2 * CLOCK_MS + 1) as i64 - CLOCK_MS as i64;
        faults.push(Fault {
            kind,
            at,
            length,
            nodes: concerned(kind, nodes, &mut random),
            closes: random.below(2) == 0,
            drains: random.below(2) == 0,
            delay: Duration::from_millis(100 + random.below(SLOW_MS - 100)),
            clock_ms,
        });
    }
    faults
}

fn concerned(kind: Kind, nodes: usize, random: &mut Random) -> Vec<usize> {
    let mut all: Vec<usize> = (0..nodes).collect();
    match kind {
        Kind::PeersCut => {
            random.shuffle(&mut all);
            all.truncate(1 + random.index(nodes.saturating_sub(1).max(1)));
            all
        }
        Kind::ZoneCut => {
            let zone = random.index(ZONES.min(nodes));
            all.retain(|node| node % ZONES == zone);
            all
        }
        _ => vec![random.index(nodes)],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_repeats_its_plan_and_every_kind_occurs() {
        for seed in 0..50 {
            for nodes in [1, 2, 3, 9] {
                let plan = draw(seed, 10, nodes);
                assert_eq!(plan, draw(seed, 10, nodes));
                assert!(KINDS.iter().all(|(kind, _)| plan.iter().any(|fault| fault.kind == *kind)));
                assert!(plan.is_sorted_by_key(|fault| fault.at));
                for fault in &plan {
                    assert!(!fault.nodes.is_empty() && fault.nodes.iter().all(|node| *node < nodes));
                }
            }
        }
        assert_ne!(draw(1, 10, 3), draw(2, 10, 3));
        let ends = draw(7, 10, 3).iter().map(|fault| fault.at + fault.length).max().unwrap();
        assert!(ends < Duration::from_secs(50), "a short plan is over in time: {ends:?}");
    }
}

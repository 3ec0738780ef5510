//! The owner of each slot: weighted rendezvous hashing with a bound on the load.

use std::sync::OnceLock;

use xxhash_rust::xxh3::xxh3_64;

use super::key::{PLACEMENT_VERSION, PlaceKey, SLOTS};
use super::live_node::LiveNode;
use super::weight::{may_exceed, mixed, score, weights};

/// The most nodes of a ring. Further nodes, in the order of their ids, own nothing.
pub const NODES_MAX: usize = 1_000;
/// No node has more than this many percent of its share of the slots.
const LOAD_PERCENT: u128 = 105;

/// The nodes of one role, and the slots that each of them owns. Equal for equal sets of nodes, in whatever
/// order they are given.
#[derive(Debug, Default)]
pub struct Ring {
    /// By id.
    nodes: Vec<Member>,
    /// Index of the owner of each slot; empty if there are fewer than two nodes. Computed when it is first
    /// asked for: 25 ms for 100 nodes.
    owners: OnceLock<Vec<u16>>,
}

#[derive(Debug)]
struct Member {
    node: LiveNode,
    weight: u64,
    hash: u64,
}

impl Ring {
    /// Returns the ring of all of these nodes, at most [`NODES_MAX`].
    pub fn new(nodes: impl IntoIterator<Item = LiveNode>) -> Self {
        let mut nodes: Vec<LiveNode> = nodes.into_iter().collect();
        nodes.sort();
        nodes.dedup_by(|a, b| a.id == b.id);
        nodes.truncate(NODES_MAX);
        let weights = weights(&nodes.iter().map(|node| node.cache_bytes).collect::<Vec<u64>>());
        let member = |(node, weight): (LiveNode, u64)| Member { hash: hash_of(&node.id), node, weight };
        let nodes: Vec<Member> = nodes.into_iter().zip(weights).map(member).collect();
        Self { nodes, owners: OnceLock::new() }
    }

    /// Returns the number of nodes.
    pub fn len(&self) -> usize {
        self.nodes.len()
    }

    /// Whether no node has the role.
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// Returns the owner of a key; `None` in an empty ring.
    pub fn owner(&self, key: PlaceKey) -> Option<&LiveNode> {
        self.nodes.get(self.owner_of(key.slot())).map(|member| &member.node)
    }

    /// Returns the second choice for a key: the best node in another zone than the owner's, else the best
    /// other node. `None` if the owner is the only node.
    pub fn second(&self, key: PlaceKey) -> Option<&LiveNode> {
        let (slot, first) = (key.slot(), self.owner_of(key.slot()));
        let zone = &self.nodes.get(first)?.node.zone;
        let others = self.nodes.iter().enumerate().filter(|(n, _)| *n != first).map(|(_, member)| member);
        let rank = |member: &&Member| (member.node.zone != *zone, member.score(slot));
        let best = others.max_by(|a, b| {
            let ((far_a, score_a), (far_b, score_b)) = (rank(a), rank(b));
            far_a.cmp(&far_b).then(score_a.total_cmp(&score_b)).then(b.node.id.cmp(&a.node.id))
        });
        best.map(|member| &member.node)
    }

    /// Returns the number of slots that a node owns, of [`SLOTS`].
    pub fn slots_of(&self, id: &str) -> usize {
        let Ok(index) = self.nodes.binary_search_by(|member| member.node.id.as_str().cmp(id)) else {
            return 0;
        };
        match self.owners() {
            [] => SLOTS,
            owners => owners.iter().filter(|owner| usize::from(**owner) == index).count(),
        }
    }

    fn owner_of(&self, slot: usize) -> usize {
        self.owners().get(slot).copied().map_or(0, usize::from)
    }

    fn owners(&self) -> &[u16] {
        self.owners.get_or_init(|| if self.nodes.len() < 2 { Vec::new() } else { owners(&self.nodes) })
    }
}

impl Member {
    fn score(&self, slot: usize) -> f64 {
        score(self.weight, mixed(self.hash, slot))
    }
}

fn hash_of(id: &str) -> u64 {
    let mut bytes = vec![PLACEMENT_VERSION, 0];
    bytes.extend_from_slice(id.as_bytes());
    xxh3_64(&bytes)
}

/// Gives each slot to the node with the highest score that has room.
fn owners(nodes: &[Member]) -> Vec<u16> {
    let total: u128 = nodes.iter().map(|member| u128::from(member.weight)).sum();
    let most = |member: &Member| {
        let share = LOAD_PERCENT * SLOTS as u128 * u128::from(member.weight);
        usize::try_from(share.div_ceil(100 * total)).unwrap_or(SLOTS)
    };
    let mut room: Vec<usize> = nodes.iter().map(most).collect();
    let mut owners = Vec::with_capacity(SLOTS);
    for slot in 0..SLOTS {
        let mut best = (f64::NEG_INFINITY, 0);
        for (n, member) in nodes.iter().enumerate().filter(|(n, _)| room[*n] > 0) {
            let hash = mixed(member.hash, slot);
            // Of equal scores the smaller id wins.
            if may_exceed(best.0, member.weight, hash) {
                let score = score(member.weight, hash);
                if score > best.0 {
                    best = (score, n);
                }
            }
        }
        room[best.1] = room[best.1].saturating_sub(1);
        owners.push(best.1 as u16);
    }
    owners
}

//! Placement: which node does a piece of work.
//!
//! One function for every kind of work: a pure function of the nodes and of a key. Nodes that know the
//! same members agree without asking each other. Nothing is wrong if they disagree: two nodes then do the
//! same work and one result is thrown away, or a piece of work waits.
//!
//! **The function.** A key is a hash of what the work concerns ([`PlaceKey`]). Its highest bits choose one
//! of [`SLOTS`] slots. Rendezvous hashing over stable node ids orders the nodes of each slot, weighted by
//! the size of their caches ([`Ring`]). No node has more than 1.05 times its share of the slots. So a node
//! that leaves or comes moves its own share, and little else.
//!
//! **The members.** [`NodeView`] decides which nodes count. A node that is silent for a moment keeps its
//! place, and a view that has lost most of the nodes keeps the last good members.
//!
//! **Versioned.** Every node must compute the same owner. A change of any constant here is a new
//! [`PLACEMENT_VERSION`] and a new golden file (`fixtures/placement-v1.txt`).

mod key;
mod node_view;
mod ring;
mod weight;

use std::sync::OnceLock;

use sandur_model::{Role, Roles};

pub use key::PlaceKey;
pub use node_view::{NodeView, NodeViewOptions, Observed};
pub use ring::Ring;

/// The version of the function. It is part of every hash.
pub const PLACEMENT_VERSION: u8 = 1;

/// Number of slots among which keys are divided. With 50 nodes a node has 328 of them on average, and plain
/// rendezvous hashing would miss this by 6 % (one standard deviation).
pub const SLOTS: usize = 1 << 14;

/// The most nodes of a ring. Further nodes, in the order of their ids, own nothing.
pub const NODES_MAX: usize = 1_000;

/// A node as placement sees it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct LiveNode {
    /// The stable id: it outlives restarts.
    pub id: String,
    /// The failure domain; empty if it is not configured.
    pub zone: String,
    /// The work that the node does.
    pub roles: Roles,
    /// Bytes of the node's cache: its weight. 0 if they are unknown.
    pub cache_bytes: u64,
    /// Whether the node is leaving and takes no new work.
    pub draining: bool,
}

/// The owners of all work for one set of members.
#[derive(Debug, Default)]
pub struct Placement {
    nodes: Vec<LiveNode>,
    /// One ring per role, computed when it is first asked for.
    rings: [OnceLock<Ring>; Role::ALL.len()],
}

impl Placement {
    /// Returns the placement over these nodes. Nodes that drain own nothing.
    pub fn new(nodes: impl IntoIterator<Item = LiveNode>) -> Self {
        let mut nodes: Vec<LiveNode> = nodes.into_iter().collect();
        nodes.sort();
        nodes.dedup_by(|a, b| a.id == b.id);
        Self { nodes, rings: Default::default() }
    }

    /// Returns the nodes by id.
    pub fn nodes(&self) -> &[LiveNode] {
        &self.nodes
    }

    /// Returns the ring of the nodes that have a role.
    pub fn ring(&self, role: Role) -> &Ring {
        self.rings[role as usize].get_or_init(|| {
            let able = self.nodes.iter().filter(|node| node.roles.has(role) && !node.draining);
            Ring::new(able.cloned())
        })
    }

    /// Returns the node that does the work of a role on a key; `None` if no node has the role.
    pub fn owner(&self, role: Role, key: PlaceKey) -> Option<&LiveNode> {
        self.ring(role).owner(key)
    }

    /// Returns the node that does the work when the owner does not: in another zone, if there is one.
    pub fn second(&self, role: Role, key: PlaceKey) -> Option<&LiveNode> {
        self.ring(role).second(key)
    }
}

#[cfg(test)]
mod tests;

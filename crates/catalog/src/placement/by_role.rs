//! The owners of the work of each role.

use std::sync::OnceLock;

use sandur_model::Role;

use super::key::PlaceKey;
use super::live_node::LiveNode;
use super::ring::Ring;

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

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

mod by_role;
mod key;
mod live_node;
mod node_view;
mod ring;
#[cfg(test)]
mod tests;
mod weight;

pub use by_role::Placement;
pub use key::{PLACEMENT_VERSION, PlaceKey, SLOTS};
pub use live_node::LiveNode;
pub use node_view::{NodeView, NodeViewOptions, Observed};
pub use ring::{NODES_MAX, Ring};

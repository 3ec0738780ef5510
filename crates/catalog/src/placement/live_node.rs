//! A node as placement sees it.

use sandur_model::Roles;

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

//! Hash rings: they choose the members of a cluster that get a name, exactly as the original programs
//! do.
//!
//! **Invariants.** A ring offers members in the order in which its original program chooses replicas,
//! and offers at most twice as many as there are members. Positions depend only on the nodes and their
//! order.

mod carbon;
mod carbon_carbon_ch;
mod carbon_fast;
mod carbon_fnv1a_ch;
mod carbon_mmh3_ch;
mod circle;
mod free;
mod jump_fnv1a_ch;
mod relay_carbon_ch;
mod relay_fnv1a_ch;
mod relay_ng;
mod relay_ng_v1;
mod relay_ng_v2;
mod table;

use std::ops::ControlFlow;

pub use table::{Build, Kind, RINGS, rings_page};

use crate::node::Node;

/// The largest number of members of a ring.
pub const NODES_MAX: usize = 1_024;

/// Why nodes cannot form a ring.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RingError {
    /// There are no nodes.
    #[error("a cluster that hashes names has no members: name at least one")]
    Empty,
    /// There are too many nodes.
    #[error("{0} members are more than the {NODES_MAX} that a ring may have: make several clusters")]
    TooMany(usize),
    /// The ring cannot distinguish two nodes.
    #[error(
        "members {0} and {1} are the same to this ring, which hashes host and instance only: set instances"
    )]
    Alike(String, String),
    /// No position is free.
    #[error("every one of the 65,536 positions is taken before member {0}: make several clusters")]
    Full(String),
}

/// A placement of names on the members of a cluster.
pub trait Ring: Send + Sync {
    /// Offers the indexes of members to `take`, in the order of preference, until it breaks.
    fn offer(&self, name: &[u8], take: &mut dyn FnMut(usize) -> ControlFlow<()>);

    /// Returns positions and members in ascending order; empty if the ring has no positions.
    fn positions(&self) -> Vec<(i64, usize)> {
        Vec::new()
    }

    /// Returns the member at a position instead of a name's hash; `None` if the ring has no positions.
    fn at(&self, _position: i64) -> Option<usize> {
        None
    }
}

pub(crate) fn check(nodes: &[Node]) -> Result<(), RingError> {
    match nodes.len() {
        0 => Err(RingError::Empty),
        n if n > NODES_MAX => Err(RingError::TooMany(n)),
        _ => Ok(()),
    }
}

/// Returns the position of a name on carbon's `carbon_ch` and compatible rings, for tests that need
/// names at given positions.
pub fn carbon_position(name: &[u8]) -> u16 {
    crate::hash::md5::position(name)
}

/// Returns the position of a name on carbon-c-relay's `fnv1a_ch`.
pub fn fnv1a_position(name: &[u8]) -> u16 {
    crate::hash::fnv1a::folded(crate::hash::fnv1a::fnv1a_32_signed(name))
}

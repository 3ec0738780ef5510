//! Rings: which members of a cluster a name belongs to, each exactly as its original places it.
//!
//! **Invariants.** A ring offers members in the order in which its original takes replicas, at most twice the
//! number of members. Positions do not depend on anything but the nodes in their order.

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

/// Members that a ring may have at most.
pub const NODES_MAX: usize = 1_024;

/// Why nodes make no ring.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RingError {
    /// There are none.
    #[error("a cluster that hashes names has no members: name at least one")]
    Empty,
    /// There are too many.
    #[error("{0} members are more than the {NODES_MAX} that a ring may have: make several clusters")]
    TooMany(usize),
    /// Two are alike to the ring.
    #[error(
        "members {0} and {1} are one to this ring, which knows host and instance alone: give them instances"
    )]
    Alike(String, String),
    /// There is no position left.
    #[error("every one of the 65,536 positions is taken before member {0}: make several clusters")]
    Full(String),
}

/// Where names belong.
pub trait Ring: Send + Sync {
    /// Offers members, by their index, to `take` until it has enough.
    fn offer(&self, name: &[u8], take: &mut dyn FnMut(usize) -> ControlFlow<()>);

    /// Positions and members in order; empty where there are no positions.
    fn positions(&self) -> Vec<(i64, usize)> {
        Vec::new()
    }

    /// The member at a position, without a name's hash; `None` where there are no positions.
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

/// The position of a name on carbon's `carbon_ch` and its relatives: for tests that need names of positions.
pub fn carbon_position(name: &[u8]) -> u16 {
    crate::hash::md5::position(name)
}

/// The position of a name on carbon-c-relay's `fnv1a_ch`.
pub fn fnv1a_position(name: &[u8]) -> u16 {
    crate::hash::fnv1a::folded(crate::hash::fnv1a::fnv1a_32_signed(name))
}

//! carbon-relay-ng's `consistentHashing`: carbon's ring before 2013, where a taken position does not
//! move.

use super::{Ring, RingError, relay_ng};
use crate::node::Node;

pub(super) fn build(nodes: &[Node]) -> Result<Box<dyn Ring>, RingError> {
    relay_ng::ring(nodes, false)
}

//! carbon-relay-ng's `consistentHashing`: carbon's ring of before 2013, without a step for taken positions.

use super::{Ring, RingError, relay_ng};
use crate::node::Node;

pub(super) fn build(nodes: &[Node]) -> Result<Box<dyn Ring>, RingError> {
    relay_ng::ring(nodes, false)
}

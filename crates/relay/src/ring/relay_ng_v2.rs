//! carbon-relay-ng's `consistentHashing-v2`: with the step for taken positions, which goes round and does not
//! see the positions of the member that is being added.

use super::{Ring, RingError, relay_ng};
use crate::node::Node;

pub(super) fn build(nodes: &[Node]) -> Result<Box<dyn Ring>, RingError> {
    relay_ng::ring(nodes, true)
}

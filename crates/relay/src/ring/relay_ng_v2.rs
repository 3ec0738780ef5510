//! carbon-relay-ng's `consistentHashing-v2`: a taken position moves to the next free one, wrapping
//! around; the positions of the member that is being added do not count as taken.

use super::{Ring, RingError, relay_ng};
use crate::node::Node;

pub(super) fn build(nodes: &[Node]) -> Result<Box<dyn Ring>, RingError> {
    relay_ng::ring(nodes, true)
}

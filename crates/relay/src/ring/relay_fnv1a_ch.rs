//! carbon-c-relay's `fnv1a_ch`: folded FNV-1a over the instance, or over host and port if there is none.
//! Bytes are signed, as C's `char` is on x86.

use super::relay_carbon_ch::first_wins;
use super::{Ring, RingError};
use crate::hash::fnv1a::{fnv1a_32_signed, folded};
use crate::node::Node;

pub(super) fn build(nodes: &[Node]) -> Result<Box<dyn Ring>, RingError> {
    let key = |node: &Node, replica: usize| match &node.instance {
        Some(instance) => format!("{replica}-{instance}"),
        None => format!("{replica}-{}:{}", node.host, node.port),
    };
    first_wins(
        nodes,
        |key| i64::from(folded(fnv1a_32_signed(key))),
        key,
        |one, other| one.host.as_bytes().cmp(other.host.as_bytes()).then(one.port.cmp(&other.port)),
    )
}

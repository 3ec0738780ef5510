//! Carbon's `fnv1a_ch`: folded FNV-1a over the instance only; without an instance, over the text `None`.

use super::carbon::ring;
use super::{Ring, RingError};
use crate::hash::fnv1a::{fnv1a_32, folded};
use crate::node::Node;

pub(super) fn build(nodes: &[Node]) -> Result<Box<dyn Ring>, RingError> {
    let key = |node: &Node, _: &str, replica: usize| {
        format!("{replica}-{}", node.instance.as_deref().unwrap_or("None"))
    };
    ring(nodes, |key| i64::from(folded(fnv1a_32(key))), key)
}

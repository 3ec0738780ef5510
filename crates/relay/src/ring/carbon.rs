//! What carbon's three rings share: a hundred positions for each node, the next free one where a position is
//! taken (without going round: it may lie beyond the range of the hash), replicas in the order of the ring.

use super::circle::{Circle, End, Hash};
use super::free::Taken;
use super::{Ring, RingError, check};
use crate::node::Node;

/// Positions of a node.
pub(super) const REPLICAS: usize = 100;

/// Makes the ring; `key` names a position of a node before it is hashed.
pub(super) fn ring(
    nodes: &[Node],
    hash: Hash,
    key: fn(&Node, &str, usize) -> String,
) -> Result<Box<dyn Ring>, RingError> {
    check(nodes)?;
    distinct(nodes)?;
    let mut taken = Taken::default();
    let mut entries = Vec::with_capacity(nodes.len() * REPLICAS);
    for (index, node) in nodes.iter().enumerate() {
        let pair = node.python_pair();
        for replica in 0..REPLICAS {
            let position = taken.free_from(hash(key(node, &pair, replica).as_bytes()));
            taken.take(position);
            entries.push((position, index as u32));
        }
    }
    entries.sort_unstable();
    Ok(Box::new(Circle::new(entries, nodes.len(), hash, End::BeforeLast)))
}

/// Carbon refuses two nodes of one host and instance.
pub(super) fn distinct(nodes: &[Node]) -> Result<(), RingError> {
    let mut seen = std::collections::HashMap::new();
    for node in nodes {
        if let Some(other) = seen.insert((&node.host, &node.instance), node) {
            return Err(RingError::Alike(other.to_string(), node.to_string()));
        }
    }
    Ok(())
}

//! The common part of carbon's three hash rings: a hundred positions per node; if a position is taken,
//! the next free one, which may lie beyond the range of the hash, since the search does not wrap around;
//! replicas in the order of the ring.

use super::circle::{Circle, End, Hash};
use super::free::Taken;
use super::{Ring, RingError, check};
use crate::node::Node;

/// Number of positions of a node.
pub(super) const REPLICAS: usize = 100;

/// Builds the ring. `key` returns the text that is hashed for a position of a node.
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

/// Refuses two nodes with the same host and instance, as carbon does.
pub(super) fn distinct(nodes: &[Node]) -> Result<(), RingError> {
    let mut seen = std::collections::HashMap::new();
    for node in nodes {
        if let Some(other) = seen.insert((&node.host, &node.instance), node) {
            return Err(RingError::Alike(other.to_string(), node.to_string()));
        }
    }
    Ok(())
}

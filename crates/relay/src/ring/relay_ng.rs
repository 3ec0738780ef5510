//! The common part of carbon-relay-ng's two rings: carbon's hash, 16-bit positions that wrap around, and
//! entries sorted by position, host and instance. carbon-relay-ng has no replicas; here they are the
//! next members of the ring.
//!
//! Two destinations with the same host and instance have equal entries there, whose order its sort
//! leaves undefined. Here the first destination wins.

use super::circle::{Circle, End};
use super::free::Taken;
use super::{Ring, RingError, carbon, check};
use crate::hash::md5::position;
use crate::node::Node;

/// Builds the ring. With `steps`, a position that an earlier member has taken moves to the next free
/// one.
pub(super) fn ring(nodes: &[Node], steps: bool) -> Result<Box<dyn Ring>, RingError> {
    check(nodes)?;
    let (mut taken, mut entries) = (Positions::default(), Vec::new());
    for (index, node) in nodes.iter().enumerate() {
        let instance = node.instance.as_ref().filter(|own| !own.is_empty());
        let instance = instance.map_or("None".to_owned(), |own| format!("'{own}'"));
        let mut own = Vec::with_capacity(carbon::REPLICAS);
        for replica in 0..carbon::REPLICAS {
            let wanted = position(format!("('{}', {instance}):{replica}", node.host).as_bytes());
            let found = if steps { taken.free_from(wanted) } else { Some(wanted) };
            own.push(found.ok_or_else(|| RingError::Full(node.to_string()))?);
        }
        own.iter().for_each(|position| taken.take(*position));
        entries.extend(own.into_iter().map(|position| (i64::from(position), index as u32)));
    }
    entries.sort_by(|one, other| {
        let [one_node, other_node] = [one, other].map(|entry| &nodes[entry.1 as usize]);
        let text = |node: &Node| node.instance.clone().unwrap_or_default();
        let by_node = || one_node.host.cmp(&other_node.host);
        one.0.cmp(&other.0).then_with(by_node).then_with(|| text(one_node).cmp(&text(other_node)))
    });
    Ok(Box::new(Circle::new(entries, nodes.len(), |key| i64::from(position(key)), End::Round)))
}

/// Taken positions, which wrap around.
#[derive(Default)]
struct Positions(Taken);

impl Positions {
    fn free_from(&mut self, wanted: u16) -> Option<u16> {
        let free = self.0.free_from(i64::from(wanted));
        u16::try_from(free).ok().or_else(|| u16::try_from(self.0.free_from(0)).ok())
    }

    fn take(&mut self, position: u16) {
        self.0.take(i64::from(position));
    }
}

//! carbon-c-relay's `carbon_ch`: carbon's hash, but a taken position does not move to the next free one.
//! All entries of a position belong to the first node by host, then by instance (nodes without an
//! instance last).

use std::cmp::Ordering;

use super::circle::{Circle, End};
use super::{Ring, RingError, carbon, check};
use crate::hash::md5::position;
use crate::node::Node;

pub(super) fn build(nodes: &[Node]) -> Result<Box<dyn Ring>, RingError> {
    let key = |node: &Node, replica: usize| {
        let instance = node.instance.as_ref().map_or("None".to_owned(), |own| format!("'{own}'"));
        format!("('{}', {instance}):{replica}", node.host)
    };
    first_wins(
        nodes,
        |key| i64::from(position(key)),
        key,
        |one, other| {
            let by_instance = match (&one.instance, &other.instance) {
                (None, None) => Ordering::Equal,
                (None, Some(_)) => Ordering::Greater,
                (Some(_), None) => Ordering::Less,
                (Some(one), Some(other)) => one.as_bytes().cmp(other.as_bytes()),
            };
            one.host.as_bytes().cmp(other.host.as_bytes()).then(by_instance)
        },
    )
}

/// Builds a ring where all entries of one position belong to the first of them.
pub(super) fn first_wins(
    nodes: &[Node],
    hash: fn(&[u8]) -> i64,
    key: impl Fn(&Node, usize) -> String,
    order: impl Fn(&Node, &Node) -> Ordering,
) -> Result<Box<dyn Ring>, RingError> {
    check(nodes)?;
    let mut entries = Vec::with_capacity(nodes.len() * carbon::REPLICAS);
    for (index, node) in nodes.iter().enumerate() {
        let replicas = 0..carbon::REPLICAS;
        entries.extend(replicas.map(|replica| (hash(key(node, replica).as_bytes()), index as u32)));
    }
    entries.sort_by(|one, other| {
        let by_node = || order(&nodes[one.1 as usize], &nodes[other.1 as usize]);
        one.0.cmp(&other.0).then_with(by_node)
    });
    for index in 1..entries.len() {
        if entries[index].0 == entries[index - 1].0 {
            entries[index].1 = entries[index - 1].1;
        }
    }
    Ok(Box::new(Circle::new(entries, nodes.len(), hash, End::Round)))
}

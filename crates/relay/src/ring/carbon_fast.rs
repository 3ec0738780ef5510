//! Carbon's `fast-hashing`: nodes are sorted by their hashes, and a name's hash modulo their number is
//! the index of the first choice. Adding or removing a node moves most names.
//!
//! Carbon keeps nodes in a set, so the order of two nodes with equal hashes is undefined there. Here it
//! is the order of the configuration.

use std::ops::ControlFlow;

use super::carbon::distinct;
use super::{Ring, RingError, check};
use crate::hash::fnv1a::{fnv1a_32, folded};
use crate::hash::md5::position;
use crate::hash::mmh3::mmh3;
use crate::node::Node;

struct Fast {
    order: Vec<usize>,
    hash: fn(&[u8]) -> i64,
}

impl Ring for Fast {
    fn offer(&self, name: &[u8], take: &mut dyn FnMut(usize) -> ControlFlow<()>) {
        let first = (self.hash)(name).rem_euclid(self.order.len() as i64) as usize;
        for step in 0..self.order.len() {
            if take(self.order[(first + step) % self.order.len()]).is_break() {
                return;
            }
        }
    }
}

fn fast(nodes: &[Node], hash: fn(&[u8]) -> i64) -> Result<Box<dyn Ring>, RingError> {
    check(nodes)?;
    distinct(nodes)?;
    let mut order: Vec<usize> = (0..nodes.len()).collect();
    order.sort_by_key(|index| hash(nodes[*index].python_pair().as_bytes()));
    Ok(Box::new(Fast { order, hash }))
}

pub(super) fn carbon_ch(nodes: &[Node]) -> Result<Box<dyn Ring>, RingError> {
    fast(nodes, |key| i64::from(position(key)))
}

pub(super) fn fnv1a_ch(nodes: &[Node]) -> Result<Box<dyn Ring>, RingError> {
    fast(nodes, |key| i64::from(folded(fnv1a_32(key))))
}

pub(super) fn mmh3_ch(nodes: &[Node]) -> Result<Box<dyn Ring>, RingError> {
    fast(nodes, |key| i64::from(mmh3(key)))
}

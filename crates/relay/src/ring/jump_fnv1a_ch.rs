//! carbon-c-relay's `jump_fnv1a_ch`: jump hashing of 64-bit FNV-1a over the members in the order of
//! their instances, with members without an instance last. Replicas use a rehash over the remaining
//! members.
//!
//! Two instances that are both numbers compare as numbers, others as texts. That is not a total order,
//! and the result in the original depends on the C library: the merge sort here is that of glibc before
//! 2.37.

use std::cmp::Ordering;
use std::ops::ControlFlow;

use super::{Ring, RingError, check};
use crate::hash::fnv1a::fnv1a_64_signed;
use crate::hash::jump::{bucket, rehash};
use crate::node::Node;

struct Jump {
    order: Vec<usize>,
}

impl Ring for Jump {
    fn offer(&self, name: &[u8], take: &mut dyn FnMut(usize) -> ControlFlow<()>) {
        let mut hash = fnv1a_64_signed(name);
        let first = bucket(hash, self.order.len());
        if take(self.order[first]).is_break() {
            return;
        }
        let mut left = self.order.clone();
        left.swap_remove(first);
        while !left.is_empty() {
            hash = rehash(hash);
            let next = bucket(hash, left.len());
            if take(left.swap_remove(next)).is_break() {
                return;
            }
        }
    }
}

pub(super) fn build(nodes: &[Node]) -> Result<Box<dyn Ring>, RingError> {
    check(nodes)?;
    let order = merge_sorted(&Vec::from_iter(0..nodes.len()), &|one, other| match (
        &nodes[one].instance,
        &nodes[other].instance,
    ) {
        (None, None) => one.cmp(&other),
        (None, Some(_)) => Ordering::Greater,
        (Some(_), None) => Ordering::Less,
        (Some(one), Some(other)) => by_instance(one, other),
    });
    Ok(Box::new(Jump { order }))
}

fn by_instance(one: &str, other: &str) -> Ordering {
    match (number(one), number(other)) {
        // The original program returns the difference as an `int`.
        (Some(one), Some(other)) => (one.wrapping_sub(other) as i32).cmp(&0),
        _ => one.as_bytes().cmp(other.as_bytes()),
    }
}

/// Returns what C's `strtol` parses, if that is the whole text.
fn number(text: &str) -> Option<i64> {
    if text.is_empty() {
        return Some(0);
    }
    let text = text.trim_start_matches([' ', '\t', '\n', '\x0b', '\x0c', '\r']);
    let (sign, digits) = match text.as_bytes().first() {
        Some(b'-') => (-1, &text[1..]),
        Some(b'+') => (1, &text[1..]),
        _ => (1, text),
    };
    let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    let value = digits.bytes().fold(0_i64, |value, digit| {
        value.saturating_mul(10).saturating_add(sign * i64::from(digit.wrapping_sub(b'0')))
    });
    is_number.then_some(value)
}

/// Merge sort, stable, for any comparison function. The depth of the recursion is the logarithm of at
/// most `NODES_MAX`.
fn merge_sorted(items: &[usize], order: &dyn Fn(usize, usize) -> Ordering) -> Vec<usize> {
    if items.len() < 2 {
        return items.to_vec();
    }
    let (left, right) = items.split_at(items.len() / 2);
    let (left, right) = (merge_sorted(left, order), merge_sorted(right, order));
    let mut merged = Vec::with_capacity(items.len());
    let (mut l, mut r) = (0, 0);
    while l < left.len() && r < right.len() {
        if order(left[l], right[r]).is_gt() {
            merged.push(right[r]);
            r += 1;
        } else {
            merged.push(left[l]);
            l += 1;
        }
    }
    merged.extend_from_slice(&left[l..]);
    merged.extend_from_slice(&right[r..]);
    merged
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instances_are_sorted_as_in_c_and_any_mixture_can_be_sorted() {
        assert_eq!(by_instance("2", "10"), Ordering::Less);
        assert_eq!(by_instance("2x", "10"), Ordering::Greater);
        assert_eq!(by_instance(" -3", "+1"), Ordering::Less);
        assert_eq!(number("99999999999999999999"), Some(i64::MAX));
        let instances = ["10", "9", "9a", "a", "1", "10", "zz", "-1"];
        let nodes: Vec<Node> = (0..40)
            .map(|index| Node {
                host: format!("h{index}"),
                instance: Some(instances[index * 7 % 8].to_owned()),
                ..Node::default()
            })
            .collect();
        let mut seen = Vec::new();
        build(&nodes).unwrap().offer(b"a.b", &mut |node| {
            seen.push(node);
            ControlFlow::Continue(())
        });
        seen.sort_unstable();
        assert_eq!(seen, (0..40).collect::<Vec<_>>());
    }
}

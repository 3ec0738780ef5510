//! The upper bound: a cache that knows the future and evicts the value whose next read is last (Belady 1966).
//!
//! It stores no value that is never read again, and bypasses values whose next read is later than those
//! of all stored ones. With values of one size no policy has more hits. With values of several sizes it
//! is not a strict bound, but no policy that knows only the past comes near it.

use std::collections::{BTreeSet, HashMap};

use sandur_cache::model::{Kind, Request};

/// The position of a read that never comes.
const NEVER: u32 = u32::MAX;

/// The hit ratio of such a cache of `capacity` bytes over `requests`, of which there must be fewer than
/// 2^32 - 1. Memory: 4 bytes per request, and about a hundred per key.
pub fn farthest_next_use(requests: &[Request], capacity: u64) -> f64 {
    let next = next_reads(requests);
    // Position of the next read and bytes of each stored key. No two keys share a position.
    let mut held: HashMap<u64, (u32, u32)> = HashMap::new();
    let mut by_next: BTreeSet<(u32, u64)> = BTreeSet::new();
    let (mut bytes, mut reads, mut hits) = (0u64, 0u64, 0u64);
    for (request, next) in requests.iter().zip(next) {
        let found = held.remove(&request.hash);
        if let Some((former, weight)) = found {
            by_next.remove(&(former, request.hash));
            bytes -= u64::from(weight);
        }
        if request.kind == Kind::Read {
            reads += 1;
            hits += u64::from(found.is_some());
        }
        if next == NEVER || u64::from(request.bytes) > capacity {
            continue;
        }
        held.insert(request.hash, (next, request.bytes));
        by_next.insert((next, request.hash));
        bytes += u64::from(request.bytes);
        while bytes > capacity {
            let Some((_, hash)) = by_next.pop_last() else { break };
            bytes -= held.remove(&hash).map_or(0, |(_, weight)| u64::from(weight));
        }
    }
    hits as f64 / reads.max(1) as f64
}

/// For each request the position of the next read of its key, unless a write comes before it.
fn next_reads(requests: &[Request]) -> Vec<u32> {
    let mut upcoming: HashMap<u64, u32> = HashMap::new();
    let mut next = vec![NEVER; requests.len()];
    for (at, request) in requests.iter().enumerate().rev() {
        let coming = if request.kind == Kind::Read { at as u32 } else { NEVER };
        next[at] = upcoming.insert(request.hash, coming).unwrap_or(NEVER);
    }
    next
}

#[cfg(test)]
mod tests {
    use super::*;
    use sandur_cache::Hint;

    #[test]
    fn a_loop_hits_as_far_as_it_fits() {
        let read =
            |hash| Request { at_s: 0, hash, bytes: 10, kind: Kind::Read, hint: Hint::Point, tenant: 0 };
        let requests: Vec<Request> = (0..100).flat_map(|_| (0..10).map(read)).collect();
        // Ten keys in a loop, room for five: the one whose next read is last is evicted, so 4 to 5 of 10
        // stay.
        let half = farthest_next_use(&requests, 50);
        assert!((0.43..=0.50).contains(&half), "{half}");
        assert_eq!(farthest_next_use(&requests, 100), 0.99);
        assert_eq!(farthest_next_use(&requests, 9), 0.0);
        // A value that is overwritten before it is read gains nothing.
        let write = |hash| Request { kind: Kind::Write, ..read(hash) };
        assert_eq!(farthest_next_use(&[write(1), write(1), read(1)], 10), 1.0);
    }
}

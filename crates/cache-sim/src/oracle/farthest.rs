//! The ceiling: a cache that knows the future and lets go of what is wanted last (Belady 1966).
//!
//! It stores nothing that is never read again, and bypasses what would be wanted later than all it
//! holds. With values of one size no policy has more hits; with values of several sizes it is no strict
//! bound, but nothing that knows only the past comes near it.

use std::collections::{BTreeSet, HashMap};

use sandur_cache::model::{Kind, Request};

/// Never again.
const NEVER: u32 = u32::MAX;

/// Hits per read that such a cache of `capacity` bytes has over `requests`, of which there are fewer
/// than 2^32 - 1. Memory: 4 bytes per request, some hundred per key.
pub fn farthest_next_use(requests: &[Request], capacity: u64) -> f64 {
    let next = next_reads(requests);
    // Key and bytes of what is held, by the position of its next read: no two share one.
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

/// For each request the position of the next read of its key, if no write comes before.
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
    fn a_loop_is_served_as_far_as_it_fits() {
        let read =
            |hash| Request { at_s: 0, hash, bytes: 10, kind: Kind::Read, hint: Hint::Point, tenant: 0 };
        let requests: Vec<Request> = (0..100).flat_map(|_| (0..10).map(read)).collect();
        // Ten keys in turn, places for five: what is wanted last goes, so 4 to 5 of 10 stay.
        let half = farthest_next_use(&requests, 50);
        assert!((0.43..=0.50).contains(&half), "{half}");
        assert_eq!(farthest_next_use(&requests, 100), 0.99);
        assert_eq!(farthest_next_use(&requests, 9), 0.0);
        // Nothing is gained by what is overwritten before it is read.
        let write = |hash| Request { kind: Kind::Write, ..read(hash) };
        assert_eq!(farthest_next_use(&[write(1), write(1), read(1)], 10), 1.0);
    }
}

//! Plans the requests for a set of ranges.
//!
//! The gap between two ranges is read too if that costs less than a second request. Requests are bounded
//! in size, so a long range is split into several that run concurrently. If most of an object is
//! requested, it is read completely. The functions are pure; other modules send the requests.

use std::ops::Range;

use bytes::{Bytes, BytesMut};
use sandur_base::units::{KIB, MIB};

use crate::meter::RangeUsage;
use crate::request_limits::RequestLimits;

/// The cost of a request compared to that of bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Planner {
    /// The largest gap, in bytes, that is read together with its neighbours.
    pub gap_max: u64,
    /// The largest request, in bytes.
    pub request_max: u64,
}

impl Planner {
    /// For a local disk, where a read costs little more than its bytes.
    pub const LOCAL: Self = Self { gap_max: 64 * KIB, request_max: 16 * MIB };

    /// For a store over a network.
    pub fn bucket(request_limits: &RequestLimits) -> Self {
        Self { gap_max: request_limits.range_gap_max, request_max: request_limits.range_request_max.max(1) }
    }

    /// The requests that cover `wanted`: sorted, disjoint and not empty. `size` is the size of the
    /// object in bytes, if known.
    pub fn plan(&self, wanted: &[Range<u64>], size: Option<u64>) -> Vec<Range<u64>> {
        let mut sorted: Vec<Range<u64>> = wanted.iter().filter(|r| r.start < r.end).cloned().collect();
        sorted.sort_unstable_by_key(|r| (r.start, r.end));
        if let Some(size) = size.filter(|&size| wants_most(&sorted, size)) {
            return self.split(0..size).collect();
        }
        let mut spans: Vec<Range<u64>> = Vec::new();
        for range in sorted {
            match spans.last_mut() {
                Some(last) if self.joins(last, &range) => last.end = last.end.max(range.end),
                Some(last) if range.end <= last.end => {}
                Some(last) => {
                    let start = range.start.max(last.end);
                    spans.push(start..range.end);
                }
                None => spans.push(range),
            }
        }
        spans.into_iter().flat_map(|span| self.split(span)).collect()
    }

    fn joins(&self, last: &Range<u64>, next: &Range<u64>) -> bool {
        let gap = next.start.saturating_sub(last.end);
        let length = next.end.max(last.end) - last.start;
        gap <= self.gap_max && length <= self.request_max
    }

    /// Splits a span into requests of at most the largest size.
    fn split(&self, span: Range<u64>) -> impl Iterator<Item = Range<u64>> + use<> {
        let step = self.request_max;
        let count = (span.end - span.start).div_ceil(step);
        (0..count).map(move |n| {
            let start = span.start + n * step;
            start..span.end.min(start + step)
        })
    }
}

/// Whether the sorted ranges cover more than 60 % of the object, and none extends beyond its end.
fn wants_most(sorted: &[Range<u64>], size: u64) -> bool {
    let end = sorted.iter().map(|range| range.end).max().unwrap_or(0);
    end <= size && covered(sorted) * 10 > size * 6
}

/// The number of bytes that at least one of the sorted ranges contains.
fn covered(sorted: &[Range<u64>]) -> u64 {
    let (mut covered, mut end) = (0, 0);
    for range in sorted {
        let start = range.start.max(end);
        end = end.max(range.end);
        covered += range.end.saturating_sub(start);
    }
    covered
}

/// The figures of a plan.
pub(crate) fn usage(wanted: &[Range<u64>], requests: &[Range<u64>]) -> RangeUsage {
    let mut sorted: Vec<Range<u64>> = wanted.iter().filter(|r| r.start < r.end).cloned().collect();
    sorted.sort_unstable_by_key(|r| r.start);
    let extra_bytes = covered(requests).saturating_sub(covered(&sorted));
    RangeUsage { wanted: sorted.len() as u64, read: requests.len() as u64, extra_bytes }
}

/// The bytes of `wanted` from the bodies of the planned requests: a slice of one body if possible, a
/// copy if the range was split.
pub(crate) fn assemble(wanted: &Range<u64>, requests: &[Range<u64>], bodies: &[Bytes]) -> Bytes {
    if wanted.start >= wanted.end {
        return Bytes::new();
    }
    let first = requests.partition_point(|r| r.end <= wanted.start);
    let mut whole = BytesMut::new();
    for (request, body) in requests.iter().zip(bodies).skip(first) {
        let start = wanted.start.max(request.start) - request.start;
        let end = wanted.end.min(request.end) - request.start;
        let part = start as usize..end as usize;
        if request.start <= wanted.start && wanted.end <= request.end {
            return body.slice(part);
        }
        whole.extend_from_slice(&body[part]);
        if wanted.end <= request.end {
            break;
        }
    }
    whole.freeze()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const SMALL: Planner = Planner { gap_max: 10, request_max: 100 };

    #[test]
    fn small_gaps_are_read_too() {
        assert_eq!(SMALL.plan(&[0..5, 15..20], None), vec![0..20]);
        assert_eq!(SMALL.plan(&[0..5, 16..20], None), vec![0..5, 16..20]);
        assert_eq!(SMALL.plan(&[50..60, 0..5, 3..9], None), vec![0..9, 50..60]);
    }

    #[test]
    fn requests_are_bounded() {
        assert_eq!(SMALL.plan(&[0..250, 9..9], None), vec![0..100, 100..200, 200..250]);
        assert_eq!(SMALL.plan(&[0..95, 96..110], None), vec![0..95, 96..110]);
        assert_eq!(SMALL.plan(&[0..100, 50..150], None), vec![0..100, 100..150]);
    }

    #[test]
    fn an_object_is_read_completely_if_most_of_it_is_requested() {
        assert_eq!(SMALL.plan(&[0..40, 55..80], Some(100)), vec![0..100]);
        assert_eq!(SMALL.plan(&[0..30, 55..80], Some(100)), vec![0..30, 55..80]);
        assert_eq!(SMALL.plan(&[0..90, 95..120], Some(100)), vec![0..90, 95..120]);
    }

    #[test]
    fn bytes_of_gaps_are_counted() {
        let wanted = [50..60, 0..5, 3..9, 12..20, 7..7];
        let plan = SMALL.plan(&wanted, None);
        assert_eq!(plan, vec![0..20, 50..60]);
        assert_eq!(usage(&wanted, &plan), RangeUsage { wanted: 4, read: 2, extra_bytes: 3 });
        assert_eq!(usage(&[0..95, 96..110], &[0..95, 96..110]).extra_bytes, 0);
    }

    proptest! {
        #[test]
        fn every_requested_byte_is_fetched_once_and_returned(
            wanted in proptest::collection::vec((0u64..900, 0u64..200), 0..12),
            gap_max in 0u64..50, request_max in 1u64..300, sized: bool,
        ) {
            let wanted: Vec<Range<u64>> = wanted.into_iter().map(|(s, l)| s..s + l).collect();
            let object: Vec<u8> = (0..1_100u32).map(|n| (n % 251) as u8).collect();
            let planner = Planner { gap_max, request_max };
            let requests = planner.plan(&wanted, sized.then_some(1_100));
            for pair in requests.windows(2) {
                prop_assert!(pair[0].end <= pair[1].start);
            }
            for request in &requests {
                prop_assert!(request.start < request.end && request.end - request.start <= request_max);
            }
            let bodies: Vec<Bytes> = requests.iter()
                .map(|r| Bytes::copy_from_slice(&object[r.start as usize..r.end as usize]))
                .collect();
            for range in &wanted {
                let bytes = assemble(range, &requests, &bodies);
                prop_assert_eq!(&bytes[..], &object[range.start as usize..range.end as usize]);
            }
        }
    }
}

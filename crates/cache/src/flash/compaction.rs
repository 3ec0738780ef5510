//! Chooses the segments that are compacted, when compaction is requested: those with few live records.
//!
//! By default nothing is compacted, because reclaiming writes less. memcached's operators know
//! compaction and can enable it.
//!
//! Invariant: no I/O.

use super::segments::{Segment, SegmentState};

/// When segments with few live records are compacted.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Compaction {
    /// Free bytes, without the reserve, below which compaction runs; 0 for never.
    pub below_free_bytes: u64,
    /// Share of live bytes (0 to 1) below which a segment is compacted.
    pub live_share_below: f64,
    /// Free bytes below which, if there is no such segment, the oldest one is compacted and its unread
    /// records are dropped; 0 for never.
    pub drop_unread_below_free_bytes: u64,
    /// Whether writing again and sparing are disabled altogether: segments are reclaimed in the order in
    /// which they were written.
    pub is_forbidden: bool,
}

/// What compaction does with the unread records of a segment.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Unread {
    Move,
    Drop,
}

/// The segment to compact, and what happens to its unread records.
pub(super) fn choose(segments: &[Segment], rule: &Compaction, free_bytes: u64) -> Option<(Segment, Unread)> {
    let sealed = || segments.iter().filter(|segment| segment.state == SegmentState::Sealed);
    let holds_little = |s: &&Segment| (s.live_bytes as f64) < s.record_bytes as f64 * rule.live_share_below;
    let emptiest = sealed().filter(holds_little).max_by_key(|s| s.record_bytes.saturating_sub(s.live_bytes));
    if let Some(segment) = emptiest {
        return Some((*segment, Unread::Move));
    }
    let is_short = free_bytes < rule.drop_unread_below_free_bytes;
    let oldest = sealed().min_by_key(|segment| segment.placed).filter(|_| is_short);
    oldest.map(|segment| (*segment, Unread::Drop))
}

#[cfg(test)]
mod tests {
    use super::super::format::Class;
    use super::*;

    fn segment(slot: u32, live_bytes: u64) -> Segment {
        Segment {
            slot,
            state: SegmentState::Sealed,
            class: Class::Probation,
            unproven: false,
            id: 100 + u64::from(slot),
            placed: 100 - u64::from(slot),
            placed_at: 0,
            opened_at: 0,
            latest_expiry: 0,
            record_bytes: 1000,
            live_bytes,
            used_bytes: 0,
            errors: 0,
        }
    }

    #[test]
    fn the_emptiest_segment_is_moved_and_the_oldest_loses_unread_records() {
        let rule = Compaction {
            below_free_bytes: 10,
            live_share_below: 0.9,
            drop_unread_below_free_bytes: 5,
            is_forbidden: false,
        };
        let chosen = |segments: &[Segment], free| {
            choose(segments, &rule, free).map(|(s, unread)| (s.slot, unread == Unread::Drop))
        };
        let open = Segment { state: SegmentState::Open, ..segment(1, 0) };
        let (full, fuller) = (segment(2, 900), segment(3, 950));
        assert_eq!(chosen(&[open, full, segment(4, 800), segment(5, 700), fuller], 3), Some((5, false)));
        assert_eq!(chosen(&[open, full, fuller], 4), Some((3, true)));
        assert_eq!(chosen(&[open, full, fuller], 5), None);
    }
}

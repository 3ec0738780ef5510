//! Segments that are freed before room runs short: those that hold nothing any more, always, and those
//! that hold little, when somebody asked for compaction.
//!
//! Without being asked nothing is compacted: reclaiming writes less. memcached's operators know
//! compaction, and how to ask for it.
//!
//! Invariant: compaction loses no record that can still be read, unless it was told to drop what nobody
//! has read. What cannot be moved stays where it is.

use std::sync::atomic::Ordering;
use std::sync::{MutexGuard, PoisonError};

use super::Flash;
use super::core::Core;
use super::expiry::is_expired;
use super::segments::{Pool, Segment, SegmentState};

/// When segments that hold little are emptied into others.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Compaction {
    /// Free bytes, the reserve aside, below which it works; 0 for never.
    pub below_free_bytes: u64,
    /// It takes segments of which less than this part can still be read, 0 to 1.
    pub live_share_below: f64,
    /// Free bytes below which, if there is no such segment, the oldest one is taken and what nobody read
    /// in it is dropped; 0 for never.
    pub drop_unread_below_free_bytes: u64,
    /// Nothing is written again or spared when room is needed either: what was written first goes first.
    pub is_forbidden: bool,
}

/// What compaction does with the records of a segment that nobody has read.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Unread {
    Move,
    Drop,
}

impl Flash {
    /// Changes when segments are compacted, from now on.
    pub fn set_compaction(&self, compaction: Compaction) {
        *self.core.lock_compaction() = compaction;
    }

    /// Whether a record of so many bytes would find room in the write buffers with a quarter left for
    /// others.
    pub fn has_room_for(&self, bytes: u64) -> bool {
        let unwritten = self.core.unwritten_bytes();
        unwritten == 0 || unwritten + bytes <= self.core.options.write_buffer_bytes / 4 * 3
    }

    /// Bytes that are kept free for reclaiming and images, and never hold records for long.
    pub fn reserve_bytes(&self) -> u64 {
        let wanted = |pool| if self.core.table.has(pool) { self.core.free_wanted(pool) } else { 0 };
        (wanted(Pool::General) + wanted(Pool::Kept)) as u64 * self.core.layout.segment_bytes
    }
}

impl Core {
    /// Whether records may be written again.
    pub fn may_write_again(&self) -> bool {
        !self.lock_compaction().is_forbidden
    }

    fn lock_compaction(&self) -> MutexGuard<'_, Compaction> {
        self.compaction.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn may_free(&self) -> bool {
        self.watch.may_write() && !self.recovering.load(Ordering::Acquire)
    }

    /// Frees the segments that hold nothing any more. Looks once a second.
    pub fn free_spent(&self) {
        let now = self.now();
        if !self.may_free() || self.spent_looked_at.swap(now, Ordering::Relaxed) == now {
            return;
        }
        for segment in self.table.all() {
            let is_past = is_expired(segment.latest_expiry, now);
            if segment.state == SegmentState::Sealed && (segment.live_bytes == 0 || is_past) {
                self.free_if_spent(&segment, now);
            }
        }
    }

    fn free_if_spent(&self, segment: &Segment, now: u32) {
        if segment.live_bytes > 0
            && let Some((_, rows)) = self.read_rows(segment.slot, segment.id)
        {
            // some may have been given more time since they were written
            let is_live = |hash, offset| {
                self.index.find(hash, false).is_some_and(|entry| entry.is_at(segment.slot, offset))
            };
            let live = rows.iter().filter(|row| is_live(row.hash, row.offset));
            let expiries = live.map(|row| self.touched.expiry(row.hash, row.expires_at));
            // 0, which is never, is the latest of all
            let latest = expiries.filter(|&at| !is_expired(at, now)).max_by_key(|&at| at.wrapping_sub(1));
            if let Some(latest) = latest {
                self.table.update(segment.slot, segment.id, |segment| segment.latest_expiry = latest);
                return;
            }
        }
        self.reclaim(segment);
    }

    /// Compacts one segment, if that is asked for and there is one.
    pub fn compact_next(&self) {
        let rule = *self.lock_compaction();
        if rule.below_free_bytes == 0 || !self.may_free() {
            return;
        }
        let pool = Pool::General;
        let free = self.table.free(pool).saturating_sub(self.free_wanted(pool)) as u64;
        let free = free * self.layout.segment_bytes;
        if free >= rule.below_free_bytes {
            return;
        }
        let mut segments = self.table.all();
        segments.retain(|segment| self.table.pool_of(segment.slot) == pool);
        let chosen = choose(&segments, &rule, free);
        if let Some((segment, unread)) = chosen
            && self.empty_out(&segment, unread)
        {
            self.reclaim(&segment);
            self.counters.segments_compacted.add(1);
        }
    }

    /// Writes again what can still be read of a segment. Whether that succeeded.
    pub fn empty_out(&self, segment: &Segment, unread: Unread) -> bool {
        let Some((_, rows)) = self.read_rows(segment.slot, segment.id) else { return false };
        let now = self.now();
        for row in &rows {
            let entry = self.index.find(row.hash, false).filter(|e| e.is_at(segment.slot, row.offset));
            let Some(entry) = entry else { continue };
            let is_past = is_expired(self.touched.expiry(row.hash, row.expires_at), now);
            if is_past || unread == Unread::Drop && entry.frequency == 0 {
                continue;
            }
            let moved = self.write_again(segment, row, entry.frequency);
            let is_there =
                || self.index.find(row.hash, false).is_some_and(|e| e.is_at(segment.slot, row.offset));
            // somebody else may have removed or replaced it meanwhile
            if !moved && is_there() {
                return false;
            }
        }
        true
    }
}

/// The segment to compact, and what happens to what nobody read in it.
fn choose(segments: &[Segment], rule: &Compaction, free_bytes: u64) -> Option<(Segment, Unread)> {
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
            class: Class::Fill,
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
    fn the_emptiest_segment_is_moved_and_the_oldest_loses_what_nobody_read() {
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

//! Frees segments before room runs short: always the empty ones, and those with few live records if
//! [`Compaction`] is enabled.
//!
//! Invariant: compaction loses no live record, unless its rule is to drop unread ones. If a record
//! cannot be moved, the segment stays.

use std::sync::atomic::Ordering;
use std::sync::{MutexGuard, PoisonError};

use super::compaction::{Compaction, Unread, choose};
use super::expiry::is_expired;
use super::reclaim::Reclaimer;
use super::segments::{Pool, Segment, SegmentState};

impl Reclaimer {
    /// Whether records may be written again.
    pub fn may_write_again(&self) -> bool {
        !self.lock_compaction().is_forbidden
    }

    /// Changes when segments are compacted, from now on.
    pub fn set_compaction(&self, compaction: Compaction) {
        *self.lock_compaction() = compaction;
    }

    fn lock_compaction(&self) -> MutexGuard<'_, Compaction> {
        self.compaction.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn may_free(&self) -> bool {
        self.disk.watch.may_write() && !self.keys.earlier.is_recovering()
    }

    /// Frees the segments without live records. Searches once per second.
    pub fn free_spent(&self) {
        let now = self.disk.now();
        if !self.may_free() || self.spent_looked_at.swap(now, Ordering::Relaxed) == now {
            return;
        }
        for segment in self.space.table.all() {
            let is_past = is_expired(segment.latest_expiry, now);
            if segment.state == SegmentState::Sealed && (segment.live_bytes == 0 || is_past) {
                self.free_if_spent(&segment, now);
            }
        }
    }

    fn free_if_spent(&self, segment: &Segment, now: u32) {
        if segment.live_bytes > 0
            && let Some((_, rows)) = self.disk.read_rows(segment.slot, segment.id)
        {
            // The expiry of some records may have been extended since they were written.
            let is_live = |hash, offset| {
                self.keys.index.find(hash, false).is_some_and(|entry| entry.is_at(segment.slot, offset))
            };
            let live = rows.iter().filter(|row| is_live(row.hash, row.offset));
            let expiries = live.map(|row| self.keys.touched.expiry(row.hash, row.expires_at));
            // 0, which is never, is the latest of all.
            let latest = expiries.filter(|&at| !is_expired(at, now)).max_by_key(|&at| at.wrapping_sub(1));
            if let Some(latest) = latest {
                self.space.table.update(segment.slot, segment.id, |segment| segment.latest_expiry = latest);
                return;
            }
        }
        self.reclaim(segment);
    }

    /// Compacts one segment, if compaction is enabled and there is one to compact.
    pub fn compact_next(&self) {
        let rule = *self.lock_compaction();
        if rule.below_free_bytes == 0 || !self.may_free() {
            return;
        }
        let pool = Pool::General;
        let free = self.space.table.free(pool).saturating_sub(self.space.free_wanted(pool)) as u64;
        let free = free * self.disk.layout.segment_bytes;
        if free >= rule.below_free_bytes {
            return;
        }
        let mut segments = self.space.table.all();
        segments.retain(|segment| self.space.table.pool_of(segment.slot) == pool);
        let chosen = choose(&segments, &rule, free);
        if let Some((segment, unread)) = chosen
            && self.empty_out(&segment, unread)
        {
            self.reclaim(&segment);
            self.disk.counters.segments_compacted.add(1);
        }
    }

    /// Writes the live records of a segment again. Returns whether all were moved.
    pub fn empty_out(&self, segment: &Segment, unread: Unread) -> bool {
        let Some((_, rows)) = self.disk.read_rows(segment.slot, segment.id) else { return false };
        let now = self.disk.now();
        for row in &rows {
            let entry = self.keys.index.find(row.hash, false).filter(|e| e.is_at(segment.slot, row.offset));
            let Some(entry) = entry else { continue };
            let is_past = is_expired(self.keys.touched.expiry(row.hash, row.expires_at), now);
            if is_past || unread == Unread::Drop && entry.frequency == 0 {
                continue;
            }
            let moved = self.write_again(segment, row, entry.frequency);
            let is_there =
                || self.keys.index.find(row.hash, false).is_some_and(|e| e.is_at(segment.slot, row.offset));
            // Another thread may have removed or replaced it meanwhile.
            if !moved && is_there() {
                return false;
            }
        }
        true
    }
}

//! Making room: whole segments are taken back, and what was used in them is written again.
//!
//! Invariants: a record leaves the index before its slot is used for anything else; at most
//! `reinsert_percent` of a segment is written again, so reclaiming always gains room.

use super::append::NewRecord;
use super::core::Core;
use super::expiry::is_expired;
use super::format::{Class, Kind, RecordView, Row, Trailer, UNIT, footer_bytes};
use super::observer::{DropEvent, Dropped};
use super::segments::{Segment, SegmentState};
use crate::device::BLOCK;

/// Segments with less of their bytes alive than this are taken before older ones.
const SPARSE_PERCENT: u64 = 25;

/// The segment to reclaim next: one whose records have all expired, then one that is mostly dead,
/// then the oldest.
pub(super) fn victim(segments: &[Segment], now: u32) -> Option<Segment> {
    let sealed = || segments.iter().filter(|segment| segment.state == SegmentState::Sealed);
    let expired = sealed().find(|segment| is_expired(segment.latest_expiry, now));
    let share = |segment: &&Segment| segment.live_bytes * 100 / segment.record_bytes.max(1);
    let sparse = || sealed().filter(|s| share(s) < SPARSE_PERCENT).min_by_key(|s| (share(s), s.id));
    expired.or_else(sparse).or_else(|| sealed().min_by_key(|segment| segment.id)).copied()
}

impl Core {
    /// Segments kept free: one for each class and two in reserve, or a hundredth.
    fn free_wanted(&self) -> usize {
        (self.table.len() / 100).max(Class::OF_RECORDS.len() + 2).min(self.table.len() / 3)
    }

    /// Reclaims a segment if too few are free. Whether there was one to reclaim.
    pub fn reclaim_next(&self) -> bool {
        if self.table.free() >= self.free_wanted() || !self.watch.may_write() {
            return false;
        }
        let Some(segment) = victim(&self.table.all(), self.now()) else { return false };
        self.reclaim(&segment);
        true
    }

    /// Reclaims a segment however many are free. Whether there was one.
    pub fn reclaim_oldest(&self) -> bool {
        let found = victim(&self.table.all(), self.now());
        found.iter().for_each(|segment| self.reclaim(segment));
        found.is_some()
    }

    /// Takes a sealed segment back.
    pub fn reclaim(&self, segment: &Segment) {
        match self.read_rows(segment.slot, segment.id) {
            Some((_, rows)) => self.clear_rows(segment, &rows),
            None => self.clear_unknown(segment),
        }
        self.table.release(segment.slot, SegmentState::Free);
        self.counters.segments_reclaimed.add(1);
        // Only advice to the device: the slot is overwritten from its start anyway.
        let _ = self.device.discard(self.layout.slot_start(segment.slot), self.layout.segment_bytes);
    }

    /// Trailer and rows of a sealed segment.
    pub fn read_rows(&self, slot: u32, id: u64) -> Option<(Trailer, Vec<Row>)> {
        let end = self.layout.slot_start(slot) + self.layout.segment_bytes;
        let mut block = self.read_pool.take(BLOCK as usize)?;
        self.device.read_at(end - BLOCK, block.bytes_mut()).ok()?;
        let (trailer, sum) = Trailer::parse(block.as_ref(), id)?;
        let length = footer_bytes(trailer.rows as usize);
        if length + 2 * BLOCK > self.layout.segment_bytes {
            return None;
        }
        let mut footer = self.read_pool.take(length as usize)?;
        self.device.read_at(end - BLOCK - length, footer.bytes_mut()).ok()?;
        let rows = trailer.parse_rows(footer.as_ref(), sum)?;
        Some((trailer, rows))
    }

    fn clear_rows(&self, segment: &Segment, rows: &[Row]) {
        let now = self.now();
        let mut budget = self.layout.segment_bytes * u64::from(self.options.reinsert_percent) / 100;
        for wanted in [3, 2, 1] {
            for row in rows {
                let bytes = u64::from(row.units) * UNIT;
                let entry = self.index.find(row.hash, false);
                let is_wanted = entry.is_some_and(|entry| {
                    entry.is_at(segment.slot, row.offset)
                        && entry.frequency == wanted
                        && !is_expired(self.touched.expiry(row.hash, row.expires_at), now)
                });
                if is_wanted && bytes <= budget && self.write_again(segment, row) {
                    budget -= bytes;
                }
            }
        }
        for row in rows {
            let Some(entry) = self.index.remove_at(row.hash, segment.slot, row.offset) else { continue };
            let expires_at = self.touched.expiry(row.hash, row.expires_at);
            self.touched.forget(row.hash);
            self.report(DropEvent {
                reason: if is_expired(expires_at, now) { Dropped::Expired } else { Dropped::Evicted },
                class: segment.class,
                hash: row.hash,
                // A large value is one record: its head.
                records: u64::from(row.kind != Kind::Piece),
                bytes: u64::from(row.units) * UNIT,
                age_s: now.saturating_sub(segment.opened_at),
                tenant: row.tenant,
                is_fetched: entry.is_fetched,
            });
        }
    }

    /// Whether the record was written again.
    fn write_again(&self, segment: &Segment, row: &Row) -> bool {
        let align = self.device.read_alignment();
        let start = u64::from(row.offset) * UNIT;
        let (from, upto) = (start / align * align, start + u64::from(row.units) * UNIT);
        let Some(mut buffer) = self.read_pool.take((upto.next_multiple_of(align) - from) as usize) else {
            return false;
        };
        let place = self.layout.slot_start(segment.slot) + from;
        if self.device.read_at(place, buffer.bytes_mut()).is_err() {
            return false;
        }
        let bytes = &buffer.as_ref()[(start - from) as usize..];
        let Some(record) = RecordView::parse(segment.id, bytes) else { return false };
        let Some(value) = record.value(bytes, 0..record.value_bytes()) else { return false };
        let header = record.header;
        let again = NewRecord {
            key: record.key,
            hash: row.hash,
            value: &bytes[value],
            flags: header.flags,
            expires_at: self.touched.expiry(row.hash, header.expires_at),
            tenant: header.tenant,
            cas: header.cas,
            class: Class::Kept,
        };
        let written = self.append_again(&again, header.kind, (segment.slot, row.offset)).is_ok();
        self.counters.records_reinserted.add(u64::from(written));
        written
    }

    /// The footer cannot be read: the index is searched for what lies in the segment.
    fn clear_unknown(&self, segment: &Segment) {
        let records = self.index.retain(|entry| entry.location.slot != segment.slot);
        self.report(DropEvent {
            reason: Dropped::Evicted,
            class: segment.class,
            hash: 0,
            records,
            bytes: segment.live_bytes,
            age_s: self.now().saturating_sub(segment.opened_at),
            tenant: 0,
            is_fetched: false,
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn segment(slot: u32, live: u64, latest_expiry: u32) -> Segment {
        Segment {
            slot,
            state: SegmentState::Sealed,
            class: Class::Fill,
            id: 100 + u64::from(slot),
            opened_at: 0,
            latest_expiry,
            record_bytes: 1000,
            live_bytes: live,
            errors: 0,
        }
    }

    #[test]
    fn expired_goes_before_sparse_and_sparse_before_old() {
        let slot = |segments: &[Segment]| victim(segments, 50).map(|segment| segment.slot);
        let open = Segment { state: SegmentState::Open, ..segment(0, 1, 1) };
        let (old, sparse, sparser) = (segment(1, 900, 0), segment(2, 200, 0), segment(3, 100, 0));
        let (expired, lasting) = (segment(4, 900, 50), segment(5, 900, 51));
        assert_eq!(slot(&[open, sparser, sparse, old, lasting, expired]), Some(4));
        assert_eq!(slot(&[open, sparse, sparser, lasting, old]), Some(3));
        assert_eq!(slot(&[open, lasting, old]), Some(1));
        assert_eq!(slot(&[open]), None);
    }
}

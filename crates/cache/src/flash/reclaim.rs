//! Making room: whole segments are taken back, and what was used in them is written again.
//!
//! Which segment goes, which is spared, and what is written again is the policy's choice
//! ([`crate::policy::reclaim`], [`crate::policy::Reinsertion`]); what holds nothing any more goes
//! before anything else.
//!
//! Invariant: a record leaves the index before its slot is used for anything else.

use std::sync::atomic::Ordering;
use std::sync::{MutexGuard, PoisonError};

use super::append::NewRecord;
use super::compaction::Unread;
use super::core::Core;
use super::expiry::is_expired;
use super::format::{Class, Kind, RecordView, Row, Trailer, UNIT, footer_bytes};
use super::observer::{DropEvent, Dropped};
use super::segments::{Pool, Segment, SegmentState};
use crate::device::BLOCK;
use crate::policy::reclaim::{Leeway, Newcomers, Oldest, Step, next_step};
use crate::policy::{Class as PolicyClass, RecordFacts, Reinsertion};

/// What the policy remembers between two segments.
pub(super) struct Choices {
    reinsertion: Reinsertion,
    /// Segments spared since the last one was freed.
    spared: u32,
    /// Bytes of records in sealed segments.
    sealed_bytes: u64,
    /// Bytes written besides records that were counted so far.
    besides_bytes: u64,
}

impl Choices {
    /// Writes at most `amplification` bytes for each byte admitted.
    pub fn new(amplification: f64) -> Self {
        let reinsertion = Reinsertion::up_to(amplification);
        Self { reinsertion, spared: 0, sealed_bytes: 0, besides_bytes: 0 }
    }

    /// A segment is sealed; `written_bytes` is all that was ever written to the device. What is in segments
    /// that are still open counts as something else until they are sealed, but only once.
    fn sealed(&mut self, record_bytes: u64, is_admitted: bool, written_bytes: u64, segment_bytes: u64) {
        self.sealed_bytes += record_bytes;
        if is_admitted {
            self.reinsertion.admitted(record_bytes, segment_bytes);
        }
        let besides = written_bytes.saturating_sub(self.sealed_bytes);
        self.reinsertion.wrote_besides(besides.saturating_sub(self.besides_bytes), segment_bytes);
        self.besides_bytes = self.besides_bytes.max(besides);
    }

    fn leeway(&self, segment_bytes: u64, newcomers: &Newcomers) -> Leeway {
        newcomers.leeway(self.spared, self.reinsertion.spare_share(segment_bytes))
    }
}

pub(super) fn policy_class(class: Class) -> PolicyClass {
    match class {
        Class::Ingest | Class::Image => PolicyClass::Ingest,
        Class::Fill => PolicyClass::Fill,
        Class::Kept => PolicyClass::Kept,
        Class::Brief => PolicyClass::Brief,
    }
}

fn sealed(segments: &[Segment]) -> impl Iterator<Item = &Segment> {
    segments.iter().filter(|segment| segment.state == SegmentState::Sealed)
}

fn oldest_of(segments: &[Segment], class: Class) -> Option<&Segment> {
    sealed(segments).filter(|segment| segment.class == class).min_by_key(|segment| segment.placed)
}

/// The ends of all lines.
fn oldest(segments: &[Segment]) -> Vec<Oldest> {
    let line = |class| {
        let oldest = oldest_of(segments, class)?;
        Some(Oldest {
            class: policy_class(class),
            placed: oldest.placed,
            placed_at: oldest.placed_at,
            bytes: oldest.record_bytes,
            used_bytes: oldest.used_bytes,
            spent: false,
            unproven: oldest.unproven,
            class_bytes: sealed(segments).filter(|s| s.class == class).map(|s| s.record_bytes).sum(),
        })
    };
    Class::OF_RECORDS.into_iter().filter_map(line).collect()
}

/// A segment that holds nothing any more.
fn spent(segments: &[Segment], now: u32) -> Option<&Segment> {
    sealed(segments).find(|segment| segment.live_bytes == 0 || is_expired(segment.latest_expiry, now))
}

/// The segment that was written first, whatever its class.
fn first_written(segments: &[Segment]) -> Option<&Segment> {
    sealed(segments).min_by_key(|segment| segment.id)
}

/// The next segment, and what happens to it.
fn next_victim(segments: &[Segment], now: u32, leeway: Option<Leeway>) -> Option<(Segment, Step)> {
    let free = |segment: &Segment| (*segment, Step::Free(policy_class(segment.class)));
    if let Some(spent) = spent(segments, now) {
        return Some(free(spent));
    }
    // Without leeway the policy has nothing to choose.
    let Some(leeway) = leeway else { return first_written(segments).map(free) };
    let largest = sealed(segments).map(|segment| segment.record_bytes).max();
    let capacity = segments.len() as u64 * largest.unwrap_or_default();
    let step = next_step(&oldest(segments), capacity, leeway)?;
    let chosen = match step {
        Step::Free(class) | Step::Spare(class) => class,
        Step::Join => PolicyClass::Fill,
    };
    let class = Class::OF_RECORDS.into_iter().find(|&class| policy_class(class) == chosen)?;
    oldest_of(segments, class).map(|segment| (*segment, step))
}

impl Core {
    /// Segments of a pool kept free: one for each class and two in reserve, or a hundredth.
    pub fn free_wanted(&self, pool: Pool) -> usize {
        let classes = if pool == Pool::Kept { 1 } else { Class::OF_RECORDS.len() };
        let count = self.table.count(pool);
        (count / 100).max(classes + 2).min(count / 3)
    }

    /// Reclaims or spares a segment if too few are free. Whether there was one.
    pub fn reclaim_next(&self) -> bool {
        // While recovery runs, segments look empty whose records it has not found yet.
        let may_reclaim = self.watch.may_write() && !self.recovering.load(Ordering::Acquire);
        let wanted = |pool| self.free_wanted(pool) + self.image_wants(pool);
        let is_short = |&pool: &Pool| self.table.has(pool) && self.table.free(pool) < wanted(pool);
        // What leaves the rest needs room among the kept first, unless nothing there can leave.
        let mut short = [Pool::Kept, Pool::General].into_iter().filter(is_short);
        may_reclaim && short.any(|pool| self.reclaim_oldest(pool))
    }

    /// Reclaims or spares a segment of a pool however many are free. Whether there was one.
    pub fn reclaim_oldest(&self, pool: Pool) -> bool {
        let leeway = || self.choices().leeway(self.layout.segment_bytes, &self.newcomers);
        let leeway = self.may_write_again().then(leeway);
        let mut segments = self.table.all();
        segments.retain(|segment| self.table.pool_of(segment.slot) == pool);
        // Where the proven have a pool of their own, what goes from the rest moves there anyway.
        let may_join = !self.table.has(Pool::Kept);
        let (segment, step) = loop {
            let Some((segment, step)) = next_victim(&segments, self.now(), leeway) else { return false };
            if step != Step::Join || !may_join {
                break (segment, step);
            }
            let Some(joined) = self.join(&segment) else { return false };
            segments.retain(|other| other.slot != joined.slot);
            segments.push(joined);
        };
        if segment.unproven {
            self.newcomers.judged(segment.record_bytes);
        }
        if pool == Pool::Kept || may_join {
            segments.retain(|other| other.slot != segment.slot);
            self.tenure.look_at(oldest(&segments));
        }
        let is_spared = matches!(step, Step::Spare(_));
        if is_spared && self.spare(&segment) {
            self.choices().spared += 1;
        } else {
            self.choices().spared = 0;
            if pool == Pool::General && self.table.has(Pool::Kept) {
                // what does not fit there is dropped below
                self.empty_out(&segment, Unread::Move);
            }
            self.reclaim(&segment);
        }
        true
    }

    /// Reclaims or spares a segment of the larger pool, or of the other. Whether there was one.
    pub fn reclaim_for_image(&self) -> bool {
        let mut pools = [Pool::General, Pool::Kept];
        pools.sort_by_key(|&pool| std::cmp::Reverse(self.table.count(pool)));
        pools.into_iter().any(|pool| self.reclaim_oldest(pool))
    }

    /// Moves a segment from probation to the proven, as it is; nothing if it is gone by now.
    fn join(&self, segment: &Segment) -> Option<Segment> {
        let (placed, placed_at) = (self.next_sequence(), self.tenure.time());
        let join = |segment: &mut Segment| {
            (segment.class, segment.unproven) = (Class::Kept, true);
            (segment.placed, segment.placed_at) = (placed, placed_at);
        };
        let mut joined = *segment;
        join(&mut joined);
        self.table.update(segment.slot, segment.id, join).then_some(joined)
    }

    /// Keeps the account of what may be written again. Only new records add to it.
    pub fn count_sealed(&self, class: Class, record_bytes: u64) {
        let (written, segment) = (self.counters.bytes_written.get(), self.layout.segment_bytes);
        let mut choices = self.choices();
        choices.sealed(record_bytes, class != Class::Kept, written, segment);
    }

    fn choices(&self) -> MutexGuard<'_, Choices> {
        self.choices.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The segment becomes the youngest of its class, for one use of each of its records.
    fn spare(&self, segment: &Segment) -> bool {
        let Some((_, rows)) = self.read_rows(segment.slot, segment.id) else { return false };
        for row in &rows {
            if let Some(entry) = self.index.spend_use(row.hash, segment.slot, row.offset)
                && entry.frequency == 1
            {
                self.table.remove_used(segment.slot, u64::from(entry.location.units) * UNIT);
            }
        }
        let (placed, placed_at) = (self.next_sequence(), self.tenure.time());
        self.counters.segments_spared.add(1);
        self.table.update(segment.slot, segment.id, |segment| {
            (segment.placed, segment.placed_at, segment.unproven) = (placed, placed_at, false);
        })
    }

    /// Takes a sealed segment back.
    pub fn reclaim(&self, segment: &Segment) {
        let rows = self.read_rows(segment.slot, segment.id);
        self.void(segment.slot);
        match rows {
            Some((_, rows)) => self.clear_rows(segment, &rows),
            // The footer cannot be read: the index is searched for what lies in the segment.
            None => self.drop_segment(Dropped::Evicted, segment),
        }
        self.release(segment.slot, SegmentState::Free);
        self.counters.segments_reclaimed.add(1);
        // Only advice to the device: the slot is overwritten from its start anyway.
        let _ = self.device.discard(self.layout.slot_start(segment.slot), self.layout.segment_bytes);
    }

    /// Before its records leave the index, a segment stops being one: a crash must not bring back
    /// what was written anew since and therefore needed no journal entry.
    fn void(&self, slot: u32) {
        if let Err(error) = self.write(self.layout.slot_start(slot), &[0; BLOCK as usize]) {
            self.write_failed("superblock", &error);
            self.distrust();
        }
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
        let facts: Vec<_> = rows.iter().map(|row| self.facts(segment, row, now)).collect();
        let mut chosen = Vec::new();
        let (class, bytes) = (policy_class(segment.class), self.layout.segment_bytes);
        if self.may_write_again() {
            let mut choices = self.choices();
            choices.reinsertion.choose(class, bytes, &facts, |at, uses| chosen.push((at, uses)));
        }
        for (at, uses) in chosen {
            self.write_again(segment, &rows[at], uses);
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

    fn facts(&self, segment: &Segment, row: &Row, now: u32) -> RecordFacts {
        let entry = self.index.find(row.hash, false);
        let entry = entry.filter(|entry| entry.is_at(segment.slot, row.offset));
        let is_past = is_expired(self.touched.expiry(row.hash, row.expires_at), now);
        RecordFacts {
            bytes: row.units * UNIT as u32,
            uses: entry.map_or(0, |entry| entry.frequency),
            metadata: false,
            live: entry.is_some() && !is_past,
        }
    }

    /// Whether the record was written again.
    pub fn write_again(&self, segment: &Segment, row: &Row, uses: u8) -> bool {
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
        let Some(record) = RecordView::parse((segment.id, row.offset), bytes) else { return false };
        let Some(value) = record.value(bytes, 0..record.value_bytes()) else { return false };
        let header = record.header;
        let again = NewRecord {
            key: record.key,
            hash: row.hash,
            value: &bytes[value],
            flags: header.flags,
            marks: header.marks,
            expires_at: self.touched.expiry(row.hash, header.expires_at),
            tenant: header.tenant,
            cas: header.cas,
            class: Class::Kept,
        };
        let written = self.append_again(&again, header.kind, (segment.slot, row.offset), uses).is_ok();
        self.counters.records_reinserted.add(u64::from(written));
        written
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn segment(slot: u32, class: Class, live: u64, used: u64) -> Segment {
        Segment {
            slot,
            state: SegmentState::Sealed,
            class,
            unproven: false,
            id: 100 + u64::from(slot),
            placed: 100 + u64::from(slot),
            placed_at: 0,
            opened_at: 0,
            latest_expiry: 0,
            record_bytes: 1000,
            live_bytes: live,
            used_bytes: used,
            errors: 0,
        }
    }

    #[test]
    fn what_is_written_besides_records_is_counted_once() {
        let reinsertion = || Reinsertion::up_to(1.25);
        let mut expected = reinsertion();
        let mut choices = Choices::new(1.25);
        // a new segment, a kept one beside it, and one byte in twenty of something else
        choices.sealed(1000, true, 1050, 1000);
        choices.sealed(500, false, 1550, 1000);
        choices.sealed(1000, true, 2600, 1000);
        for (admitted, besides) in [(1000, 50), (0, 0), (1000, 50)] {
            expected.admitted(admitted, 1000);
            expected.wrote_besides(besides, 1000);
        }
        assert_eq!(choices.reinsertion, expected);
    }

    #[test]
    fn what_holds_nothing_goes_first_and_then_the_policy_chooses() {
        let next = |segments: &[Segment]| {
            let leeway = Leeway { spared: 0, spare_share: 0.5, turn_bytes: 0, is_wanted: true };
            next_victim(segments, 50, Some(leeway)).map(|(s, step)| (s.slot, matches!(step, Step::Spare(_))))
        };
        let open = Segment { state: SegmentState::Open, ..segment(0, Class::Fill, 0, 0) };
        let (used, old) = (segment(1, Class::Kept, 900, 900), segment(2, Class::Ingest, 900, 100));
        let dead = segment(3, Class::Ingest, 0, 0);
        let expired = Segment { latest_expiry: 50, ..segment(4, Class::Brief, 900, 900) };
        let lasting = Segment { latest_expiry: 51, ..segment(5, Class::Brief, 900, 900) };
        assert_eq!(next(&[open, used, old, dead]), Some((3, false)));
        assert_eq!(next(&[open, used, old, expired]), Some((4, false)));
        assert_eq!(next(&[open, used, old, lasting]), Some((1, true)));
        assert_eq!(next(&[open, old, lasting]), Some((2, false)));
        assert_eq!(next(&[open]), None);
    }

    #[test]
    fn where_nothing_may_be_written_again_what_was_written_first_goes_first() {
        let next = |segments: &[Segment]| next_victim(segments, 50, None);
        let open = Segment { state: SegmentState::Open, ..segment(0, Class::Fill, 900, 0) };
        // proven later than the other was written, and read
        let first = Segment { placed: 200, ..segment(1, Class::Kept, 900, 900) };
        let second = segment(2, Class::Fill, 900, 0);
        let spent = segment(3, Class::Brief, 0, 0);
        assert_eq!(next(&[second, open, first]), Some((first, Step::Free(PolicyClass::Kept))));
        assert_eq!(next(&[second, open]), Some((second, Step::Free(PolicyClass::Fill))));
        assert_eq!(next(&[second, first, spent]), Some((spent, Step::Free(PolicyClass::Brief))));
    }
}

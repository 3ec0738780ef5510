//! Reclaiming: complete segments are freed, and their used records are written again.
//!
//! The policy ([`ReclaimPolicy`]) decides which segment is freed, which is spared, and which records are
//! written again.
//!
//! Invariant: a record leaves the index before its slot is reused.

use std::sync::atomic::AtomicU32;
use std::sync::{Arc, Mutex};

use super::compaction::{Compaction, Unread};
use super::disk::Disk;
use super::expiry::is_expired;
use super::format::{Class, Kind, RecordView, Row, UNIT};
use super::image::Images;
use super::keyspace::Keyspace;
use super::new_record::NewRecord;
use super::observer::{DropEvent, Dropped};
use super::reclaim_policy::{ReclaimPolicy, next_victim, oldest};
use super::segments::{Pool, Segment, SegmentState};
use super::space::Space;
use super::writer::Writer;
use crate::device::BLOCK;
use crate::policy::RecordFacts;
use crate::policy::reclaim::Step;

/// Reclaims segments. The rest of its methods are in `compact`.
pub(super) struct Reclaimer {
    pub disk: Arc<Disk>,
    pub space: Arc<Space>,
    pub keys: Arc<Keyspace>,
    pub policy: Arc<ReclaimPolicy>,
    pub writer: Arc<Writer>,
    pub images: Arc<Images>,
    pub compaction: Mutex<Compaction>,
    /// The second of the last search for empty segments.
    pub spent_looked_at: AtomicU32,
}

impl Reclaimer {
    /// A reclaimer without compaction.
    pub fn new(writer: Arc<Writer>, images: Arc<Images>) -> Self {
        Self {
            disk: Arc::clone(&writer.disk),
            space: Arc::clone(&writer.space),
            keys: Arc::clone(&writer.keys),
            policy: Arc::clone(&writer.policy),
            writer,
            images,
            compaction: Mutex::default(),
            spent_looked_at: AtomicU32::new(0),
        }
    }

    /// Reclaims or spares a segment if too few are free. Returns whether there was one.
    pub fn reclaim_next(&self) -> bool {
        // While recovery runs, segments whose records it has not found yet look empty.
        let may_reclaim = self.disk.watch.may_write() && !self.keys.earlier.is_recovering();
        let wanted = |pool| self.space.free_wanted(pool) + self.images.image_wants(pool);
        let is_short =
            |&pool: &Pool| self.space.table.has(pool) && self.space.table.free(pool) < wanted(pool);
        // Records that leave the general pool need room in the protected one first, unless no segment
        // there can be freed.
        let mut short = [Pool::Protected, Pool::General].into_iter().filter(is_short);
        may_reclaim && short.any(|pool| self.reclaim_oldest(pool))
    }

    /// Reclaims or spares a segment of a pool, whatever the number of free ones. Returns whether there
    /// was one.
    pub fn reclaim_oldest(&self, pool: Pool) -> bool {
        let conditions = || self.policy.conditions(self.disk.layout.segment_bytes);
        let conditions = self.may_write_again().then(conditions);
        let mut segments = self.space.table.all();
        segments.retain(|segment| self.space.table.pool_of(segment.slot) == pool);
        // If protected segments have a pool of their own, records reclaimed from the general pool move
        // there anyway.
        let may_join = !self.space.table.has(Pool::Protected);
        let (segment, step) = loop {
            let Some((segment, step)) = next_victim(&segments, self.disk.now(), conditions) else {
                return false;
            };
            if step != Step::Join || !may_join {
                break (segment, step);
            }
            let Some(joined) = self.join(&segment) else { return false };
            segments.retain(|other| other.slot != joined.slot);
            segments.push(joined);
        };
        if segment.unproven {
            self.policy.arrivals.judged(segment.record_bytes);
        }
        if pool == Pool::Protected || may_join {
            segments.retain(|other| other.slot != segment.slot);
            self.policy.tail_age.look_at(oldest(&segments));
        }
        let is_spared = matches!(step, Step::Spare(_));
        if is_spared && self.spare(&segment) {
            self.policy.note_spared(true);
        } else {
            self.policy.note_spared(false);
            if pool == Pool::General && self.space.table.has(Pool::Protected) {
                // Records that find no room there are dropped below.
                self.empty_out(&segment, Unread::Move);
            }
            self.reclaim(&segment);
        }
        true
    }

    /// Reclaims or spares a segment of the larger pool, or else of the other. Returns whether there was one.
    pub fn reclaim_for_image(&self) -> bool {
        let mut pools = [Pool::General, Pool::Protected];
        pools.sort_by_key(|&pool| std::cmp::Reverse(self.space.table.count(pool)));
        pools.into_iter().any(|pool| self.reclaim_oldest(pool))
    }

    /// Moves a segment from probation to the protected ones, without writing; `None` if it is gone already.
    fn join(&self, segment: &Segment) -> Option<Segment> {
        let (placed, placed_at) = (self.keys.next_sequence(), self.policy.tail_age.time());
        let join = |segment: &mut Segment| {
            (segment.class, segment.unproven) = (Class::Protected, true);
            (segment.placed, segment.placed_at) = (placed, placed_at);
        };
        let mut joined = *segment;
        join(&mut joined);
        self.space.table.update(segment.slot, segment.id, join).then_some(joined)
    }

    /// Makes the segment the youngest of its class, and takes a use from each of its records.
    fn spare(&self, segment: &Segment) -> bool {
        let Some((_, rows)) = self.disk.read_rows(segment.slot, segment.id) else { return false };
        for row in &rows {
            if let Some(entry) = self.keys.index.spend_use(row.hash, segment.slot, row.offset)
                && entry.frequency == 1
            {
                self.space.table.remove_used(segment.slot, u64::from(entry.location.units) * UNIT);
            }
        }
        let (placed, placed_at) = (self.keys.next_sequence(), self.policy.tail_age.time());
        self.disk.counters.segments_spared.add(1);
        self.space.table.update(segment.slot, segment.id, |segment| {
            (segment.placed, segment.placed_at, segment.unproven) = (placed, placed_at, false);
        })
    }

    /// Frees a sealed segment.
    pub fn reclaim(&self, segment: &Segment) {
        let rows = self.disk.read_rows(segment.slot, segment.id);
        self.void(segment.slot);
        match rows {
            Some((_, rows)) => self.clear_rows(segment, &rows),
            // The footer cannot be read: search the index for records of the segment.
            None => self.keys.drop_segment(Dropped::Evicted, segment),
        }
        self.space.release(segment.slot, SegmentState::Free);
        self.disk.counters.segments_reclaimed.add(1);
        // Only a hint to the device: the slot will be overwritten from its start anyway.
        let _ = self
            .disk
            .device
            .discard(self.disk.layout.slot_start(segment.slot), self.disk.layout.segment_bytes);
    }

    /// Overwrites the superblock before the records leave the index. Otherwise a crash would bring back
    /// records whose keys got new values since and therefore needed no journal entry.
    fn void(&self, slot: u32) {
        if let Err(error) = self.disk.write(self.disk.layout.slot_start(slot), &[0; BLOCK as usize]) {
            self.disk.write_failed("superblock", &error);
            self.keys.mark_incomplete();
        }
    }

    fn clear_rows(&self, segment: &Segment, rows: &[Row]) {
        let now = self.disk.now();
        let facts: Vec<_> = rows.iter().map(|row| self.facts(segment, row, now)).collect();
        let chosen = if self.may_write_again() {
            self.policy.choose(segment.class, self.disk.layout.segment_bytes, &facts)
        } else {
            Vec::new()
        };
        for (at, uses) in chosen {
            self.write_again(segment, &rows[at], uses);
        }
        for row in rows {
            let Some(entry) = self.keys.index.remove_at(row.hash, segment.slot, row.offset) else { continue };
            let expires_at = self.keys.touched.expiry(row.hash, row.expires_at);
            self.keys.touched.forget(row.hash);
            self.space.report(DropEvent {
                reason: if is_expired(expires_at, now) { Dropped::Expired } else { Dropped::Evicted },
                class: segment.class,
                hash: row.hash,
                // A large value counts as one record: its head.
                records: u64::from(row.kind != Kind::Piece),
                bytes: u64::from(row.units) * UNIT,
                age_s: now.saturating_sub(segment.opened_at),
                tenant: row.tenant,
                is_fetched: entry.is_fetched,
            });
        }
    }

    fn facts(&self, segment: &Segment, row: &Row, now: u32) -> RecordFacts {
        let entry = self.keys.index.find(row.hash, false);
        let entry = entry.filter(|entry| entry.is_at(segment.slot, row.offset));
        let is_past = is_expired(self.keys.touched.expiry(row.hash, row.expires_at), now);
        RecordFacts {
            bytes: row.units * UNIT as u32,
            uses: entry.map_or(0, |entry| entry.frequency),
            metadata: false,
            live: entry.is_some() && !is_past,
        }
    }

    /// Writes a record again. Returns whether that succeeded.
    pub fn write_again(&self, segment: &Segment, row: &Row, uses: u8) -> bool {
        let align = self.disk.device.read_alignment();
        let start = u64::from(row.offset) * UNIT;
        let (from, upto) = (start / align * align, start + u64::from(row.units) * UNIT);
        let Some(mut buffer) = self.disk.read_pool.take((upto.next_multiple_of(align) - from) as usize)
        else {
            return false;
        };
        let place = self.disk.layout.slot_start(segment.slot) + from;
        if self.disk.device.read_at(place, buffer.bytes_mut()).is_err() {
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
            expires_at: self.keys.touched.expiry(row.hash, header.expires_at),
            tenant: header.tenant,
            cas: header.cas,
            class: Class::Protected,
        };
        let written = self.writer.append_again(&again, header.kind, (segment.slot, row.offset), uses).is_ok();
        self.disk.counters.records_reinserted.add(u64::from(written));
        written
    }
}

//! Appending: a record goes into the write buffer of its class's open segment and into the index.
//!
//! No call here waits for the device. A record that finds no buffer, no segment or no room in the index
//! is dropped with its reason.
//!
//! Invariants: a record enters the index only after all its bytes are in the buffer. An older record of
//! its key is void before that.

use super::expiry::{Coarse, is_expired};
use super::format::{Class, KEY_BYTES_MAX, record_bytes, units, write_record};
use super::format::{JournalKind, Kind, NewHeader, SegmentHead, Sums, UNIT};
use super::index::{Entry, Location};
use super::new_record::{NewRecord, Purpose};
use super::observer::{DropEvent, Dropped};
use super::open_segment::OpenSegment;
use super::options::Journaling;
use super::reclaim_policy::policy_class;
use super::write_queue::Job;
use super::writer::Writer;
use crate::device::AlignedBuffer;

impl Writer {
    /// See [`super::Flash::append`].
    pub fn append(&self, record: &NewRecord<'_>) -> Result<(), Dropped> {
        let outcome = self.try_append(record);
        if let Err(reason) = outcome {
            // The record under this key is older than the one that could not be written.
            self.keys.forget(record.hash);
            self.refuse(record, reason);
        }
        outcome
    }

    /// As [`Self::append`], but on failure nothing changes.
    pub fn try_append(&self, record: &NewRecord<'_>) -> Result<(), Dropped> {
        self.check_new(record)?;
        if self.is_large(record) {
            return self.append_large(record);
        }
        self.append_one(record, Kind::Whole, Purpose::New)?;
        self.count_written(record);
        Ok(())
    }

    pub fn count_written(&self, record: &NewRecord<'_>) {
        self.disk.counters.records_written.add(1);
        let bytes = (record.key.len() + record.value.len()) as u64;
        self.disk.counters.bytes_admitted.add(bytes);
        self.policy.arrivals.admitted(policy_class(record.class), bytes, self.disk.layout.capacity());
    }

    /// Reports a record that was not written.
    pub fn refuse(&self, record: &NewRecord<'_>, reason: Dropped) {
        self.space.report(DropEvent {
            reason,
            class: record.class,
            hash: record.hash,
            records: 1,
            bytes: record_bytes(record.key.len(), record.value.len()),
            age_s: 0,
            tenant: record.tenant,
            is_fetched: false,
        });
    }

    /// Checks whether the record may be written at all.
    pub fn check_new(&self, record: &NewRecord<'_>) -> Result<(), Dropped> {
        if record.key.is_empty() || record.key.len() > KEY_BYTES_MAX {
            return Err(Dropped::KeyLength);
        }
        if record.value.len() as u64 > self.disk.options.value_bytes_max {
            return Err(Dropped::TooLarge);
        }
        if !self.disk.watch.may_write() {
            return Err(Dropped::DeviceDegraded);
        }
        if is_expired(record.expires_at, self.disk.now()) {
            return Err(Dropped::Expired);
        }
        Ok(())
    }

    /// Writes a record again whose present place `at` is being reclaimed. The new copy begins with
    /// `uses` uses.
    pub fn append_again(
        &self,
        record: &NewRecord<'_>,
        kind: Kind,
        at: (u32, u32),
        uses: u8,
    ) -> Result<(), Dropped> {
        self.append_one(record, kind, Purpose::Again { slot: at.0, offset: at.1, uses })
    }

    /// Writes one record and enters it into the index.
    pub(super) fn append_one(
        &self,
        record: &NewRecord<'_>,
        kind: Kind,
        purpose: Purpose,
    ) -> Result<(), Dropped> {
        let sums = Sums::of(record.value);
        let length = units(record_bytes(record.key.len(), record.value.len())) * UNIT;
        let mut guard = self.lock_open(record.class);
        let open = self.segment_with_room(&mut guard, record.class, length)?;
        let mut buffers = self.buffers_for(open, length)?;
        let _key = self.keys.lock_key(record.hash);
        let sequence = self.sequence_for(record.hash, purpose)?;
        let header = NewHeader {
            kind,
            marks: record.marks,
            flags: record.flags,
            expires_at: record.expires_at,
            tenant: record.tenant,
            sequence,
            cas: record.cas,
        };
        let start = open.tail;
        let mut full = Vec::new();
        if open.buffer.is_none() {
            (open.filled_since, open.buffer_start) = (self.disk.env.monotonic(), start);
        }
        write_record((open.id, (start / UNIT) as u32), &header, record.key, (record.value, &sums), |part| {
            open.fill(part, start + length, &mut buffers, &mut full);
        });
        let padding = (start + length - open.tail) as usize;
        open.fill(&[0; UNIT as usize][..padding], start + length, &mut buffers, &mut full);
        open.note(record, kind, sequence, start, length);
        self.space.occupy(open.slot, record.tenant, (length / UNIT) as u32);
        let location = Location {
            slot: open.slot,
            offset: (start / UNIT) as u32,
            units: Location::rounded((length / UNIT) as u32),
            expiry: Coarse::new(record.expires_at, self.disk.now()),
            is_large: kind == Kind::Head,
        };
        self.queue_pieces(full);
        self.link(record.hash, location, purpose);
        Ok(())
    }

    /// The sequence number of a record. An older record of the key is voided just before it, so that the
    /// older one does not come back if a crash loses this one.
    fn sequence_for(&self, hash: u64, purpose: Purpose) -> Result<u64, Dropped> {
        match purpose {
            Purpose::New => {
                let journals = self.disk.options.journaling != Journaling::Off;
                if journals && self.keys.may_come_back(hash) {
                    self.keys.note(hash, JournalKind::Forgotten);
                }
                Ok(self.keys.next_sequence())
            }
            Purpose::Again { slot, offset, .. } => {
                // The number is taken before the look: a caller that removes the key after the look
                // takes a later one, so that a crash does not bring the key back either.
                let sequence = self.keys.next_sequence();
                let is_current = self.keys.index.find(hash, false).is_some_and(|e| e.is_at(slot, offset));
                if is_current { Ok(sequence) } else { Err(Dropped::Evicted) }
            }
        }
    }

    fn link(&self, hash: u64, location: Location, purpose: Purpose) {
        let frequency = if let Purpose::Again { uses, .. } = purpose { uses } else { 0 };
        let entry = Entry { frequency, ..Entry::new(location) };
        self.keys.link_entry(&entry);
        let inserted = match purpose {
            Purpose::New => {
                self.keys.touched.forget(hash);
                Some(self.keys.index.insert(hash, entry))
            }
            Purpose::Again { slot, offset, .. } => {
                self.keys.index.insert_if(hash, entry, |old| old.is_some_and(|old| old.is_at(slot, offset)))
            }
        };
        let Some(inserted) = inserted else {
            self.keys.unlink(&entry);
            return;
        };
        if let Some(replaced) = &inserted.replaced {
            self.keys.unlink(replaced);
        }
        if let Some(dropped) = &inserted.dropped {
            self.keys.note_unindexed();
            self.keys.earlier.lose();
            self.keys.unlink(dropped);
            self.space.report_entry(Dropped::IndexFull, 0, dropped);
        }
    }

    /// The open segment of the class; a new one if the present one has no room.
    fn segment_with_room<'a>(
        &self,
        guard: &'a mut Option<OpenSegment>,
        class: Class,
        length: u64,
    ) -> Result<&'a mut OpenSegment, Dropped> {
        if guard.as_ref().is_some_and(|open| {
            !open.has_room(length, self.disk.layout.segment_bytes, self.keys.coming_sequence())
        }) {
            self.seal(guard.take());
        }
        if guard.is_none() {
            let id = self.keys.next_sequence();
            let now = self.disk.now();
            let slot = self.space.table.open(class, id, now).ok_or(Dropped::NoFreeSegment)?;
            self.disk.counters.segments_opened.add(1);
            let head = SegmentHead { class, device: self.disk.device_id, id, opened_at: now, image: (0, 0) };
            self.queue.add(Job::Head { slot, id, bytes: head.encode() });
            *guard = Some(OpenSegment::new(slot, id, class, self.disk.layout.piece_bytes()));
        }
        guard.as_mut().ok_or(Dropped::NoFreeSegment)
    }

    /// Takes all buffers that the record needs, before its first byte is written.
    fn buffers_for(&self, open: &OpenSegment, length: u64) -> Result<Vec<AlignedBuffer>, Dropped> {
        let piece = open.piece_bytes as u64;
        let room = open.buffer.as_ref().map_or(0, |_| piece - (open.tail - open.buffer_start));
        let needed = length.saturating_sub(room).div_ceil(piece);
        let buffers = (0..needed).map(|_| self.write_pool.take(open.piece_bytes));
        buffers.collect::<Option<Vec<_>>>().ok_or(Dropped::BuffersFull)
    }
}

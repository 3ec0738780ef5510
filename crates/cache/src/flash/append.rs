//! Appending: a record goes into the write buffer of its class's open segment and into the index.
//!
//! Nothing here waits for the device. What finds no buffer, no segment or no place in the index is
//! dropped with its reason.
//!
//! Invariants: records of a segment stand in the order of their sequence numbers; a record is in
//! the index only after all its bytes are in the buffer; a segment keeps room for its footer.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use super::core::Core;
use super::expiry::{Coarse, is_expired};
use super::format::{Class, JournalKind, Kind, Marks, NewHeader, Row, SegmentHead, Sums, Trailer, UNIT};
use super::format::{KEY_BYTES_MAX, footer_bytes, record_bytes, units, write_record};
use super::index::{Entry, Location};
use super::observer::{DropEvent, Dropped};
use super::options::Journaling;
use super::reclaim::policy_class;
use super::segments::SegmentState;
use super::unwritten::Piece;
use super::writer::Job;
use crate::device::{AlignedBuffer, BLOCK};

/// A record to be written.
#[derive(Clone, Copy, Debug)]
pub struct NewRecord<'a> {
    /// The key, 1 byte to 8 KiB.
    pub key: &'a [u8],
    /// Its hash, from [`Flash::hash`](super::Flash::hash).
    pub hash: u64,
    /// The value.
    pub value: &'a [u8],
    /// The client's flags.
    pub flags: u32,
    /// What was said of it.
    pub marks: Marks,
    /// Seconds since 1970, 0 for never.
    pub expires_at: u32,
    /// Whose it is.
    pub tenant: u32,
    /// The unique number for compare-and-swap.
    pub cas: u64,
    /// How long it is expected to live.
    pub class: Class,
}

impl<'a> NewRecord<'a> {
    /// A record of tenant 0 that never ends, without flags, marks and number.
    pub fn plain(key: &'a [u8], hash: u64, value: &'a [u8], class: Class) -> Self {
        let marks = Marks::default();
        Self { key, hash, value, flags: 0, marks, expires_at: 0, tenant: 0, cas: 0, class }
    }
}

/// The segment that a class writes to.
pub(super) struct OpenSegment {
    pub slot: u32,
    pub id: u64,
    class: Class,
    /// Bytes of a write buffer.
    piece_bytes: usize,
    /// The end of what was appended, in bytes from the slot's start; whole units.
    tail: u64,
    rows: Vec<Row>,
    latest_expiry: u32,
    has_eternal: bool,
    record_bytes: u64,
    last_sequence: u64,
    /// The buffer that is being filled, and where in the segment it begins.
    buffer: Option<AlignedBuffer>,
    buffer_start: u64,
    /// The end of the last record that begins in the buffer.
    needed_to: u64,
    filled_since: Duration,
}

/// Why a record is written, which decides what it may replace.
#[derive(Clone, Copy)]
pub(super) enum Purpose {
    /// A new value.
    New,
    /// The same value as at this place, if it is still current.
    Again { slot: u32, offset: u32, uses: u8 },
}

impl Core {
    /// See [`super::Flash::append`].
    pub fn append(&self, record: &NewRecord<'_>) -> Result<(), Dropped> {
        let outcome = self.try_append(record);
        if let Err(reason) = outcome {
            // What is there under the key is older than what could not be written.
            self.forget(record.hash);
            self.refuse(record, reason);
        }
        outcome
    }

    /// As [`Self::append`], but what cannot be written leaves everything as it was.
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
        self.counters.records_written.add(1);
        let bytes = (record.key.len() + record.value.len()) as u64;
        self.counters.bytes_admitted.add(bytes);
        self.newcomers.admitted(policy_class(record.class), bytes, self.layout.capacity());
    }

    /// Reports a record that was not written.
    pub fn refuse(&self, record: &NewRecord<'_>, reason: Dropped) {
        self.report(DropEvent {
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

    /// Whether the record may be written at all.
    pub fn check_new(&self, record: &NewRecord<'_>) -> Result<(), Dropped> {
        if record.key.is_empty() || record.key.len() > KEY_BYTES_MAX {
            return Err(Dropped::KeyLength);
        }
        if record.value.len() as u64 > self.options.value_bytes_max {
            return Err(Dropped::TooLarge);
        }
        if !self.watch.may_write() {
            return Err(Dropped::DeviceDegraded);
        }
        if is_expired(record.expires_at, self.now()) {
            return Err(Dropped::Expired);
        }
        Ok(())
    }

    /// Writes a record again that lies at a place which is to be reclaimed.
    /// It begins its next life with so many uses.
    pub fn append_again(
        &self,
        record: &NewRecord<'_>,
        kind: Kind,
        at: (u32, u32),
        uses: u8,
    ) -> Result<(), Dropped> {
        self.append_one(record, kind, Purpose::Again { slot: at.0, offset: at.1, uses })
    }

    /// Writes one record, and enters it into the index.
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
        let _key = self.lock_key(record.hash);
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
            (open.filled_since, open.buffer_start) = (self.env.monotonic(), start);
        }
        write_record((open.id, (start / UNIT) as u32), &header, record.key, (record.value, &sums), |part| {
            open.fill(part, start + length, &mut buffers, &mut full);
        });
        let padding = (start + length - open.tail) as usize;
        open.fill(&[0; UNIT as usize][..padding], start + length, &mut buffers, &mut full);
        open.note(record, kind, sequence, start, length);
        self.occupy(open.slot, record.tenant, (length / UNIT) as u32);
        let location = Location {
            slot: open.slot,
            offset: (start / UNIT) as u32,
            units: Location::rounded((length / UNIT) as u32),
            expiry: Coarse::new(record.expires_at, self.now()),
            is_large: kind == Kind::Head,
        };
        self.queue_pieces(full);
        self.link(record.hash, location, purpose);
        Ok(())
    }

    /// The sequence number of a record. An older record of the key is void from just before on, so
    /// that it does not come back if this one is lost in a crash.
    fn sequence_for(&self, hash: u64, purpose: Purpose) -> Result<u64, Dropped> {
        match purpose {
            Purpose::New => {
                let journals = self.options.journaling != Journaling::Off;
                if journals && self.may_come_back(hash) {
                    self.note(hash, JournalKind::Forgotten);
                }
                Ok(self.next_sequence())
            }
            Purpose::Again { slot, offset, .. } => {
                // The number is taken before the look: whoever forgets the key after the look
                // takes a later one, so a crash does not bring the key back either.
                let sequence = self.next_sequence();
                let is_current = self.index.find(hash, false).is_some_and(|e| e.is_at(slot, offset));
                if is_current { Ok(sequence) } else { Err(Dropped::Evicted) }
            }
        }
    }

    fn link(&self, hash: u64, location: Location, purpose: Purpose) {
        let frequency = if let Purpose::Again { uses, .. } = purpose { uses } else { 0 };
        let entry = Entry { frequency, ..Entry::new(location) };
        self.link_entry(&entry);
        let inserted = match purpose {
            Purpose::New => {
                self.touched.forget(hash);
                Some(self.index.insert(hash, entry))
            }
            Purpose::Again { slot, offset, .. } => {
                self.index.insert_if(hash, entry, |old| old.is_some_and(|old| old.is_at(slot, offset)))
            }
        };
        let Some(inserted) = inserted else {
            self.unlink(&entry);
            return;
        };
        if let Some(replaced) = &inserted.replaced {
            self.unlink(replaced);
        }
        if let Some(dropped) = &inserted.dropped {
            self.note_unindexed();
            self.lost_while_recovering();
            self.unlink(dropped);
            self.report_entry(Dropped::IndexFull, 0, dropped);
        }
    }

    /// The open segment of the class, a new one if the present one has no room.
    fn segment_with_room<'a>(
        &self,
        guard: &'a mut Option<OpenSegment>,
        class: Class,
        length: u64,
    ) -> Result<&'a mut OpenSegment, Dropped> {
        if guard.as_ref().is_some_and(|open| !open.has_room(length, self.layout.segment_bytes, self)) {
            self.seal(guard.take());
        }
        if guard.is_none() {
            let id = self.next_sequence();
            let now = self.now();
            let slot = self.table.open(class, id, now).ok_or(Dropped::NoFreeSegment)?;
            self.counters.segments_opened.add(1);
            let head = SegmentHead { class, device: self.device_id, id, opened_at: now, image: (0, 0) };
            self.queue.add(Job::Head { slot, id, bytes: head.encode() });
            *guard = Some(OpenSegment::new(slot, id, class, self.layout.piece_bytes()));
        }
        guard.as_mut().ok_or(Dropped::NoFreeSegment)
    }

    /// All buffers that the record will need, before its first byte is written.
    fn buffers_for(&self, open: &OpenSegment, length: u64) -> Result<Vec<AlignedBuffer>, Dropped> {
        let piece = open.piece_bytes as u64;
        let room = open.buffer.as_ref().map_or(0, |_| piece - (open.tail - open.buffer_start));
        let needed = length.saturating_sub(room).div_ceil(piece);
        let buffers = (0..needed).map(|_| self.write_pool.take(open.piece_bytes));
        buffers.collect::<Option<Vec<_>>>().ok_or(Dropped::BuffersFull)
    }

    fn queue_pieces(&self, pieces: Vec<Piece>) {
        for piece in pieces {
            let piece = Arc::new(piece);
            self.unwritten.add(Arc::clone(&piece));
            self.queue.add(Job::Piece(piece));
        }
    }

    /// Queues what is in the buffer of each class since `write_delay`, or in any case.
    pub fn flush_buffers(&self, in_any_case: bool) {
        let now = self.env.monotonic();
        for class in Class::OF_RECORDS {
            let mut guard = self.lock_open(class);
            let Some(open) = guard.as_mut().filter(|open| open.buffer.is_some()) else { continue };
            if in_any_case || now.saturating_sub(open.filled_since) >= self.options.write_delay {
                let piece = open.take_piece();
                self.queue_pieces(piece.into_iter().collect());
            }
        }
    }

    /// Seals the open segments of all classes.
    pub fn seal_all(&self) {
        for class in Class::OF_RECORDS {
            let open = self.lock_open(class).take();
            self.seal(open);
        }
    }

    /// No record is added any more: the rest of the buffer and the footer are queued.
    fn seal(&self, open: Option<OpenSegment>) {
        let Some(mut open) = open else { return };
        let piece = open.take_piece();
        self.queue_pieces(piece.into_iter().collect());
        let trailer = open.trailer();
        self.table.update(open.slot, open.id, |segment| {
            segment.state = SegmentState::Sealing;
            segment.placed_at = self.tenure.time();
            segment.latest_expiry = trailer.latest_expiry;
            segment.record_bytes = trailer.record_bytes;
        });
        let bytes = trailer.encode(&open.rows);
        self.queue.add(Job::Seal { slot: open.slot, id: open.id, bytes });
        self.count_sealed(open.class, trailer.record_bytes);
    }

    /// Bytes of records in buffers, full or not, that are not on the device.
    pub fn unwritten_bytes(&self) -> u64 {
        let open = |class: Class| self.lock_open(class).as_ref().map_or(0, OpenSegment::buffered_bytes);
        // Full buffers last: one that fills up meanwhile is counted twice rather than not at all.
        Class::OF_RECORDS.into_iter().map(open).sum::<u64>() + self.unwritten.bytes()
    }

    /// A copy of a record that is not on the device yet. `None` when it is.
    pub fn read_unwritten(&self, slot: u32, start: u64, end: u64) -> Option<Vec<u8>> {
        let segment = self.table.segment(slot);
        let guard = self.lock_open(segment.class);
        let mut bytes = Vec::new();
        let found = self.unwritten.read(slot, start, end, &mut bytes);
        let at = start + bytes.len() as u64;
        let open = guard.as_ref().filter(|open| open.slot == slot && at < end);
        if let Some((open, buffer)) = open.and_then(|open| Some((open, open.buffer.as_ref()?)))
            && at >= open.buffer_start
        {
            let used = &buffer.as_ref()[..(open.tail - open.buffer_start) as usize];
            let upto = ((end - open.buffer_start) as usize).min(used.len());
            bytes.extend_from_slice(used.get((at - open.buffer_start) as usize..upto).unwrap_or_default());
        }
        (found || !bytes.is_empty()).then_some(bytes)
    }
}

impl OpenSegment {
    /// Bytes in the buffer that is being filled.
    fn buffered_bytes(&self) -> u64 {
        self.buffer.as_ref().map_or(0, |_| self.tail - self.buffer_start)
    }

    fn new(slot: u32, id: u64, class: Class, piece_bytes: usize) -> Self {
        Self {
            slot,
            id,
            class,
            piece_bytes,
            tail: BLOCK,
            rows: Vec::new(),
            latest_expiry: 0,
            has_eternal: false,
            record_bytes: 0,
            last_sequence: id,
            buffer: None,
            buffer_start: BLOCK,
            needed_to: 0,
            filled_since: Duration::ZERO,
        }
    }

    fn has_room(&self, length: u64, segment_bytes: u64, core: &Core) -> bool {
        let footer = footer_bytes(self.rows.len() + 1) + BLOCK;
        // What a flushed buffer pads is at most a block.
        let fits = self.tail.next_multiple_of(BLOCK) + length + BLOCK + footer <= segment_bytes;
        fits && core.sequence.load(Ordering::Relaxed) - self.id < u64::from(u32::MAX)
    }

    /// Adds bytes of a record that ends at `record_end`, taking buffers and giving full ones.
    fn fill(
        &mut self,
        mut part: &[u8],
        record_end: u64,
        spare: &mut Vec<AlignedBuffer>,
        full: &mut Vec<Piece>,
    ) {
        while !part.is_empty() {
            if self.buffer.is_none() {
                self.buffer = spare.pop();
                self.buffer_start = self.tail;
            }
            let Some(buffer) = &mut self.buffer else { return };
            let at = (self.tail - self.buffer_start) as usize;
            let count = part.len().min(self.piece_bytes - at);
            buffer.bytes_mut()[at..at + count].copy_from_slice(&part[..count]);
            self.tail += count as u64;
            self.needed_to = record_end;
            part = &part[count..];
            if at + count == self.piece_bytes {
                full.extend(self.take_piece());
            }
        }
    }

    /// The buffer, padded to whole blocks.
    fn take_piece(&mut self) -> Option<Piece> {
        let mut buffer = self.buffer.take()?;
        let used = (self.tail - self.buffer_start) as usize;
        let bytes = used.next_multiple_of(BLOCK as usize);
        buffer.bytes_mut()[used..bytes].fill(0);
        self.tail = self.buffer_start + bytes as u64;
        let (slot, id, start, needed_to) = (self.slot, self.id, self.buffer_start, self.needed_to);
        Some(Piece { slot, id, start, buffer, bytes, needed_to })
    }

    fn note(&mut self, record: &NewRecord<'_>, kind: Kind, sequence: u64, start: u64, length: u64) {
        self.rows.push(Row {
            hash: record.hash,
            offset: (start / UNIT) as u32,
            units: (length / UNIT) as u32,
            kind,
            tenant: record.tenant,
            sequence: (sequence - self.id) as u32,
            expires_at: record.expires_at,
        });
        self.latest_expiry = self.latest_expiry.max(record.expires_at);
        self.has_eternal |= record.expires_at == 0;
        self.record_bytes += length;
        self.last_sequence = sequence;
    }

    /// The rows so far, if this is that segment.
    pub fn rows_of(&self, slot: u32, id: u64) -> Option<Vec<Row>> {
        (self.slot == slot && self.id == id).then(|| self.rows.clone())
    }

    fn trailer(&self) -> Trailer {
        Trailer {
            id: self.id,
            rows: self.rows.len() as u32,
            latest_expiry: if self.has_eternal { 0 } else { self.latest_expiry },
            last_sequence: self.last_sequence,
            record_bytes: self.record_bytes,
        }
    }
}

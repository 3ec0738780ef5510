//! The open segment of a class of records, and its write buffer.
//!
//! Invariants: records are in the order of their sequence numbers; the segment keeps room for its footer.

use std::time::Duration;

use super::format::{Class, Kind, Row, Trailer, UNIT, footer_bytes};
use super::new_record::NewRecord;
use super::unwritten::Piece;
use crate::device::{AlignedBuffer, BLOCK};

/// The segment to which records of a class are appended.
pub(super) struct OpenSegment {
    pub slot: u32,
    pub id: u64,
    pub class: Class,
    /// Bytes of a write buffer.
    pub piece_bytes: usize,
    /// End of the appended records, in bytes from the slot's start; a multiple of a unit.
    pub tail: u64,
    pub rows: Vec<Row>,
    latest_expiry: u32,
    has_eternal: bool,
    record_bytes: u64,
    last_sequence: u64,
    /// The buffer that is being filled, and its offset in the segment.
    pub buffer: Option<AlignedBuffer>,
    pub buffer_start: u64,
    /// The end of the last record that begins in the buffer.
    needed_to: u64,
    pub filled_since: Duration,
}

impl OpenSegment {
    /// Bytes in the buffer that is being filled.
    pub fn buffered_bytes(&self) -> u64 {
        self.buffer.as_ref().map_or(0, |_| self.tail - self.buffer_start)
    }

    pub fn new(slot: u32, id: u64, class: Class, piece_bytes: usize) -> Self {
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

    pub fn has_room(&self, length: u64, segment_bytes: u64, sequence: u64) -> bool {
        let footer = footer_bytes(self.rows.len() + 1) + BLOCK;
        // A flushed buffer is padded by less than a block.
        let fits = self.tail.next_multiple_of(BLOCK) + length + BLOCK + footer <= segment_bytes;
        fits && sequence - self.id < u64::from(u32::MAX)
    }

    /// Appends bytes of a record that ends at `record_end`. Takes buffers from `spare` and moves full
    /// ones to `full`.
    pub fn fill(
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

    /// Takes the buffer, padded to a multiple of a block.
    pub fn take_piece(&mut self) -> Option<Piece> {
        let mut buffer = self.buffer.take()?;
        let used = (self.tail - self.buffer_start) as usize;
        let bytes = used.next_multiple_of(BLOCK as usize);
        buffer.bytes_mut()[used..bytes].fill(0);
        self.tail = self.buffer_start + bytes as u64;
        let (slot, id, start, needed_to) = (self.slot, self.id, self.buffer_start, self.needed_to);
        Some(Piece { slot, id, start, buffer, bytes, needed_to })
    }

    pub fn note(&mut self, record: &NewRecord<'_>, kind: Kind, sequence: u64, start: u64, length: u64) {
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

    /// The rows so far, if this is the given segment.
    pub fn rows_of(&self, slot: u32, id: u64) -> Option<Vec<Row>> {
        (self.slot == slot && self.id == id).then(|| self.rows.clone())
    }

    pub fn trailer(&self) -> Trailer {
        Trailer {
            id: self.id,
            rows: self.rows.len() as u32,
            latest_expiry: if self.has_eternal { 0 } else { self.latest_expiry },
            last_sequence: self.last_sequence,
            record_bytes: self.record_bytes,
        }
    }
}

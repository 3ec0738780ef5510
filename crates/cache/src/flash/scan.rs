//! Reads segments: their footers, all their bytes, and the records of a segment without a footer.
//!
//! Invariant: a record counts only if its header, its key and all bytes of its value match their checksums.

use super::disk::Disk;
use super::format::{RecordView, Row, Trailer, UNIT, footer_bytes, units};
use crate::device::BLOCK;

impl Disk {
    /// The records in the written part of a segment, and the end of that part.
    pub fn scan(&self, slot: u32, id: u64) -> Option<(Vec<Row>, u64)> {
        Some(self.scan_bytes(id, &self.read_segment(slot)?))
    }

    /// As [`Disk::scan`], from a segment's bytes.
    pub fn scan_bytes(&self, id: u64, bytes: &[u8]) -> (Vec<Row>, u64) {
        let mut rows: Vec<Row> = Vec::new();
        let mut at = BLOCK as usize;
        while at < bytes.len() {
            let place = (at as u64 / UNIT) as u32;
            let Some(record) = RecordView::parse((id, place), &bytes[at..]) else {
                if at.is_multiple_of(BLOCK as usize) {
                    break;
                }
                at = at.next_multiple_of(BLOCK as usize);
                continue;
            };
            let Ok(sequence) = u32::try_from(record.header.sequence.wrapping_sub(id)) else { break };
            if rows.last().is_some_and(|last| last.sequence >= sequence) {
                break;
            }
            let length = units(record.bytes());
            if record.value(&bytes[at..], 0..record.value_bytes()).is_some() {
                rows.push(Row {
                    hash: self.hash(record.key),
                    offset: place,
                    units: length as u32,
                    kind: record.header.kind,
                    tenant: record.header.tenant,
                    sequence,
                    expires_at: record.header.expires_at,
                });
            }
            at += (length * UNIT) as usize;
        }
        (rows, at as u64)
    }

    /// Reads all bytes of a slot.
    pub fn read_segment(&self, slot: u32) -> Option<Vec<u8>> {
        let start = self.layout.slot_start(slot);
        let mut bytes = Vec::with_capacity(self.layout.segment_bytes as usize);
        let mut buffer = self.read_pool.take(self.layout.piece_bytes())?;
        while (bytes.len() as u64) < self.layout.segment_bytes {
            let left = (self.layout.segment_bytes - bytes.len() as u64) as usize;
            let count = left.min(buffer.len());
            self.device.read_at(start + bytes.len() as u64, &mut buffer.bytes_mut()[..count]).ok()?;
            bytes.extend_from_slice(&buffer.as_ref()[..count]);
        }
        Some(bytes)
    }

    /// Reads the trailer and rows of a sealed segment.
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
}

/// The trailer that a segment with these rows would have.
pub(super) fn trailer_of(id: u64, rows: &[Row]) -> Trailer {
    let is_eternal = rows.iter().any(|row| row.expires_at == 0);
    let latest = rows.iter().map(|row| row.expires_at).max().unwrap_or_default();
    Trailer {
        id,
        rows: rows.len() as u32,
        latest_expiry: if is_eternal { 0 } else { latest },
        last_sequence: id + rows.last().map_or(0, |row| u64::from(row.sequence)),
        record_bytes: rows.iter().map(|row| u64::from(row.units) * UNIT).sum(),
    }
}

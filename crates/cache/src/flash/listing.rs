//! Lists the keys on flash. They are not in memory, so they are read from the device.
//!
//! Invariant: one segment is read at a time. The visitor may end the listing, and may be slow.

use std::ops::ControlFlow;

use super::format::{Class, Kind, RecordView, Row, UNIT};
use super::index::Entry;
use super::read::Reader;
use super::segments::{Segment, SegmentState};

/// If the records of a segment are at most this long on average, the complete segment is read; otherwise
/// each record is read separately.
const BULK_BYTES: u64 = 32 << 10;

/// Enough for a header, most keys and their list of checksums.
const PREFIX_BYTES: u64 = 1024;

/// A key on flash.
#[derive(Clone, Copy, Debug)]
pub struct KeyInfo<'a> {
    /// The key.
    pub key: &'a [u8],
    /// Bytes of its record; of the head for a large value.
    pub record_bytes: u64,
    /// When it expires, in seconds since 1970; 0 for never.
    pub expires_at: u32,
    /// When its segment was opened, in seconds since 1970.
    pub written_at: u32,
    /// The client's flags.
    pub flags: u32,
    /// The unique version that compare-and-swap compares.
    pub cas: u64,
    /// The tenant that owns it.
    pub tenant: u32,
    /// Class of its segment.
    pub class: Class,
    /// Whether it was ever used.
    pub is_fetched: bool,
}

impl Reader {
    /// See [`super::Flash::keys`].
    pub fn keys(&self, visit: &mut dyn FnMut(KeyInfo<'_>) -> ControlFlow<()>) -> ControlFlow<()> {
        for segment in self.space.table.all() {
            let (rows, whole) = match segment.state {
                SegmentState::Open => (self.writer.rows_of_open(segment.slot, segment.id), None),
                SegmentState::Sealing => self.read_sealing(segment.slot, segment.id),
                SegmentState::Sealed => self.read_sealed(&segment),
                _ => continue,
            };
            for row in rows {
                let Some(entry) = self.live_entry(segment.slot, &row) else { continue };
                let start = u64::from(row.offset) * UNIT;
                let read;
                let bytes = match &whole {
                    Some(whole) => whole.get(start as usize..).unwrap_or_default(),
                    None => {
                        read = self.read_prefix(segment.slot, &row).unwrap_or_default();
                        &read
                    }
                };
                let Some(record) = RecordView::parse((segment.id, row.offset), bytes) else { continue };
                visit(KeyInfo {
                    key: record.key,
                    record_bytes: record.bytes(),
                    expires_at: self.keys.touched.expiry(row.hash, record.header.expires_at),
                    written_at: segment.opened_at,
                    flags: record.header.flags,
                    cas: record.header.cas,
                    tenant: record.header.tenant,
                    class: segment.class,
                    is_fetched: entry.is_fetched,
                })?;
            }
        }
        ControlFlow::Continue(())
    }

    fn live_entry(&self, slot: u32, row: &Row) -> Option<Entry> {
        let is_listed = row.kind != Kind::Piece;
        let is_certain = !self.keys.earlier.is_recovering();
        let entry = self.keys.index.find(row.hash, false).filter(|entry| entry.is_at(slot, row.offset))?;
        (is_listed && (is_certain || !self.keys.is_of_earlier_run(&entry))).then_some(entry)
    }

    /// The rows of a sealed segment, with all its bytes if that is cheaper than single reads.
    fn read_sealed(&self, segment: &Segment) -> (Vec<Row>, Option<Vec<u8>>) {
        let (slot, id) = (segment.slot, segment.id);
        let rows = match self.disk.read_rows(slot, id) {
            Some((_, rows)) => rows,
            None => self.disk.scan(slot, id).map(|(rows, _)| rows).unwrap_or_default(),
        };
        let is_bulk = segment.record_bytes / (rows.len() as u64).max(1) <= BULK_BYTES;
        let whole = if is_bulk { self.disk.read_segment(slot) } else { None };
        (rows, whole)
    }

    /// The rows and bytes of a full segment that is not completely on the device yet.
    fn read_sealing(&self, slot: u32, id: u64) -> (Vec<Row>, Option<Vec<u8>>) {
        let Some(mut bytes) = self.disk.read_segment(slot) else { return (Vec::new(), None) };
        self.writer.unwritten.overlay(slot, &mut bytes);
        (self.disk.scan_bytes(id, &bytes).0, Some(bytes))
    }

    fn read_prefix(&self, slot: u32, row: &Row) -> Option<Vec<u8>> {
        let start = u64::from(row.offset) * UNIT;
        let mut end = start + (u64::from(row.units) * UNIT).min(PREFIX_BYTES);
        let whole = start + u64::from(row.units) * UNIT;
        if whole > self.space.table.written_to(slot)
            && let Some(bytes) = self.writer.read_unwritten(slot, start, whole)
        {
            return Some(bytes);
        }
        loop {
            let align = self.disk.device.read_alignment();
            let from = start / align * align;
            let mut buffer = self.disk.read_pool.take((end.next_multiple_of(align) - from) as usize)?;
            self.disk.device.read_at(self.disk.layout.slot_start(slot) + from, buffer.bytes_mut()).ok()?;
            let bytes = buffer.as_ref()[(start - from) as usize..].to_vec();
            let is_enough = RecordView::parse((self.space.table.id(slot), row.offset), &bytes).is_some();
            if is_enough || end == whole {
                return Some(bytes);
            }
            end = whole; // the key is long
        }
    }
}

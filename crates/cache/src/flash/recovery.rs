//! Recovery: what an earlier run left is found again, while the cache already serves.
//!
//! The image of the index is the start; then all events since it was begun are replayed in the
//! order of their sequence numbers: records of segments, entries of the journal. Footers are read
//! one after the other as the merge reaches them, so memory is bounded by the few segments that
//! were open at the same time.
//!
//! Invariants: what this run wrote or removed is newer than anything found; a key whose last event
//! is a removal is not found; what does not check out is left out, never guessed.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashSet, VecDeque};
use std::sync::atomic::Ordering;

use super::core::Core;
use super::expiry::{Coarse, is_expired};
use super::format::{
    Class, JournalBlock, JournalEntry, JournalKind, Kind, Root, Row, SegmentHead, Trailer, UNIT,
};
use super::index::{Entry, Location};
use super::journal::Place;
use super::options::Journaling;
use super::segments::{Segment, SegmentState};
use crate::device::BLOCK;

/// Removals remembered while recovery runs: 16 MiB. Beyond, recovery ends early.
const REMOVED_MAX: usize = 1 << 20;

/// Keys that this run removed before recovery found them.
#[derive(Default)]
pub(super) struct Removed {
    hashes: HashSet<u64>,
    overflowed: bool,
}

impl Removed {
    pub fn add(&mut self, hash: u64) {
        if self.hashes.len() < REMOVED_MAX {
            self.hashes.insert(hash);
        } else {
            self.overflowed = true;
        }
    }
}

/// A segment whose events are replayed.
struct Source {
    slot: u32,
    id: u64,
    last_sequence: u64,
    rows: Rows,
}

enum Rows {
    /// In the footer.
    OnDevice,
    /// Found by reading the segment, which has no footer.
    Scanned(Vec<Row>),
}

/// The events of one source, the next one first.
struct Stream {
    place: Option<(u32, u64)>,
    rows: VecDeque<Row>,
    entries: VecDeque<JournalEntry>,
}

impl Stream {
    fn next_sequence(&self) -> Option<u64> {
        match self.place {
            Some((_, id)) => self.rows.front().map(|row| id + u64::from(row.sequence)),
            None => self.entries.front().map(|entry| entry.sequence),
        }
    }
}

impl Core {
    /// Finds what the run that left `root` wrote, or makes every slot free if that is not wanted.
    pub fn recover(&self, root: &Root) {
        let heads = self.read_heads();
        let sources = self.adopt(&heads, root);
        let journal = self.read_journal(root);
        self.load_newest_image(&heads, root);
        let scanned = self.replay(sources, journal, root);
        for (slot, id, rows) in scanned {
            self.write_footer(slot, id, &rows);
        }
        self.counters.records_recovered.add(self.index.len());
        if self.lock_removed().overflowed {
            self.journal.distrust();
        }
        self.recovering.store(false, Ordering::Release);
        *self.lock_removed() = Removed::default();
        tracing::info!(records = self.index.len(), "found what an earlier run left on flash");
    }

    fn read_heads(&self) -> Vec<Option<SegmentHead>> {
        let Some(mut block) = self.read_pool.take(BLOCK as usize) else { return Vec::new() };
        let slots = 0..self.layout.segments;
        let read = slots.map(|slot| {
            self.device.read_at(self.layout.slot_start(slot), block.bytes_mut()).ok()?;
            SegmentHead::parse(block.as_ref(), &self.device_id)
        });
        read.collect()
    }

    /// Enters the segments found into the table and frees all other slots.
    fn adopt(&self, heads: &[Option<SegmentHead>], root: &Root) -> Vec<Source> {
        let mut sources = Vec::new();
        for slot in 0..self.layout.segments {
            let head = heads.get(slot as usize).copied().flatten();
            let head = head.filter(|head| head.class != Class::Image || head.image.1 == root.image);
            let Some(head) = head.filter(|head| head.id < self.first_id) else {
                self.table.release(slot, SegmentState::Free);
                continue;
            };
            let (trailer, rows) = match self.read_trailer(slot, head.id) {
                _ if head.class == Class::Image => (Self::trailer_of(head.id, &[]), Rows::OnDevice),
                Some(trailer) => (trailer, Rows::OnDevice),
                None => {
                    let rows = self.scan(slot, head.id).map_or_else(Vec::new, |(rows, _)| rows);
                    (Self::trailer_of(head.id, &rows), Rows::Scanned(rows))
                }
            };
            let is_image = head.class == Class::Image;
            let state = if is_image { SegmentState::Image } else { SegmentState::Sealed };
            let segment = Segment {
                slot,
                state,
                class: head.class,
                id: head.id,
                placed: head.id,
                opened_at: head.opened_at,
                latest_expiry: trailer.latest_expiry,
                record_bytes: trailer.record_bytes,
                live_bytes: 0,
                used_bytes: 0,
                errors: 0,
            };
            self.table.adopt(segment, self.layout.segment_bytes);
            if !is_image {
                let last_sequence = trailer.last_sequence;
                sources.push(Source { slot, id: head.id, last_sequence, rows });
            }
        }
        sources.sort_by_key(|source| source.id);
        sources
    }

    fn read_trailer(&self, slot: u32, id: u64) -> Option<Trailer> {
        let mut block = self.read_pool.take(BLOCK as usize)?;
        let end = self.layout.slot_start(slot) + self.layout.segment_bytes;
        self.device.read_at(end - BLOCK, block.bytes_mut()).ok()?;
        Trailer::parse(block.as_ref(), id).map(|(trailer, _)| trailer)
    }

    /// All entries that count, in order. The journal goes on behind the newest of them.
    fn read_journal(&self, root: &Root) -> Vec<JournalEntry> {
        let mut entries: Vec<JournalEntry> = Vec::new();
        let mut newest = Place { half: root.journal_half, epoch: self.first_id, block: 0 };
        let (mut latest, mut halves) = (0, 0);
        for half in [0, 1] {
            let before = entries.len();
            let (mut end, mut last) = (0, 0);
            for block in 0..self.layout.journal_blocks {
                let Some(found) = self.read_journal_block(half, block) else { continue };
                let counting = found.entries.iter().filter(|entry| entry.sequence >= root.image);
                let length = entries.len();
                entries.extend(counting);
                if entries.len() > length {
                    (end, last) = (block + 1, last.max(found.epoch));
                }
            }
            let latest_here = entries[before..].iter().map(|entry| entry.sequence).max();
            halves += u32::from(latest_here.is_some());
            if latest_here.is_some_and(|sequence| sequence >= latest) {
                latest = latest_here.unwrap_or_default();
                newest = Place { half, epoch: last, block: end };
            }
        }
        entries.sort_by_key(|entry| entry.sequence);
        self.journal.resume(newest, halves < 2);
        entries
    }

    fn read_journal_block(&self, half: u8, block: u32) -> Option<JournalBlock> {
        let mut buffer = self.read_pool.take(BLOCK as usize)?;
        self.device.read_at(self.layout.journal_block(half, block), buffer.bytes_mut()).ok()?;
        JournalBlock::parse(self.journal_key(), buffer.as_ref())
    }

    fn load_newest_image(&self, heads: &[Option<SegmentHead>], root: &Root) {
        let parts = (0_u32..).zip(heads).filter_map(|(slot, head)| Some((slot, (*head)?)));
        let of_image = parts.filter(|(_, head)| head.class == Class::Image && head.image.1 == root.image);
        let mut parts: Vec<_> = of_image.map(|(slot, head)| (head.image.0, slot, head.id)).collect();
        parts.sort_unstable();
        let is_whole = parts.iter().enumerate().all(|(place, part)| place == part.0 as usize);
        if root.image == 0 || parts.is_empty() || !is_whole {
            return;
        }
        let segments: Vec<_> = parts.iter().map(|&(_, slot, id)| (slot, id)).collect();
        let overrides = self.load_image(&segments, |entry, id| {
            let slot = entry.location.slot;
            let is_there = id != 0 && self.table.id(slot) == id && id < self.first_id;
            if is_there {
                self.link_entry(entry);
            }
            is_there
        });
        match overrides {
            Some(overrides) => overrides.into_iter().for_each(|(hash, expires_at)| {
                self.touched.set(hash, expires_at);
            }),
            None => tracing::warn!("the image of the flash index is damaged; what it held in part is lost"),
        }
    }

    /// Merges all events in order and applies them. The segments that have no footer yet.
    fn replay(
        &self,
        sources: Vec<Source>,
        journal: Vec<JournalEntry>,
        root: &Root,
    ) -> Vec<(u32, u64, Vec<Row>)> {
        // Without an image, and if values never change, every footer counts.
        let from =
            if self.options.journaling == Journaling::Off && self.index.len() == 0 { 0 } else { root.image };
        let mut scanned = Vec::new();
        let mut waiting: VecDeque<Source> = sources.into();
        let mut streams = vec![Stream { place: None, rows: VecDeque::new(), entries: journal.into() }];
        let mut heap = BinaryHeap::new();
        heap.extend(streams[0].next_sequence().map(|next| Reverse((next, 0))));
        loop {
            let next = heap.peek().map_or(u64::MAX, |Reverse((next, _))| *next);
            if let Some(source) = waiting.front().filter(|source| source.id <= next) {
                let is_needed = source.last_sequence >= from;
                let (slot, id) = (source.slot, source.id);
                let rows = match waiting.pop_front().map(|source| source.rows) {
                    Some(Rows::Scanned(rows)) => {
                        scanned.push((slot, id, rows.clone()));
                        rows
                    }
                    Some(Rows::OnDevice) if is_needed => {
                        self.read_rows(slot, id).map(|(_, rows)| rows).unwrap_or_default()
                    }
                    _ => Vec::new(),
                };
                let stream = Stream { place: Some((slot, id)), rows: rows.into(), entries: VecDeque::new() };
                heap.extend(stream.next_sequence().map(|next| Reverse((next, streams.len()))));
                streams.push(stream);
                continue;
            }
            let Some(Reverse((sequence, number))) = heap.pop() else { break };
            if self.lock_removed().overflowed {
                break;
            }
            let stream = &mut streams[number];
            if let Some((slot, id)) = stream.place {
                if let Some(row) = stream.rows.pop_front().filter(|_| sequence >= from) {
                    self.replay_row(slot, id, &row);
                }
            } else if let Some(entry) = stream.entries.pop_front() {
                self.replay_entry(&entry);
            }
            heap.extend(stream.next_sequence().map(|next| Reverse((next, number))));
        }
        scanned
    }

    fn replay_row(&self, slot: u32, id: u64, row: &Row) {
        let now = self.now();
        if is_expired(row.expires_at, now) || self.table.id(slot) != id {
            return;
        }
        let location = Location {
            slot,
            offset: row.offset,
            units: Location::rounded(row.units),
            expiry: Coarse::new(row.expires_at, now),
            is_large: row.kind == Kind::Head,
        };
        // Held over the insertion, so that a removal is either seen here or finds the entry there.
        let removed = self.lock_removed();
        let is_void = id + u64::from(row.sequence) < self.flushed_below.load(Ordering::Acquire);
        if is_void || removed.hashes.contains(&row.hash) {
            return;
        }
        let is_older = |old: Option<&Entry>| old.is_none_or(|old| self.is_of_earlier_run(old));
        let inserted = self.index.insert_if(row.hash, Entry::new(location), is_older);
        drop(removed);
        if let Some(inserted) = inserted {
            self.link_entry(&Entry::new(location));
            inserted.replaced.iter().chain(&inserted.dropped).for_each(|entry| self.unlink(entry));
            if inserted.dropped.is_some() {
                self.has_unindexed.store(true, Ordering::Release);
            }
            self.touched.forget(row.hash);
        }
    }

    fn replay_entry(&self, entry: &JournalEntry) {
        let old = self.index.find(entry.hash, false).filter(|old| self.is_of_earlier_run(old));
        match entry.kind {
            JournalKind::Forgotten => {
                let place = old.map(|old| old.location);
                let removed = place.and_then(|at| self.index.remove_at(entry.hash, at.slot, at.offset));
                if let Some(removed) = removed {
                    self.unlink(&removed);
                    self.touched.forget(entry.hash);
                }
            }
            JournalKind::Touched { expires_at } => {
                if old.is_some() && self.touched.set(entry.hash, expires_at) {
                    self.index.set_expiry(entry.hash, Coarse::new(expires_at, self.now()));
                }
            }
            JournalKind::Flushed => {
                self.index.retain(|entry| {
                    let keep = !self.is_of_earlier_run(entry);
                    if !keep {
                        self.unlink(entry);
                    }
                    keep
                });
            }
        }
    }

    /// Whether the record that an entry names was written before this run.
    pub fn is_of_earlier_run(&self, entry: &Entry) -> bool {
        self.table.id(entry.location.slot) < self.first_id
    }

    /// A segment that was open when the run ended gets its footer now, if there is room for it.
    fn write_footer(&self, slot: u32, id: u64, rows: &[Row]) {
        let trailer = Self::trailer_of(id, rows);
        let bytes = trailer.encode(rows);
        let used = rows.last().map_or(BLOCK, |row| u64::from(row.offset + row.units) * UNIT);
        if used + bytes.len() as u64 > self.layout.segment_bytes || self.table.id(slot) != id {
            return;
        }
        let place = self.layout.slot_start(slot) + self.layout.segment_bytes - bytes.len() as u64;
        if let Err(error) = self.write(place, &bytes) {
            self.write_failed("footer", &error);
        }
    }
}

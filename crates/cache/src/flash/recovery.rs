//! Recovery: finds the records of an earlier run, while the cache already serves.
//!
//! It loads the image of the index, then replays all events since the image was begun in the order of
//! their sequence numbers: records of segments and entries of the journal (see `replay`).
//!
//! Invariants: a change by this run is newer than anything recovered. A key whose last event is a
//! removal is not recovered. Invalid data is left out and never guessed. Data that cannot be read now
//! may be readable after another crash: until an image covers everything, every change of a key is
//! journalled. Without the complete journal everything is discarded, because removals may be missing.

use std::sync::atomic::{AtomicU32, Ordering};

use super::disk::Disk;
use super::format::{
    Class, JournalBlock, JournalEntry, Root, Row, SegmentHead, TenantUnits, Trailer, UNIT, tenants_of,
};
use super::journal::{Journal, Place};
use super::keyspace::Keyspace;
use super::replay::{Replay, Rows, Source};
use super::roots::Roots;
use super::scan::trailer_of;
use super::segments::{Segment, SegmentState};
use super::space::Space;
use crate::device::BLOCK;

/// Blocks of the journal in one read.
const JOURNAL_BLOCKS_PER_READ: u32 = 64;

/// Attempts of a read.
const TRIES: u32 = 3;

/// The parts that recovery works on.
pub(super) struct Recovery<'a> {
    pub disk: &'a Disk,
    pub space: &'a Space,
    pub journal: &'a Journal,
    pub keys: &'a Keyspace,
    pub roots: &'a Roots,
    /// Number of segments of the earlier run that could not be read.
    pub unread: AtomicU32,
}

impl Recovery<'_> {
    /// Recovers the records of the run that left `root`, or frees every slot if that is not wanted.
    pub fn recover(&self, root: &Root) {
        let heads = self.read_heads();
        let sources = self.adopt(&heads, root);
        if let Some(journal) = self.read_journal(root) {
            self.load_newest_image(&heads, root);
            let Self { disk, space, keys, unread, .. } = self;
            let scanned = Replay { disk, space, keys, unread }.replay(sources, journal, root);
            for (slot, id, rows) in scanned {
                self.write_footer(slot, id, &rows);
            }
        } else {
            tracing::warn!(
                "the journal of flash cannot be read: the content of the previous run is discarded"
            );
            self.keys.mark_incomplete();
            // The journal is restarted with the next root; until then the next start needs it.
            self.roots.begin_journal_anew();
        }
        self.end_recovery();
        let (records, unread) = (self.keys.index.len(), self.unread.load(Ordering::Relaxed));
        self.disk.counters.records_recovered.add(records);
        if unread > 0 {
            tracing::warn!(
                records,
                segments = unread,
                "segments of flash cannot be read: their records are lost"
            );
        }
        tracing::info!(records, "recovered records of an earlier run from flash");
    }

    fn end_recovery(&self) {
        // A thread that removes an entry notes it before it unlocks the key.
        let _no_key_is_changing = self.keys.lock_all_keys();
        let is_given_up = std::mem::take(&mut *self.keys.earlier.lock_removed()).is_given_up;
        if is_given_up {
            tracing::warn!(
                "values were lost while flash was recovered: all records of the earlier run are discarded"
            );
            self.keys.clear_earlier_run();
            self.keys.mark_incomplete();
        }
        self.keys.earlier.end();
    }

    fn read_heads(&self) -> Vec<Option<SegmentHead>> {
        let mut block = vec![0; BLOCK as usize];
        let slots = 0..self.disk.layout.segments;
        let read = slots.map(|slot| {
            self.read_of_segment(self.disk.layout.slot_start(slot), &mut block)?;
            SegmentHead::parse(&block, &self.disk.device_id)
        });
        read.collect()
    }

    /// Reads with several attempts. `None` if all fail.
    fn read_surely(&self, offset: u64, into: &mut [u8]) -> Option<()> {
        let is_read = (0..TRIES).any(|_| self.disk.device.read_at(offset, into).is_ok());
        if !is_read {
            self.keys.note_unindexed();
        }
        is_read.then_some(())
    }

    /// As [`Self::read_surely`], for a segment whose records are lost if it cannot be read.
    fn read_of_segment(&self, offset: u64, into: &mut [u8]) -> Option<()> {
        let is_read = self.read_surely(offset, into);
        self.unread.fetch_add(u32::from(is_read.is_none()), Ordering::Relaxed);
        is_read
    }

    /// Enters the segments found into the table and frees all other slots.
    fn adopt(&self, heads: &[Option<SegmentHead>], root: &Root) -> Vec<Source> {
        let mut sources = Vec::new();
        for slot in 0..self.disk.layout.segments {
            let head = heads.get(slot as usize).copied().flatten();
            let head = head.filter(|head| head.class != Class::Image || head.image.1 == root.image);
            let head = head.filter(|head| head.id < self.keys.earlier.first_id);
            let Some((head, (trailer, tenants, rows))) =
                head.and_then(|head| Some((head, self.rows_in(slot, &head)?)))
            else {
                self.space.release(slot, SegmentState::Free);
                continue;
            };
            let is_image = head.class == Class::Image;
            let state = if is_image { SegmentState::Image } else { SegmentState::Sealed };
            let segment = Segment {
                slot,
                state,
                class: head.class,
                unproven: false,
                id: head.id,
                placed: head.id,
                placed_at: 0,
                opened_at: head.opened_at,
                latest_expiry: trailer.latest_expiry,
                record_bytes: trailer.record_bytes,
                live_bytes: 0,
                used_bytes: 0,
                errors: 0,
            };
            self.space.table.adopt(segment, self.disk.layout.segment_bytes);
            self.space.occupy_again(slot, tenants);
            if !is_image {
                let last_sequence = trailer.last_sequence;
                sources.push(Source { slot, id: head.id, last_sequence, rows });
            }
        }
        sources.sort_by_key(|source| source.id);
        sources
    }

    /// The records of a segment; `None` if it cannot be read.
    fn rows_in(&self, slot: u32, head: &SegmentHead) -> Option<(Trailer, TenantUnits, Rows)> {
        if head.class == Class::Image {
            return Some((trailer_of(head.id, &[]), TenantUnits::default(), Rows::OnDevice));
        }
        let mut block = vec![0; BLOCK as usize];
        let end = self.disk.layout.slot_start(slot) + self.disk.layout.segment_bytes;
        self.read_of_segment(end - BLOCK, &mut block)?;
        if let Some((trailer, _)) = Trailer::parse(&block, head.id) {
            return Some((trailer, trailer.tenants(&block), Rows::OnDevice));
        }
        let Some((rows, _)) = (0..TRIES).find_map(|_| self.disk.scan(slot, head.id)) else {
            self.keys.note_unindexed();
            self.unread.fetch_add(1, Ordering::Relaxed);
            return None;
        };
        Some((trailer_of(head.id, &rows), tenants_of(&rows), Rows::Scanned(rows)))
    }

    /// Reads all entries since the image, in order; `None` if some cannot be read. The journal continues
    /// after the newest of them.
    fn read_journal(&self, root: &Root) -> Option<Vec<JournalEntry>> {
        let mut entries: Vec<JournalEntry> = Vec::new();
        let mut newest = Place { half: root.journal_half, epoch: self.keys.earlier.first_id, block: 0 };
        let (mut latest, mut halves) = (0, 0);
        for half in [0, 1] {
            let before = entries.len();
            let (mut end, mut last) = (0, 0);
            for (block, epoch, counting) in self.journal_blocks(half, root.image)? {
                entries.extend(counting);
                (end, last) = (block + 1, last.max(epoch));
            }
            let latest_here = entries[before..].iter().map(|entry| entry.sequence).max();
            halves += u32::from(latest_here.is_some());
            if latest_here.is_some_and(|sequence| sequence >= latest) {
                latest = latest_here.unwrap_or_default();
                newest = Place { half, epoch: last, block: end };
            }
        }
        // Two blocks may hold copies of the same entry.
        entries.sort_unstable_by_key(|entry| entry.sequence);
        self.journal.resume(newest, halves < 2);
        Some(entries)
    }

    /// Reads the entries of a half since sequence number `from`, by block, with the epoch of each block.
    /// A block that was torn by the end of a run is skipped.
    fn journal_blocks(&self, half: u8, from: u64) -> Option<Vec<(u32, u64, Vec<JournalEntry>)>> {
        let count = self.disk.layout.journal_blocks;
        let mut found = Vec::new();
        let mut bytes = vec![0; count.min(JOURNAL_BLOCKS_PER_READ) as usize * BLOCK as usize];
        for first in (0..count).step_by(JOURNAL_BLOCKS_PER_READ as usize) {
            let length = (count - first).min(JOURNAL_BLOCKS_PER_READ) as usize * BLOCK as usize;
            self.read_surely(self.disk.layout.journal_block(half, first), &mut bytes[..length])?;
            for (number, block) in (first..).zip(bytes[..length].chunks_exact(BLOCK as usize)) {
                let Some(mut block) = JournalBlock::parse(self.disk.journal_key(), block) else { continue };
                block.entries.retain(|entry| entry.sequence >= from);
                if !block.entries.is_empty() {
                    found.push((number, block.epoch, block.entries));
                }
            }
        }
        Some(found)
    }

    fn load_newest_image(&self, heads: &[Option<SegmentHead>], root: &Root) {
        let parts = (0_u32..).zip(heads).filter_map(|(slot, head)| Some((slot, (*head)?)));
        let of_image = parts.filter(|(_, head)| head.class == Class::Image && head.image.1 == root.image);
        let mut parts: Vec<_> = of_image.map(|(slot, head)| (head.image.0, slot, head.id)).collect();
        parts.sort_unstable();
        let is_whole = parts.iter().enumerate().all(|(place, part)| place == part.0 as usize);
        if root.image == 0 || parts.is_empty() || !is_whole {
            if root.image != 0 {
                self.keys.note_unindexed();
                tracing::warn!("segments of the image of the flash index are missing; its records are lost");
            }
            return;
        }
        let segments: Vec<_> = parts.iter().map(|&(_, slot, id)| (slot, id)).collect();
        let overrides = self.load_image(&segments);
        self.take_back_what_was_removed(root);
        match overrides {
            Some(overrides) => overrides.into_iter().for_each(|(hash, expires_at)| {
                let _key = self.keys.lock_key(hash);
                if self.keys.find_of_earlier_run(hash).is_some() {
                    self.keys.touched.set_older(hash, expires_at);
                }
            }),
            None => {
                // It may be readable another time.
                self.keys.note_unindexed();
                tracing::warn!("the image of the flash index is damaged; some of its records are lost");
            }
        }
    }

    /// Removes entries of keys that were removed before the entry was loaded. Later removals find the entry.
    fn take_back_what_was_removed(&self, root: &Root) {
        if self.keys.flushed_below() > root.image {
            self.keys.clear_earlier_run();
            return;
        }
        let removed: Vec<u64> = self.keys.earlier.lock_removed().hashes.iter().copied().collect();
        for hash in removed {
            let _key = self.keys.lock_key(hash);
            self.keys.remove_of_earlier_run(hash);
        }
    }

    /// Writes the footer of a segment that was open when the run ended, if it has room for one.
    fn write_footer(&self, slot: u32, id: u64, rows: &[Row]) {
        let trailer = trailer_of(id, rows);
        let bytes = trailer.encode(rows);
        let used = rows.last().map_or(BLOCK, |row| u64::from(row.offset + row.units) * UNIT);
        if used + bytes.len() as u64 > self.disk.layout.segment_bytes || self.space.table.id(slot) != id {
            return;
        }
        let place = self.disk.layout.slot_start(slot) + self.disk.layout.segment_bytes - bytes.len() as u64;
        if let Err(error) = self.disk.write(place, &bytes) {
            self.disk.write_failed("footer", &error);
        }
    }
}

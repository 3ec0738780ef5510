//! Images of the index: written into segments of their own, so that a start need not read every footer.
//!
//! An image may be taken while everything goes on: it holds each shard as it was at some moment
//! after the image was begun, and recovery replays all events from its beginning on, which gives
//! the same end for every key.
//!
//! Invariants: the root names an image only when all of it is on the device; the segments of the
//! last image are freed only after that.

use std::io;
use std::sync::atomic::Ordering;

use super::core::Core;
use super::format::{Class, SegmentHead, checksum_with, put, u32_at, u64_at};
use super::index::{BUCKET_BYTES, SHARDS, ShardImage};
use super::segments::SegmentState;
use crate::device::{AlignedBuffer, BLOCK};

const MAGIC: &[u8; 8] = b"SNDIMAGE";
const END: &[u8; 8] = b"SNDIMEND";
const BLOCK_HEADER: usize = 8;
const BLOCK_ROOM: usize = BLOCK as usize - BLOCK_HEADER;

/// Bytes before the entries of a shard.
const SHARD_HEADER: u64 = 16;

/// Bytes in the blocks of an image of so many slots, changed expiries and bytes of the index.
pub(super) fn stream_bytes(slots: usize, overrides: usize, index_bytes: u64) -> u64 {
    let tables = MAGIC.len() + END.len() + 2 * 4 + 8 * slots + 12 * overrides;
    let stream = tables as u64 + SHARD_HEADER * SHARDS as u64 + index_bytes;
    stream.div_ceil(BLOCK_ROOM as u64) * BLOCK
}

/// Writes a stream into image segments.
struct ImageWriter<'a> {
    core: &'a Core,
    sequence: u64,
    slots: Vec<u32>,
    id: u64,
    /// Where in the segment the buffer goes.
    start: u64,
    buffer: AlignedBuffer,
    block: Vec<u8>,
    blocks: usize,
}

impl Core {
    /// Writes an image if one is due.
    pub fn image_if_due(&self) {
        if self.image_way() >= 100 && self.watch.may_write() && !self.recovering.load(Ordering::Acquire) {
            let is_written = self.write_image(false);
            // What waits for a place in the journal is not kept by it, for who knows how long.
            let is_full = self.journal.fill_percent(self.layout.journal_blocks) >= 100;
            if !is_written && is_full && self.journal.has_waiting() {
                self.journal.distrust();
            }
        }
    }

    /// Writes an image and the root that names it. Whether all went well.
    pub fn write_image(&self, clean: bool) -> bool {
        if !self.has_room_for_image() {
            return false;
        }
        let sequence = self.begin_image();
        let written = self.records_for_images();
        let slots = match self.write_stream(sequence) {
            Ok(slots) => slots,
            Err((mut slots, error)) => {
                if let Some(error) = error {
                    self.write_failed("image", &error);
                    // The next image shall not begin where this one ended.
                    slots.pop().into_iter().for_each(|slot| self.retire_empty(slot));
                }
                slots.into_iter().for_each(|slot| self.release(slot, SegmentState::Free));
                return false;
            }
        };
        slots.iter().for_each(|&slot| self.retired.is_sound(slot));
        let before = self.image.swap(sequence, Ordering::Relaxed);
        let had_lost = self.journal.cover_lost();
        if let Err(error) = self.write_root(clean) {
            // Either root may be the newest now, so neither image may go before another root is written.
            self.image.store(before, Ordering::Relaxed);
            self.journal.uncover_lost(had_lost);
            self.lock_doubtful_image().extend(slots);
            self.journal.want_root();
            self.write_failed("root", &error);
            return false;
        }
        self.journal.end_image();
        self.is_imaged(sequence);
        for segment in self.table.all() {
            if segment.state == SegmentState::Image && !slots.contains(&segment.slot) {
                self.release(segment.slot, SegmentState::Free);
            }
        }
        self.records_at_image.store(written, Ordering::Relaxed);
        self.records_in_image.store(self.index.len(), Ordering::Relaxed);
        self.counters.images_written.add(1);
        true
    }

    /// The number from which on events are replayed over the image. Whoever changes a key takes a later
    /// one, or is done with the index: what is copied of a shard from now on misses nothing but later events.
    fn begin_image(&self) -> u64 {
        let commits = self.journal.pause_commits();
        let _no_key_is_changing = self.lock_all_keys();
        let sequence = self.next_sequence();
        self.journal.begin_image(sequence, &commits);
        sequence
    }

    /// The slots of the image; without an error when there was no room for it.
    fn write_stream(&self, sequence: u64) -> Result<Vec<u32>, (Vec<u32>, Option<io::Error>)> {
        let buffer = self.image_pool.take(self.layout.piece_bytes()).ok_or((Vec::new(), None))?;
        let mut writer = ImageWriter {
            core: self,
            sequence,
            slots: Vec::new(),
            id: 0,
            start: self.layout.segment_bytes,
            buffer,
            block: Vec::with_capacity(BLOCK_ROOM),
            blocks: 0,
        };
        match writer.write_all().and_then(|()| Ok(self.sync()?)) {
            Ok(()) => Ok(writer.slots),
            Err(NoImage::NoRoom) => Err((writer.slots, None)),
            Err(NoImage::Failed(error)) => Err((writer.slots, Some(error))),
        }
    }

    /// Loads an image of an earlier run from its segments, which are given in order, and links what lies in
    /// segments that are still there. The changed expiries, or nothing if a part of it was not sound.
    pub fn load_image(&self, segments: &[(u32, u64)]) -> Option<Vec<(u64, u32)>> {
        let mut reader = ImageReader { core: self, segments, at: 0, room: Vec::new(), used: 0 };
        if reader.take(8)? != MAGIC {
            return None;
        }
        let count = reader.u32()? as usize;
        if count != self.table.len() {
            return None;
        }
        let ids = reader.take(8 * count)?;
        let overrides = reader.u32()? as usize;
        let overrides = reader.take(12 * overrides)?;
        let overrides = overrides.chunks_exact(12).map(|o| (u64_at(o, 0), u32_at(o, 8))).collect();
        for number in 0..SHARDS {
            let (level, split, entries) = (reader.u32()?, reader.u32()?, reader.u32()?);
            let buckets = reader.u32()? as usize;
            if buckets as u64 * BUCKET_BYTES > self.options.index_bytes_max.saturating_mul(2) {
                return None;
            }
            let words = reader.take(buckets * BUCKET_BYTES as usize)?;
            let words = words.chunks_exact(4).map(|word| u32_at(word, 0)).collect();
            self.load_shard(number, &ShardImage { level, split, entries, words }, &ids);
        }
        (reader.take(8)? == END).then_some(overrides)
    }

    fn load_shard(&self, number: usize, image: &ShardImage, ids: &[u8]) {
        let displaced = self.index.load(number, image, |entry| {
            let slot = entry.location.slot;
            let id =
                ids.get(8 * slot as usize..).filter(|ids| ids.len() >= 8).map_or(0, |ids| u64_at(ids, 0));
            let is_there = id != 0 && self.table.id(slot) == id && id < self.first_id;
            if is_there {
                self.link_entry(entry);
            }
            is_there
        });
        let is_unindexed = displaced.as_ref().is_none_or(|all| all.iter().any(|one| one.dropped.is_some()));
        if is_unindexed {
            self.note_unindexed();
        }
        for entry in displaced.iter().flatten().flat_map(|one| one.replaced.iter().chain(&one.dropped)) {
            self.unlink(entry);
            if !self.is_of_earlier_run(entry) {
                self.lost_while_recovering();
            }
        }
    }
}

enum NoImage {
    NoRoom,
    Failed(io::Error),
}

impl From<io::Error> for NoImage {
    fn from(error: io::Error) -> Self {
        NoImage::Failed(error)
    }
}

impl ImageWriter<'_> {
    fn write_all(&mut self) -> Result<(), NoImage> {
        self.put(MAGIC)?;
        let segments = self.core.table.all();
        self.put(&(segments.len() as u32).to_le_bytes())?;
        for segment in segments {
            let is_of_records = segment.state != SegmentState::Image;
            self.put(&(if is_of_records { segment.id } else { 0 }).to_le_bytes())?;
        }
        let overrides = self.core.touched.all();
        self.put(&(overrides.len() as u32).to_le_bytes())?;
        for (hash, expires_at) in overrides {
            self.put(&hash.to_le_bytes())?;
            self.put(&expires_at.to_le_bytes())?;
        }
        for number in 0..SHARDS {
            let image = self.core.index.image_of(number);
            let buckets = image.words.len() as u64 * 4 / BUCKET_BYTES;
            for field in [image.level, image.split, image.entries, buckets as u32] {
                self.put(&field.to_le_bytes())?;
            }
            for word in &image.words {
                self.put(&word.to_le_bytes())?;
            }
        }
        self.put(END)?;
        self.end_block()?;
        self.write_buffer()
    }

    fn put(&mut self, mut bytes: &[u8]) -> Result<(), NoImage> {
        while !bytes.is_empty() {
            let count = bytes.len().min(BLOCK_ROOM - self.block.len());
            self.block.extend_from_slice(&bytes[..count]);
            bytes = &bytes[count..];
            if self.block.len() == BLOCK_ROOM {
                self.end_block()?;
            }
        }
        Ok(())
    }

    fn end_block(&mut self) -> Result<(), NoImage> {
        if self.block.is_empty() {
            return Ok(());
        }
        let end = self.start + (self.blocks as u64 + 1) * BLOCK;
        if end > self.core.layout.segment_bytes {
            self.write_buffer()?;
            self.open_segment()?;
        }
        let at = self.blocks * BLOCK as usize;
        let into = &mut self.buffer.bytes_mut()[at..at + BLOCK as usize];
        put(into, 4, &(self.block.len() as u32).to_le_bytes());
        put(into, BLOCK_HEADER, &self.block);
        into[BLOCK_HEADER + self.block.len()..].fill(0);
        let place = self.start + self.blocks as u64 * BLOCK;
        let sum = checksum_with(self.id, &[&place.to_le_bytes(), &into[4..]]);
        put(into, 0, &sum.to_le_bytes());
        self.block.clear();
        self.blocks += 1;
        if (self.blocks + 1) * BLOCK as usize > self.buffer.len() {
            self.write_buffer()?;
        }
        Ok(())
    }

    fn open_segment(&mut self) -> Result<(), NoImage> {
        let core = self.core;
        self.id = core.next_sequence();
        let slot = core.table.open(Class::Image, self.id, core.now()).ok_or(NoImage::NoRoom)?;
        let part = self.slots.len() as u32;
        self.slots.push(slot);
        let image = (part, self.sequence);
        let (class, id, opened_at) = (Class::Image, self.id, core.now());
        let head = SegmentHead { class, device: core.device_id, id, opened_at, image };
        core.write(core.layout.slot_start(slot), &head.encode())?;
        self.start = BLOCK;
        Ok(())
    }

    fn write_buffer(&mut self) -> Result<(), NoImage> {
        if let Some(&slot) = self.slots.last().filter(|_| self.blocks > 0) {
            let bytes = self.blocks * BLOCK as usize;
            let place = self.core.layout.slot_start(slot) + self.start;
            self.core.write(place, &self.buffer.as_ref()[..bytes])?;
            self.start += bytes as u64;
            self.blocks = 0;
        }
        Ok(())
    }
}

/// Reads a stream from image segments.
struct ImageReader<'a> {
    core: &'a Core,
    segments: &'a [(u32, u64)],
    /// Position in the present segment, 0 before its superblock.
    at: u64,
    /// Checked bytes of the stream that were not taken yet.
    room: Vec<u8>,
    used: usize,
}

impl ImageReader<'_> {
    fn u32(&mut self) -> Option<u32> {
        self.take(4).map(|bytes| u32_at(&bytes, 0))
    }

    fn take(&mut self, count: usize) -> Option<Vec<u8>> {
        while self.room.len() - self.used < count {
            self.room.drain(..self.used);
            self.used = 0;
            self.read_more()?;
        }
        self.used += count;
        Some(self.room[self.used - count..self.used].to_vec())
    }

    fn read_more(&mut self) -> Option<()> {
        let layout = &self.core.layout;
        if self.at >= layout.segment_bytes {
            self.segments = self.segments.split_first()?.1;
            self.at = 0;
        }
        let &(slot, id) = self.segments.first()?;
        self.at = self.at.max(BLOCK);
        let bytes = (layout.segment_bytes - self.at).min(layout.piece_bytes() as u64);
        let mut buffer = self.core.read_pool.take(bytes as usize)?;
        self.core.device.read_at(layout.slot_start(slot) + self.at, buffer.bytes_mut()).ok()?;
        for block in buffer.as_ref().chunks_exact(BLOCK as usize) {
            let length = u32_at(block, 4) as usize;
            let sum = checksum_with(id, &[&self.at.to_le_bytes(), &block[4..]]);
            if length > BLOCK_ROOM || sum != u32_at(block, 0) {
                // The end of the stream, or damage: what follows would not continue it.
                self.segments = &[];
                self.at = layout.segment_bytes;
                break;
            }
            self.room.extend_from_slice(&block[BLOCK_HEADER..BLOCK_HEADER + length]);
            self.at += BLOCK;
        }
        Some(())
    }
}

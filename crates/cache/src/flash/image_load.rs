//! Loading an image of the index that an earlier run wrote.
//!
//! Invariant: data that its checksum does not confirm is not loaded, and an entry is used only if its
//! segment is still there.

use super::disk::Disk;
use super::format::{checksum_with, u32_at, u64_at};
use super::image::{BLOCK_HEADER, BLOCK_ROOM, END, MAGIC};
use super::index::{BUCKET_BYTES, SHARDS, ShardImage};
use super::recovery::Recovery;
use crate::device::BLOCK;

impl Recovery<'_> {
    /// Loads an image of an earlier run from its segments, which are given in order, and links the
    /// entries whose segments are still there. Returns the changed expiries, or `None` if a part of the
    /// image was invalid.
    pub fn load_image(&self, segments: &[(u32, u64)]) -> Option<Vec<(u64, u32)>> {
        let mut reader = ImageReader { disk: self.disk, segments, at: 0, room: Vec::new(), used: 0 };
        if reader.take(8)? != MAGIC {
            return None;
        }
        let count = reader.u32()? as usize;
        if count != self.space.table.len() {
            return None;
        }
        let ids = reader.take(8 * count)?;
        let overrides = reader.u32()? as usize;
        let overrides = reader.take(12 * overrides)?;
        let overrides = overrides.chunks_exact(12).map(|o| (u64_at(o, 0), u32_at(o, 8))).collect();
        for number in 0..SHARDS {
            let (level, split, entries) = (reader.u32()?, reader.u32()?, reader.u32()?);
            let buckets = reader.u32()? as usize;
            if buckets as u64 * BUCKET_BYTES > self.disk.options.index_bytes_max.saturating_mul(2) {
                return None;
            }
            let words = reader.take(buckets * BUCKET_BYTES as usize)?;
            let words = words.chunks_exact(4).map(|word| u32_at(word, 0)).collect();
            self.load_shard(number, &ShardImage { level, split, entries, words }, &ids);
        }
        (reader.take(8)? == END).then_some(overrides)
    }

    fn load_shard(&self, number: usize, image: &ShardImage, ids: &[u8]) {
        let displaced = self.keys.index.load(number, image, |entry| {
            let slot = entry.location.slot;
            let id =
                ids.get(8 * slot as usize..).filter(|ids| ids.len() >= 8).map_or(0, |ids| u64_at(ids, 0));
            let is_there = id != 0 && self.space.table.id(slot) == id && id < self.keys.earlier.first_id;
            if is_there {
                self.keys.link_entry(entry);
            }
            is_there
        });
        let is_unindexed = displaced.as_ref().is_none_or(|all| all.iter().any(|one| one.dropped.is_some()));
        if is_unindexed {
            self.keys.note_unindexed();
        }
        for entry in displaced.iter().flatten().flat_map(|one| one.replaced.iter().chain(&one.dropped)) {
            self.keys.unlink(entry);
            if !self.keys.is_of_earlier_run(entry) {
                self.keys.earlier.lose();
            }
        }
    }
}

/// Reads a stream from image segments.
struct ImageReader<'a> {
    disk: &'a Disk,
    segments: &'a [(u32, u64)],
    /// Offset in the present segment, 0 before its superblock.
    at: u64,
    /// Verified bytes of the stream that were not taken yet.
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
        let layout = &self.disk.layout;
        if self.at >= layout.segment_bytes {
            self.segments = self.segments.split_first()?.1;
            self.at = 0;
        }
        let &(slot, id) = self.segments.first()?;
        self.at = self.at.max(BLOCK);
        let bytes = (layout.segment_bytes - self.at).min(layout.piece_bytes() as u64);
        let mut buffer = self.disk.read_pool.take(bytes as usize)?;
        self.disk.device.read_at(layout.slot_start(slot) + self.at, buffer.bytes_mut()).ok()?;
        for block in buffer.as_ref().chunks_exact(BLOCK as usize) {
            let length = u32_at(block, 4) as usize;
            let sum = checksum_with(id, &[&self.at.to_le_bytes(), &block[4..]]);
            if length > BLOCK_ROOM || sum != u32_at(block, 0) {
                // The end of the stream, or damage: later blocks would not continue the stream.
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

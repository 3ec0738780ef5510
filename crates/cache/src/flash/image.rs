//! Images of the index: copies in segments of their own, so that a start need not read every footer.
//!
//! An image may be taken while the cache serves. It holds each shard as of some moment after the image was
//! begun. Recovery replays all events since its beginning, which leads to the same state for every key.
//!
//! Invariants: the root names an image only when all of it is on the device. The segments of the
//! previous image are freed only after that.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::disk::Disk;
use super::format::{Class, SegmentHead, checksum_with, put};
use super::index::{BUCKET_BYTES, SHARDS};
use super::journal::Journal;
use super::keyspace::Keyspace;
use super::roots::Roots;
use super::segments::SegmentState;
use super::space::Space;
use crate::device::{AlignedBuffer, BLOCK, BufferPool};

pub(super) const MAGIC: &[u8; 8] = b"SNDIMAGE";
pub(super) const END: &[u8; 8] = b"SNDIMEND";
pub(super) const BLOCK_HEADER: usize = 8;
pub(super) const BLOCK_ROOM: usize = BLOCK as usize - BLOCK_HEADER;

/// Bytes before the buckets of a shard.
const SHARD_HEADER: u64 = 16;

/// Bytes of the blocks of an image with `slots` slots, `overrides` changed expiries and `index_bytes`
/// bytes of the index.
pub(super) fn stream_bytes(slots: usize, overrides: usize, index_bytes: u64) -> u64 {
    let tables = MAGIC.len() + END.len() + 2 * 4 + 8 * slots + 12 * overrides;
    let stream = tables as u64 + SHARD_HEADER * SHARDS as u64 + index_bytes;
    stream.div_ceil(BLOCK_ROOM as u64) * BLOCK
}

/// Writes a stream into image segments.
struct ImageWriter<'a> {
    images: &'a Images,
    sequence: u64,
    slots: Vec<u32>,
    id: u64,
    /// Offset of the buffer in the segment.
    start: u64,
    buffer: AlignedBuffer,
    block: Vec<u8>,
    blocks: usize,
}

/// The images of this run. `image_room` decides when one is due.
pub(super) struct Images {
    pub disk: Arc<Disk>,
    pub space: Arc<Space>,
    pub journal: Arc<Journal>,
    pub keys: Arc<Keyspace>,
    pub roots: Arc<Roots>,
    /// The only buffer of images, so that writing an image cannot take all buffers from the journal.
    pub image_pool: BufferPool,
    /// Number of records written when the last image was begun.
    pub records_at_image: AtomicU64,
    /// Number of records in the last image.
    pub records_in_image: AtomicU64,
}

impl Images {
    /// The state before the first image of this run.
    pub fn new(roots: Arc<Roots>) -> Self {
        let (disk, space) = (Arc::clone(&roots.disk), Arc::clone(&roots.space));
        Self {
            image_pool: BufferPool::new(disk.layout.piece_bytes() as u64 * 2, 0),
            disk,
            space,
            journal: Arc::clone(&roots.journal),
            keys: Arc::clone(&roots.keys),
            roots,
            records_at_image: AtomicU64::new(0),
            records_in_image: AtomicU64::new(0),
        }
    }

    /// Writes an image if one is due.
    pub fn image_if_due(&self) {
        if self.image_way() >= 100 && self.disk.watch.may_write() && !self.keys.earlier.is_recovering() {
            let is_written = self.write_image(false);
            // Entries that wait for room in the journal could wait for an unbounded time.
            let is_full = self.journal.fill_percent() >= 100;
            if !is_written && is_full && self.journal.has_waiting() {
                self.journal.mark_incomplete();
            }
        }
    }

    /// Writes an image and the root that names it. Returns whether that succeeded.
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
                    self.disk.write_failed("image", &error);
                    // The next image must not begin at the slot where this one failed.
                    slots.pop().into_iter().for_each(|slot| self.space.retire_empty(slot));
                }
                slots.into_iter().for_each(|slot| self.space.release(slot, SegmentState::Free));
                return false;
            }
        };
        slots.iter().for_each(|&slot| self.space.retired.is_sound(slot));
        let before = self.roots.name_image(sequence);
        let had_lost = self.journal.cover_lost();
        if let Err(error) = self.roots.write_root(clean) {
            // Either root may be the newest now, so both images are kept until another root is written.
            self.roots.name_image(before);
            self.journal.uncover_lost(had_lost);
            self.roots.lock_doubtful_image().extend(slots);
            self.journal.want_root();
            self.disk.write_failed("root", &error);
            return false;
        }
        self.journal.end_image();
        self.keys.is_imaged(sequence);
        for segment in self.space.table.all() {
            if segment.state == SegmentState::Image && !slots.contains(&segment.slot) {
                self.space.release(segment.slot, SegmentState::Free);
            }
        }
        self.records_at_image.store(written, Ordering::Relaxed);
        self.records_in_image.store(self.keys.index.len(), Ordering::Relaxed);
        self.disk.counters.images_written.add(1);
        true
    }

    /// Begins an image and returns the number from which on events are replayed over it. A change of a
    /// key either takes a later number or is in the index already, so that copies of shards from now on
    /// lack only later events.
    fn begin_image(&self) -> u64 {
        let commits = self.journal.pause_commits();
        let _no_key_is_changing = self.keys.lock_all_keys();
        let sequence = self.keys.next_sequence();
        self.journal.begin_image(sequence, &commits);
        sequence
    }

    /// Returns the slots of the image. On failure the error is `None` if there was no room for it.
    fn write_stream(&self, sequence: u64) -> Result<Vec<u32>, (Vec<u32>, Option<io::Error>)> {
        let buffer = self.image_pool.take(self.disk.layout.piece_bytes()).ok_or((Vec::new(), None))?;
        let mut writer = ImageWriter {
            images: self,
            sequence,
            slots: Vec::new(),
            id: 0,
            start: self.disk.layout.segment_bytes,
            buffer,
            block: Vec::with_capacity(BLOCK_ROOM),
            blocks: 0,
        };
        match writer.write_all().and_then(|()| Ok(self.disk.sync()?)) {
            Ok(()) => Ok(writer.slots),
            Err(NoImage::NoRoom) => Err((writer.slots, None)),
            Err(NoImage::Failed(error)) => Err((writer.slots, Some(error))),
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
        let segments = self.images.space.table.all();
        self.put(&(segments.len() as u32).to_le_bytes())?;
        for segment in segments {
            let is_of_records = segment.state != SegmentState::Image;
            self.put(&(if is_of_records { segment.id } else { 0 }).to_le_bytes())?;
        }
        let overrides = self.images.keys.touched.all();
        self.put(&(overrides.len() as u32).to_le_bytes())?;
        for (hash, expires_at) in overrides {
            self.put(&hash.to_le_bytes())?;
            self.put(&expires_at.to_le_bytes())?;
        }
        for number in 0..SHARDS {
            let image = self.images.keys.index.image_of(number);
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
        if end > self.images.disk.layout.segment_bytes {
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
        let images = self.images;
        self.id = images.keys.next_sequence();
        let slot =
            images.space.table.open(Class::Image, self.id, images.disk.now()).ok_or(NoImage::NoRoom)?;
        let part = self.slots.len() as u32;
        self.slots.push(slot);
        let image = (part, self.sequence);
        let (class, id, opened_at) = (Class::Image, self.id, images.disk.now());
        let head = SegmentHead { class, device: images.disk.device_id, id, opened_at, image };
        images.disk.write(images.disk.layout.slot_start(slot), &head.encode())?;
        self.start = BLOCK;
        Ok(())
    }

    fn write_buffer(&mut self) -> Result<(), NoImage> {
        if let Some(&slot) = self.slots.last().filter(|_| self.blocks > 0) {
            let bytes = self.blocks * BLOCK as usize;
            let place = self.images.disk.layout.slot_start(slot) + self.start;
            self.images.disk.write(place, &self.buffer.as_ref()[..bytes])?;
            self.start += bytes as u64;
            self.blocks = 0;
        }
        Ok(())
    }
}

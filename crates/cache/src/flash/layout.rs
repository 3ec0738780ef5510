//! The layout of the device.
//!
//! Invariant: every part begins at a block, and segments begin at multiples of their size.

use super::format::RECORD_BYTES_MAX;
use super::index;
use super::options::FlashError;
use crate::device::BLOCK;

/// Smallest number of segments: an open one for each class, and some to reclaim.
const SEGMENTS_MIN: u64 = 12;

/// Largest number of segments: a slot number has 18 bits.
const SEGMENTS_MAX: u64 = 1 << 18;

const SEGMENT_BYTES_MIN: u64 = 64 << 10;
const SEGMENT_BYTES_MAX: u64 = 64 << 20;

/// Offset of the journal. Roots and probe are before it.
const JOURNAL_START: u64 = 64 << 10;

/// Offsets of the two roots.
pub(super) const ROOTS: [u64; 2] = [0, BLOCK];

/// Offset of the block that probes write and read.
pub(super) const PROBE: u64 = 2 * BLOCK;

/// The division of a device into journal and segments, with the initial size of the index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    /// Bytes of a segment.
    pub segment_bytes: u64,
    /// Number of segments.
    pub segments: u32,
    /// Blocks of each half of the journal.
    pub journal_blocks: u32,
    /// Rows of each shard of the index.
    pub shard_rows: u32,
}

impl Layout {
    /// The layout of a device of `device_bytes` bytes, with segments of the given size, or of one chosen
    /// by the size of the device.
    pub fn plan(device_bytes: u64, segment_bytes: Option<u64>) -> Result<Self, FlashError> {
        // About 256 segments allow sufficiently fine eviction; larger segments are written and erased
        // more efficiently.
        let fitting = (device_bytes / 256).max(1 << 20);
        let segment_bytes = segment_bytes.unwrap_or(1 << fitting.ilog2());
        let segment_bytes = segment_bytes.clamp(SEGMENT_BYTES_MIN, SEGMENT_BYTES_MAX) / BLOCK * BLOCK;
        // A hundredth of the device for both halves. At 16 bytes per entry a half fills more slowly than
        // an image of the index is written, and images stay a small part of all writes.
        let journal_blocks = (device_bytes / 200 / BLOCK).clamp(4, (64 << 20) / BLOCK) as u32;
        let plan = Self { segment_bytes, segments: 0, journal_blocks, shard_rows: 0 };
        let room = device_bytes.saturating_sub(plan.first_segment()) / segment_bytes;
        if room < SEGMENTS_MIN {
            let least = plan.first_segment() + SEGMENTS_MIN * segment_bytes;
            return Err(FlashError::TooSmall { bytes: device_bytes, least });
        }
        let shard_rows = index::initial_rows(device_bytes);
        Ok(Self { segments: room.min(SEGMENTS_MAX) as u32, shard_rows, ..plan })
    }

    /// Offset of the first segment.
    pub fn first_segment(&self) -> u64 {
        let journal = 2 * u64::from(self.journal_blocks) * BLOCK;
        (JOURNAL_START + journal).next_multiple_of(self.segment_bytes)
    }

    /// Offset of a slot.
    pub fn slot_start(&self, slot: u32) -> u64 {
        self.first_segment() + u64::from(slot) * self.segment_bytes
    }

    /// Number of slots before `offset`, at which the pool of kept records begins. At least the smallest
    /// number of segments remains before it.
    pub fn slots_before(&self, offset: u64) -> u32 {
        let whole = offset.saturating_sub(self.first_segment()).div_ceil(self.segment_bytes);
        whole.clamp(SEGMENTS_MIN, SEGMENTS_MAX).min(u64::from(self.segments)) as u32
    }

    /// Offset of a block in a half of the journal.
    pub fn journal_block(&self, half: u8, block: u32) -> u64 {
        let number = u64::from(half) * u64::from(self.journal_blocks) + u64::from(block);
        JOURNAL_START + number * BLOCK
    }

    /// Bytes of the longest record.
    pub fn record_bytes_max(&self) -> u64 {
        (self.segment_bytes / 4).min(RECORD_BYTES_MAX)
    }

    /// Bytes of a write buffer, and of a write: large enough for the device to be efficient, small
    /// enough that reads behind it in the device's queue do not wait long.
    pub fn piece_bytes(&self) -> usize {
        (self.segment_bytes / 4 / BLOCK * BLOCK).min(256 << 10) as usize
    }

    /// Bytes of all segments.
    pub fn capacity(&self) -> u64 {
        u64::from(self.segments) * self.segment_bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn layouts_fill_their_device_and_do_not_exceed_it() {
        for bytes in [20 << 20, 512 << 20, 3_u64 << 30, 375 << 30, 8 << 40, 20 << 40] {
            let layout = Layout::plan(bytes, None).unwrap();
            let end = layout.slot_start(layout.segments);
            assert!(end <= bytes && layout.journal_block(1, layout.journal_blocks) <= layout.slot_start(0));
            let is_full = bytes - end < layout.segment_bytes;
            assert!(is_full || u64::from(layout.segments) == SEGMENTS_MAX, "{bytes}: {layout:?}");
            assert!(layout.capacity() >= bytes / 100 * 85 || bytes > 16 << 40, "{bytes}: {layout:?}");
        }
        assert!(matches!(Layout::plan(1 << 20, None), Err(FlashError::TooSmall { .. })));
    }
}

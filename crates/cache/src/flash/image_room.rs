//! When an image of the index is due, and the free segments that it needs.
//!
//! An image of many short records needs a large part of the device, more than is kept free. It takes up
//! to 16 bytes for each record, and 12 more for a touched one, while a record occupies at least 88 bytes
//! (a unit and its row in the footer). That is at most a third of the device, so an image is always
//! possible. From half of the way to the next image on, segments are freed gradually, in each pool by
//! its size, so that the room is there when the image is due.
//!
//! Invariant: no image is begun that would find no room. It would fail again and again, and its writes
//! would be wasted.

use std::sync::atomic::Ordering;

use super::image::{Images, stream_bytes};
use super::segments::Pool;
use crate::device::BLOCK;

/// An image is due after this number of records since the last one, or after as many as that one holds.
const RECORDS_PER_IMAGE: u64 = 1 << 20;

/// An image is due when this percentage of a half of the journal is full. As soon as it is begun,
/// entries go to the other half, so the rest must only last until the keeper checks again.
const JOURNAL_FILL: u64 = 85;

/// Percentage of the way to the next image from which on room is made for it.
const MAKING_ROOM: usize = 50;

impl Images {
    /// Number of records written so far, by which images are scheduled.
    pub fn records_for_images(&self) -> u64 {
        self.disk.counters.records_written.get() + self.disk.counters.records_reinserted.get()
    }

    /// Progress towards the next image in percent. At 100 it is due.
    pub fn image_way(&self) -> usize {
        if self.journal.has_lost() {
            return 100;
        }
        let since = self.records_for_images() - self.records_at_image.load(Ordering::Relaxed);
        let records = self.records_in_image.load(Ordering::Relaxed).max(RECORDS_PER_IMAGE);
        let fill = u64::from(self.journal.fill_percent());
        (since * 100 / records).max(fill * 100 / JOURNAL_FILL).min(100) as usize
    }

    /// Number of segments that an image needs now.
    fn image_segments(&self) -> usize {
        let bytes =
            stream_bytes(self.space.table.len(), self.keys.touched.len(), self.keys.index.image_bytes());
        bytes.div_ceil(self.disk.layout.segment_bytes - BLOCK) as usize
    }

    /// Whether there is room for an image.
    pub fn has_room_for_image(&self) -> bool {
        self.space.table.free(Pool::General) + self.space.table.free(Pool::Protected) >= self.image_segments()
    }

    /// Number of segments of a pool that must be free by now for the next image, in addition to those
    /// that are always kept free.
    pub fn image_wants(&self, pool: Pool) -> usize {
        let way = self.image_way().saturating_sub(MAKING_ROOM);
        if way == 0 {
            return 0;
        }
        let share = (self.image_segments() * self.space.table.count(pool)).div_ceil(self.space.table.len());
        share * way / (100 - MAKING_ROOM)
    }
}

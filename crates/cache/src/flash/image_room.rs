//! When an image of the index is due, and the free segments that it needs.
//!
//! An image of many short records takes a large part of the device, more than is kept free: up to 16 bytes
//! for each record, and 12 for one that was touched, of the 88 that it takes at least (a unit and its row in
//! the footer). That is a third at most, so there always can be one. On the second half of the way to the
//! next one room is made for it little by little, in each pool by its size, so that it is there when the
//! image is due.
//!
//! Invariant: no image is begun that would find no room: what it had written until then would be for nothing,
//! again and again.

use std::sync::atomic::Ordering;

use super::image::{Images, stream_bytes};
use super::segments::Pool;
use crate::device::BLOCK;

/// An image is due when so many records were written since the last, or as many as that one holds.
const RECORDS_PER_IMAGE: u64 = 1 << 20;

/// An image is due when this part of a half of the journal is full, in percent. As soon as it is begun the
/// other half is written, so the rest need only last until the keeper looks again.
const JOURNAL_FILL: u64 = 85;

/// Room for an image is made from here on, in percent of the way to it.
const MAKING_ROOM: usize = 50;

impl Images {
    /// Records written so far, which images are counted by.
    pub fn records_for_images(&self) -> u64 {
        self.disk.counters.records_written.get() + self.disk.counters.records_reinserted.get()
    }

    /// How much of the way to the next image is gone, in percent: at 100 it is due.
    pub fn image_way(&self) -> usize {
        if self.journal.has_lost() {
            return 100;
        }
        let since = self.records_for_images() - self.records_at_image.load(Ordering::Relaxed);
        let records = self.records_in_image.load(Ordering::Relaxed).max(RECORDS_PER_IMAGE);
        let fill = u64::from(self.journal.fill_percent());
        (since * 100 / records).max(fill * 100 / JOURNAL_FILL).min(100) as usize
    }

    /// Segments that an image takes now.
    fn image_segments(&self) -> usize {
        let bytes =
            stream_bytes(self.space.table.len(), self.keys.touched.len(), self.keys.index.image_bytes());
        bytes.div_ceil(self.disk.layout.segment_bytes - BLOCK) as usize
    }

    /// Whether an image would find room.
    pub fn has_room_for_image(&self) -> bool {
        self.space.table.free(Pool::General) + self.space.table.free(Pool::Protected) >= self.image_segments()
    }

    /// Segments of a pool to be free by now for the next image, beside those that always are.
    pub fn image_wants(&self, pool: Pool) -> usize {
        let way = self.image_way().saturating_sub(MAKING_ROOM);
        if way == 0 {
            return 0;
        }
        let share = (self.image_segments() * self.space.table.count(pool)).div_ceil(self.space.table.len());
        share * way / (100 - MAKING_ROOM)
    }
}

//! Thresholds of compaction.

use std::time::Duration;

use sandur_format::catalog_entry::BlockMeta;

/// Thresholds of compaction.
#[derive(Clone, Debug)]
pub struct CompactionPolicy {
    /// Raw bytes from which on a block is not merged any more.
    pub block_raw_bytes_max: u64,
    /// An hour that is not over is merged when it has this many blocks.
    pub hour_blocks_max: usize,
    /// The least number of similar blocks of samples that are merged before their time is over, if the
    /// result is at least twice as large as each. Queries read the last hour most, and each block of it
    /// that has a series costs a read.
    pub alike_blocks_min: usize,
    /// The most blocks of one merge. Bounds the open footers.
    pub inputs_max: usize,
    /// A window is over this long after its end.
    pub window_grace: Duration,
    /// A window is quiet when its newest block is this old.
    pub quiet: Duration,
    /// Slots and days with fewer raw bytes in a flush share a block; 0 gives each its own block.
    pub thin_bytes: u64,
    /// Raw bytes from which a block of several days is cut into parts.
    pub long_raw_bytes_max: u64,
}

impl Default for CompactionPolicy {
    fn default() -> Self {
        Self {
            // 4 GiB raw is about 500 MiB stored: few objects, and a merge that ends within minutes.
            block_raw_bytes_max: 4 << 30,
            hour_blocks_max: 12,
            alike_blocks_min: 4,
            inputs_max: 32,
            window_grace: Duration::from_secs(15 * 60),
            quiet: Duration::from_secs(60),
            // Less than this is stored in a few hundred kilobytes, which is not worth separate requests.
            thin_bytes: 4 << 20,
            // A query of a day reads a page of each series that it names, and only one block of ten is long.
            long_raw_bytes_max: 64 << 20,
        }
    }
}

/// A day is large if it has more than this many times the bytes of a largest block.
const LARGE_DAY_BLOCKS: u64 = 16;

impl CompactionPolicy {
    /// Whether a day with these blocks is large, so that it is processed slot by slot.
    pub(crate) fn is_large<'a>(&self, day: impl Iterator<Item = &'a BlockMeta>) -> bool {
        day.map(|block| block.raw_bytes).fold(0u64, u64::saturating_add) > self.rolled_raw_bytes_max()
    }

    /// The most raw bytes of a block whose points became rollups.
    pub(crate) fn rolled_raw_bytes_max(&self) -> u64 {
        self.block_raw_bytes_max.saturating_mul(LARGE_DAY_BLOCKS)
    }
}

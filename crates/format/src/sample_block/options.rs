//! The properties of a block of samples, which its writer and its footer need.

use sandur_model::{TenantId, TimeRange};

use super::PAGE_ROWS_MAX;
use crate::block::BlockOrigin;

/// Samples of a run: they are decoded in two microseconds, and the overhead of a page is 1.5 % of them.
const RUN_ROWS: u32 = 720;

/// The properties of a block, and how it is written.
#[derive(Clone, Debug)]
pub struct BlockOptions {
    /// The owner of the samples.
    pub tenant: TenantId,
    /// The time window of the block, in nanoseconds since the epoch.
    pub window: TimeRange,
    /// Number of times that its samples were compacted.
    pub level: u8,
    /// zstd level of the footer.
    pub zstd_level: i32,
    /// Effort of the encoding of values, 0 to 12.
    pub value_level: usize,
    /// A page is closed when it holds this many samples; at most [`PAGE_ROWS_MAX`].
    pub page_rows: u32,
    /// Most samples of a run: a reader of some of them decodes no more.
    pub run_rows: u32,
    /// A group is closed when it holds this many samples.
    pub group_rows: u64,
    /// The origin of the block.
    pub origin: BlockOrigin,
    /// Whether samples have stamps. The block has version 8 then, otherwise version 7.
    pub stamped: bool,
}

impl BlockOptions {
    /// Returns the defaults: pages that are decoded in about ten microseconds, groups of about 150 KB.
    pub fn new(tenant: TenantId, window: TimeRange, level: u8) -> Self {
        let (zstd_level, value_level) = if level == 0 { (1, 6) } else { (3, 8) };
        let (page_rows, run_rows, group_rows) = (PAGE_ROWS_MAX, RUN_ROWS, 1 << 17);
        let (origin, stamped) = (BlockOrigin::default(), false);
        Self {
            tenant,
            window,
            level,
            zstd_level,
            value_level,
            page_rows,
            run_rows,
            group_rows,
            origin,
            stamped,
        }
    }
}

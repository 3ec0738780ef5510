//! The catalog entry of a block: made before the block is written, filled in afterwards.

use sandur_base::Id;
use sandur_format::block::BlockSummary;
use sandur_format::catalog_entry::BlockMeta;
use sandur_model::{Dataset, TimeRange};

/// The entry of a block without rows; enough to compute its path.
pub(crate) fn unwritten(id: Id, writer: Id, dataset: &Dataset, window: TimeRange, level: u8) -> BlockMeta {
    BlockMeta {
        id,
        writer,
        dataset: dataset.clone(),
        level,
        window,
        min_ts: 0,
        max_ts: 0,
        rows: 0,
        raw_bytes: 0,
        size: 0,
        streams: 0,
        pages: 0,
        footer_offset: 0,
        footer_len: 0,
        deletes_through: 0,
        place: 0,
    }
}

/// Fills in the content of the finished block.
pub(crate) fn fill(meta: &mut BlockMeta, summary: &BlockSummary) {
    meta.min_ts = summary.min_ts;
    meta.max_ts = summary.max_ts;
    meta.rows = summary.rows;
    meta.raw_bytes = summary.raw_bytes;
    meta.size = summary.size;
    meta.streams = summary.streams;
    meta.pages = summary.pages;
    meta.footer_offset = summary.footer_offset;
    meta.footer_len = summary.footer_len;
}

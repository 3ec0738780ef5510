//! The catalog entry of a block: its name first, what it holds when it is written, and whether a footer is
//! the one that it speaks of.

use sandur_base::Id;
use sandur_format::block::{BlockInfo, BlockSummary};
use sandur_format::catalog_entry::BlockMeta;
use sandur_model::{Dataset, TimeRange};

/// The entry of a block that has no rows yet; enough for its path.
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
    }
}

/// Fills in what the finished block holds.
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

/// What a footer says of its block.
pub(crate) struct Found<'a> {
    pub(crate) info: &'a BlockInfo,
    pub(crate) series: usize,
    pub(crate) pages: usize,
    pub(crate) object_bytes: u64,
    pub(crate) footer_offset: u64,
}

/// In what a footer differs from the entry of the block that it was read from: `None` when it is that
/// block's.
pub(crate) fn difference(meta: &BlockMeta, found: &Found<'_>) -> Option<String> {
    let info = found.info;
    if info.tenant != meta.dataset.tenant {
        return Some(format!("it holds another block, of tenant '{}'", info.tenant));
    }
    let pairs: [(&str, i128, i128); 11] = [
        ("a window that begins at", info.window.start.into(), meta.window.start.into()),
        ("a window that ends at", info.window.end.into(), meta.window.end.into()),
        ("a level of", info.level.into(), meta.level.into()),
        ("a first time of", info.min_ts.into(), meta.min_ts.into()),
        ("a last time of", info.max_ts.into(), meta.max_ts.into()),
        ("a number of rows of", info.rows.into(), meta.rows.into()),
        ("raw bytes of", info.raw_bytes.into(), meta.raw_bytes.into()),
        ("a number of series of", found.series as i128, meta.streams.into()),
        ("a number of pages of", found.pages as i128, meta.pages.into()),
        ("a size in bytes of", found.object_bytes.into(), meta.size.into()),
        ("a footer that begins at", found.footer_offset.into(), meta.footer_offset.into()),
    ];
    let (what, found, expected) = pairs.into_iter().find(|(_, found, expected)| found != expected)?;
    Some(format!("it holds another block, with {what} {found} instead of {expected}"))
}

//! The catalog entry of a block: its name first, what it holds when it is written, and whether a footer is
//! the one that it speaks of.

use sandur_base::Id;
use sandur_format::block::BlockSummary;
use sandur_format::catalog_entry::BlockMeta;
use sandur_format::log_block::Footer;
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

/// In what a footer differs from the entry of the block that it was read from: `None` when it is that
/// block's.
pub(crate) fn difference(meta: &BlockMeta, footer: &Footer) -> Option<String> {
    let info = footer.info();
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
        ("bytes of lines of", info.raw_bytes.into(), meta.raw_bytes.into()),
        ("a number of streams of", footer.streams().len() as i128, meta.streams.into()),
        ("a number of pages of", footer.pages().len() as i128, meta.pages.into()),
        ("a size in bytes of", footer.object_bytes().into(), meta.size.into()),
        ("a footer that begins at", footer.offset().into(), meta.footer_offset.into()),
    ];
    let (what, found, expected) = pairs.into_iter().find(|(_, found, expected)| found != expected)?;
    Some(format!("it holds another block, with {what} {found} instead of {expected}"))
}

//! Verifying what a block contains: header, footer, every page, every filter.

use bytes::Bytes;
use sandur_format::block::HEADER_LEN;
use sandur_format::catalog_entry::BlockMeta;
use sandur_format::codec::Piece;
use sandur_format::log_block::{Footer, Wanted, check_header};
use sandur_format::needle::SLICES;
use sandur_store::{Intent, Store};

/// Bytes that are read at once.
const READ_BYTES: u64 = 8 << 20;

/// Verifies header, footer, every piece and every page of a block; the number of pieces, or what is wrong.
pub async fn check_block(store: &Store, meta: &BlockMeta) -> Result<u64, String> {
    let object = Object { store, path: meta.path(), size: meta.size };
    let header = object.read(0..HEADER_LEN).await?;
    check_header(&header).map_err(|e| e.to_string())?;
    let footer = object.read(meta.footer_offset..meta.size).await?;
    let footer = Footer::open(footer).map_err(|e| e.to_string())?;
    compare(meta, &footer)?;
    let (mut wide, mut narrow) = (Window::of(&object), Window::of(&object));
    let mut count = 0;
    // Lines and narrow columns lie in two rows beside each other: each is read through a window of its own.
    for page in footer.pages() {
        let bytes = narrow.read(page.narrow).await?;
        let columns = page.decode_narrow(&bytes, Wanted { metadata: true }).map_err(|e| e.to_string())?;
        let bytes = wide.read(page.lines).await?;
        page.decode_lines(&bytes, &columns.timestamps).map_err(|e| e.to_string())?;
        count += 2;
    }
    for segment in footer.filter_segments() {
        for slice in 0..SLICES {
            let piece = segment.slice(slice);
            piece.check("filter slice", &wide.read(piece).await?).map_err(|e| e.to_string())?;
            count += 1;
        }
    }
    Ok(count)
}

/// The footer must say what the catalog says.
fn compare(meta: &BlockMeta, footer: &Footer) -> Result<(), String> {
    let info = footer.info();
    let differing = [
        ("tenant", info.tenant == meta.dataset.tenant),
        ("window", info.window == meta.window),
        ("level", info.level == meta.level),
        ("rows", info.rows == meta.rows),
        ("first timestamp", info.min_ts == meta.min_ts),
        ("last timestamp", info.max_ts == meta.max_ts),
        ("number of streams", footer.streams().len() as u64 == u64::from(meta.streams)),
        ("number of pages", footer.pages().len() as u64 == u64::from(meta.pages)),
    ];
    match differing.iter().find(|(_, equal)| !equal) {
        Some((what, _)) => Err(format!("its {what} is not what the catalog says")),
        None => Ok(()),
    }
}

struct Object<'a> {
    store: &'a Store,
    path: String,
    size: u64,
}

impl Object<'_> {
    async fn read(&self, range: std::ops::Range<u64>) -> Result<Bytes, String> {
        self.store.get_range(&self.path, range, Intent::block()).await.map_err(|e| e.to_string())
    }
}

/// Reads an object in large steps while pieces are asked for in rising order.
struct Window<'a> {
    object: &'a Object<'a>,
    start: u64,
    bytes: Bytes,
}

impl<'a> Window<'a> {
    fn of(object: &'a Object<'a>) -> Self {
        Self { object, start: 0, bytes: Bytes::new() }
    }

    async fn read(&mut self, piece: Piece) -> Result<Bytes, String> {
        let (offset, len) = (piece.offset, u64::from(piece.len));
        let end = self.start + self.bytes.len() as u64;
        if offset < self.start || piece.end() > end {
            let to = (offset + len.max(READ_BYTES)).min(self.object.size);
            if piece.end() > to {
                return Err(format!("a piece of {len} bytes at {offset} lies beyond the object's end"));
            }
            self.bytes = self.object.read(offset..to).await?;
            self.start = offset;
        }
        let from = (offset - self.start) as usize;
        Ok(self.bytes.slice(from..from + len as usize))
    }
}

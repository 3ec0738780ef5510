//! Reads pages of exemplars and metadata: several of a block with one request, decoded on the CPU pool.

use std::sync::Arc;

use sandur_cache::Hint;
use sandur_format::codec::Piece;
use sandur_query::{Error, QueryContext};

use crate::blocks::reader::BlockReader;
use crate::error::{ReadError, or_warn};
use crate::samples::OpenSamples;
use crate::samples::annotations::AnnotationPage;

/// The number of pages that are read with one request.
const PAGES_AT_ONCE: usize = 8;

/// Calls `each` with the items of these pages, several pages at a time. The memory of these pages is
/// reserved first. Damage adds a warning.
pub(super) async fn each_item<P: AnnotationPage>(
    reader: &BlockReader,
    context: &QueryContext,
    block: &Arc<OpenSamples>,
    pages: Vec<P>,
    mut each: impl FnMut(P::Item) -> Result<(), Error>,
) -> Result<(), Error> {
    for some in pages.chunks(PAGES_AT_ONCE) {
        context.check()?;
        let _memory = context.budget().reserve(some.iter().map(P::memory_bytes).sum())?;
        let pieces: Vec<Piece> = some.iter().map(P::piece).collect();
        let hint = Hint::Scan { bytes: pieces.iter().map(|piece| u64::from(piece.len)).sum() };
        let read = reader.pieces(&block.meta, &pieces, hint, context.stats()).await;
        let Some(stored) = or_warn(context, read)? else { continue };
        let pages = some.to_vec();
        let decode = move || {
            let pairs = pages.iter().zip(stored);
            let decoded = pairs.map(|(page, stored)| {
                sandur_memory::job::spend(stored.bytes.len())?;
                Ok(page.decode(&stored.bytes))
            });
            Ok(decoded.collect::<Result<Vec<_>, sandur_memory::Stopped>>()?)
        };
        for items in context.compute(decode).await? {
            let items = items.map_err(|reason| ReadError::damaged(&block.meta, reason));
            let Some(items) = or_warn(context, items)? else { continue };
            items.into_iter().try_for_each(&mut each)?;
        }
    }
    Ok(())
}

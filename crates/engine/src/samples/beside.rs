//! Reads pages of exemplars and metadata: several of a block with one request, decoded on the CPU pool.

use std::sync::Arc;

use bytes::Bytes;
use sandur_cache::Hint;
use sandur_format::Error as FormatError;
use sandur_format::codec::Piece;
use sandur_format::sample_block::{ExemplarPage, MetadataPage, SeriesExemplars};
use sandur_model::MetricMetadata;
use sandur_query::{Error, QueryContext};

use super::OpenSamples;
use crate::block_reader::{BlockReader, ReadError, or_warn};

/// The number of pages that are read with one request.
pub(super) const PAGES_AT_ONCE: usize = 8;

/// A page of exemplars or metadata.
pub(super) trait BesidePage: Clone + Send + 'static {
    /// What the page contains.
    type Item: Send + 'static;

    fn piece(&self) -> Piece;
    fn memory_bytes(&self) -> u64;
    fn decode(&self, bytes: &Bytes) -> Result<Vec<Self::Item>, FormatError>;
}

impl BesidePage for ExemplarPage {
    type Item = SeriesExemplars;

    fn piece(&self) -> Piece {
        self.piece()
    }

    fn memory_bytes(&self) -> u64 {
        self.memory_bytes()
    }

    fn decode(&self, bytes: &Bytes) -> Result<Vec<SeriesExemplars>, FormatError> {
        self.decode(bytes)
    }
}

impl BesidePage for MetadataPage {
    type Item = MetricMetadata;

    fn piece(&self) -> Piece {
        self.piece()
    }

    fn memory_bytes(&self) -> u64 {
        self.memory_bytes()
    }

    fn decode(&self, bytes: &Bytes) -> Result<Vec<MetricMetadata>, FormatError> {
        self.decode(bytes)
    }
}

/// Calls `each` with the items of these pages, several pages at a time. The memory of these pages is
/// reserved first. Damage adds a warning.
pub(super) async fn each_item<P: BesidePage>(
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
                sandur_base::job::spend(stored.bytes.len())?;
                Ok(page.decode(&stored.bytes))
            });
            Ok(decoded.collect::<Result<Vec<_>, sandur_base::Stopped>>()?)
        };
        for items in context.compute(decode).await? {
            let items = items.map_err(|reason| ReadError::damaged(&block.meta, reason));
            let Some(items) = or_warn(context, items)? else { continue };
            items.into_iter().try_for_each(&mut each)?;
        }
    }
    Ok(())
}

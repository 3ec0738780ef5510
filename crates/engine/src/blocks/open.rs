//! Blocks of any signal with their footers in memory, opened through the cache.
//!
//! All bytes are checked against their checksums, here or when they are decoded.

use std::sync::{Arc, OnceLock};

use futures_util::future::join_all;
use sandur_format::block::BlockIndex;
use sandur_format::catalog_entry::BlockMeta;
use sandur_format::log_block;
use sandur_model::{Labels, Signal, StreamId};
use sandur_query::QueryStats;

use crate::blocks::cache::Piece;
use crate::blocks::reader::BlockReader;
use crate::error::ReadError;

/// A block whose footer is in memory.
pub struct OpenBlock<F> {
    /// The catalog's entry of the block in the caller's snapshot, since some fields change.
    pub meta: Arc<BlockMeta>,
    /// The decoded footer.
    pub footer: Arc<F>,
    ids: Arc<OnceLock<Box<[StreamId]>>>,
}

impl<F> OpenBlock<F> {
    /// The same block with another snapshot's entry.
    fn with_meta(self: Arc<Self>, meta: &Arc<BlockMeta>) -> Arc<Self> {
        if Arc::ptr_eq(&self.meta, meta) {
            return self;
        }
        let (meta, footer, ids) = (Arc::clone(meta), Arc::clone(&self.footer), Arc::clone(&self.ids));
        Arc::new(Self { meta, footer, ids })
    }
}

impl OpenBlock<log_block::Footer> {
    /// The identity of a stream of the block.
    pub fn series_id(&self, ordinal: u32) -> StreamId {
        let series = self.footer.streams();
        let id = |n| Labels::from_pairs(series.pairs(n)).stream_id();
        self.ids.get_or_init(|| (0..series.len() as u32).map(id).collect())[ordinal as usize]
    }
}

/// Opening of blocks.
impl BlockReader {
    /// Opens a block.
    pub async fn open<F: BlockIndex>(
        &self,
        meta: &Arc<BlockMeta>,
        stats: &QueryStats,
    ) -> Result<Arc<OpenBlock<F>>, ReadError> {
        if let Some(open) = self.cache.get::<OpenBlock<F>>(meta.id, Piece::Footer) {
            QueryStats::add(&stats.index_cache_hits, 1);
            return Ok(open.with_meta(meta));
        }
        let footer: F = self.footer(meta, stats).await?;
        // The ids of streams are computed later, once.
        let ids =
            if footer.signal() == Signal::Logs { footer.series_count() * size_of::<StreamId>() } else { 0 };
        let weight = footer.memory_bytes() + ids as u64;
        let open = OpenBlock { meta: Arc::clone(meta), footer: Arc::new(footer), ids: Arc::default() };
        let open = Arc::new(open);
        self.cache.insert(meta.id, Piece::Footer, Arc::clone(&open), weight);
        Ok(open)
    }

    /// Opens several blocks concurrently. Returns them in order.
    pub async fn open_all<F: BlockIndex>(
        &self,
        metas: &[Arc<BlockMeta>],
        stats: &QueryStats,
    ) -> Vec<Result<Arc<OpenBlock<F>>, ReadError>> {
        let mut opening = Vec::with_capacity(metas.len());
        for meta in metas {
            opening.push(self.open(meta, stats));
        }
        join_all(opening).await
    }
}

//! Log blocks in memory: footers, needle filters and counts, opened through the cache.
//!
//! Everything that comes out of here was checked against its checksum, here or when it is decoded.

use std::sync::{Arc, OnceLock};

use futures_util::future::join_all;
use sandur_format::block::BlockIndex;
use sandur_format::catalog_entry::BlockMeta;
use sandur_format::log_block::{CountRun, Footer};
use sandur_format::needle::{FilterSegment, SegmentView};
use sandur_model::StreamId;
use sandur_query::{MinuteCount, QueryStats};

use crate::block_cache::Piece;
use crate::block_reader::{BlockReader, ReadError};

/// A block whose footer is in memory.
pub struct OpenBlock {
    /// What the catalog says of it: in the snapshot of whoever opened it, since some of it changes.
    pub meta: Arc<BlockMeta>,
    /// The decoded footer.
    pub footer: Arc<Footer>,
    ids: Arc<OnceLock<Box<[StreamId]>>>,
}

impl OpenBlock {
    /// The same block as another snapshot describes it.
    fn with_meta(self: Arc<Self>, meta: &Arc<BlockMeta>) -> Arc<Self> {
        if Arc::ptr_eq(&self.meta, meta) {
            return self;
        }
        let (meta, footer, ids) = (Arc::clone(meta), Arc::clone(&self.footer), Arc::clone(&self.ids));
        Arc::new(Self { meta, footer, ids })
    }

    /// The identity of a stream of the block.
    pub fn stream_id(&self, ordinal: u32) -> StreamId {
        let streams = self.footer.streams();
        let all = || (0..streams.len() as u32).map(|n| streams.labels(n).stream_id()).collect();
        self.ids.get_or_init(all)[ordinal as usize]
    }
}

/// The minute counts of a block, decoded.
pub struct BlockCounts {
    /// Counts of all streams.
    pub minutes: Arc<Vec<MinuteCount>>,
    /// Which counts belong to which stream and level.
    pub runs: Vec<CountRun>,
}

/// How log blocks are read.
impl BlockReader {
    /// The block with its footer.
    pub async fn open(&self, meta: &Arc<BlockMeta>, stats: &QueryStats) -> Result<Arc<OpenBlock>, ReadError> {
        if let Some(open) = self.cache.get::<OpenBlock>(meta.id, Piece::Footer) {
            QueryStats::add(&stats.index_cache_hits, 1);
            return Ok(open.with_meta(meta));
        }
        let footer: Footer = self.footer(meta, stats).await?;
        let weight = footer.memory_bytes() + footer.streams().len() as u64 * size_of::<StreamId>() as u64;
        let open = OpenBlock { meta: Arc::clone(meta), footer: Arc::new(footer), ids: Arc::default() };
        let open = Arc::new(open);
        self.cache.insert(meta.id, Piece::Footer, Arc::clone(&open), weight);
        Ok(open)
    }

    /// Several blocks with their footers, opened at the same time, in order.
    pub async fn open_all(
        &self,
        metas: &[Arc<BlockMeta>],
        stats: &QueryStats,
    ) -> Vec<Result<Arc<OpenBlock>, ReadError>> {
        let mut opening = Vec::with_capacity(metas.len());
        for meta in metas {
            opening.push(self.open(meta, stats));
        }
        join_all(opening).await
    }

    /// A filter segment of the block.
    pub async fn segment(
        &self,
        block: &OpenBlock,
        segment: &FilterSegment,
        stats: &QueryStats,
    ) -> Result<Arc<SegmentView>, ReadError> {
        let range = segment.range();
        let piece = Piece::Filter(range.start);
        if let Some(view) = self.cache.get::<SegmentView>(block.meta.id, piece) {
            QueryStats::add(&stats.index_cache_hits, 1);
            return Ok(view);
        }
        let bytes = self.index(&block.meta, range, stats).await?;
        let view = segment.open(bytes).map_err(|reason| ReadError::damaged(&block.meta, reason))?;
        let (weight, view) = (view.memory_bytes(), Arc::new(view));
        self.cache.insert(block.meta.id, piece, Arc::clone(&view), weight);
        Ok(view)
    }

    /// The block's counts, if they were decoded before.
    pub fn known_counts(&self, block: &OpenBlock) -> Option<Arc<BlockCounts>> {
        self.cache.get(block.meta.id, Piece::Counts)
    }

    /// Decodes the block's counts; pure computation.
    pub fn decode_counts(&self, block: &OpenBlock) -> Result<Arc<BlockCounts>, ReadError> {
        let damaged = |reason| ReadError::damaged(&block.meta, reason);
        let stored = block.footer.minute_counts();
        let make = |minute, lines, bytes| MinuteCount { minute, lines, bytes };
        let decoded = stored.decode(None, make).map_err(damaged)?;
        let weight =
            decoded.counts.len() * size_of::<MinuteCount>() + decoded.runs.len() * size_of::<CountRun>();
        let counts = Arc::new(BlockCounts { minutes: Arc::new(decoded.counts), runs: decoded.runs });
        self.cache.insert(block.meta.id, Piece::Counts, Arc::clone(&counts), weight as u64);
        Ok(counts)
    }
}

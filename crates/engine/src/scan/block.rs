//! Reading blocks: footers, needle filters, counts and page columns, through the cache.
//!
//! Everything that comes out of here was checked against its checksum, here or when it is decoded.

use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use futures_util::future::join_all;
use sandur_base::{Env, Lane};
use sandur_cache::{Hint, Tier};
use sandur_format::codec::Piece as StoredPiece;
use sandur_format::log_block::{CountRun, Footer};
use sandur_format::needle::{FilterSegment, SegmentView};
use sandur_model::StreamId;
use sandur_query::{MinuteCount, QueryStats};
use sandur_store::Intent;

use super::block_bytes::{BlockBytes, Spent, Stored};
use crate::block_meta;
use crate::cache::{BlockCache, Cached, Piece};
use sandur_format::catalog_entry::BlockMeta;

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

/// Why a piece of a block cannot be had.
#[derive(Clone, Debug, thiserror::Error)]
pub enum ReadError {
    /// The object does not exist.
    #[error("block '{path}' is missing from the store; the answer lacks its rows, run 'sandur check'")]
    Missing {
        /// The block's name.
        path: String,
    },
    /// The object's bytes are wrong.
    #[error("block '{path}' is damaged, the answer lacks rows of it: {reason}")]
    Damaged {
        /// The block's name.
        path: String,
        /// What is wrong where.
        reason: String,
    },
    /// The store did not answer.
    #[error("reading block '{path}': {reason}")]
    Store {
        /// The block's name.
        path: String,
        /// What the store said.
        reason: Arc<sandur_store::Error>,
    },
}

impl ReadError {
    /// A damaged part of a block.
    pub fn damaged(meta: &BlockMeta, reason: impl ToString) -> Self {
        Self::Damaged { path: meta.path(), reason: reason.to_string() }
    }

    fn store(meta: &BlockMeta, error: sandur_store::Error) -> Self {
        let path = meta.path();
        if error.is_not_found() {
            Self::Missing { path }
        } else if error.is_of_object() {
            Self::Damaged { path, reason: error.to_string() }
        } else {
            Self::Store { path, reason: Arc::new(error) }
        }
    }
}

/// Opens blocks and reads their parts. Cheap to clone.
#[derive(Clone)]
pub struct BlockReader {
    env: Env,
    bytes: BlockBytes,
    cache: Arc<BlockCache>,
    payer: Payer,
}

/// Whose rates of the store apply to reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Payer {
    /// The tenant's that the block belongs to: queries.
    Tenant,
    /// Nobody's: work of the database itself.
    Nobody,
}

impl BlockReader {
    /// A reader of stored bytes that keeps what it decoded of indexes in `cache`.
    pub fn new(env: Env, bytes: BlockBytes, cache: Arc<BlockCache>) -> Self {
        Self { env, bytes, cache, payer: Payer::Tenant }
    }

    /// The same for work of the database itself, which no tenant pays for.
    pub fn for_upkeep(&self) -> Self {
        Self { payer: Payer::Nobody, ..self.clone() }
    }

    /// What it keeps decoded between queries.
    pub fn cache(&self) -> &BlockCache {
        &self.cache
    }

    /// Where stored bytes come from, and where those of new blocks go.
    pub fn bytes(&self) -> &BlockBytes {
        &self.bytes
    }

    /// The block with its footer.
    pub async fn open(&self, meta: &Arc<BlockMeta>, stats: &QueryStats) -> Result<Arc<OpenBlock>, ReadError> {
        if let Some(Cached::Footer(open)) = self.cache.get(meta.id, Piece::Footer) {
            QueryStats::add(&stats.index_cache_hits, 1);
            return Ok(open.with_meta(meta));
        }
        let start = meta.footer_offset;
        let range = start..start + u64::from(meta.footer_len);
        let bytes = self.index(meta, range, stats).await?;
        let decoded = self.env.run_cpu(Lane::Query, move || Footer::open(bytes)).await;
        let footer = decoded.map_err(|reason| ReadError::damaged(meta, reason))?;
        // Sound bytes of another block are no better than damaged ones.
        if let Some(difference) = block_meta::difference(meta, &footer) {
            return Err(ReadError::damaged(meta, difference));
        }
        let weight = footer.memory_bytes() + footer.streams().len() as u64 * size_of::<StreamId>() as u64;
        let open = OpenBlock { meta: Arc::clone(meta), footer: Arc::new(footer), ids: Arc::default() };
        let open = Arc::new(open);
        self.cache.insert(meta.id, Piece::Footer, Cached::Footer(Arc::clone(&open)), weight);
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
        if let Some(Cached::Filter(view)) = self.cache.get(block.meta.id, piece) {
            QueryStats::add(&stats.index_cache_hits, 1);
            return Ok(view);
        }
        let bytes = self.index(&block.meta, range, stats).await?;
        let view = segment.open(bytes).map_err(|reason| ReadError::damaged(&block.meta, reason))?;
        let (weight, view) = (view.memory_bytes(), Arc::new(view));
        self.cache.insert(block.meta.id, piece, Cached::Filter(Arc::clone(&view)), weight);
        Ok(view)
    }

    /// The block's counts, if they were decoded before.
    pub fn known_counts(&self, block: &OpenBlock) -> Option<Arc<BlockCounts>> {
        match self.cache.get(block.meta.id, Piece::Counts)? {
            Cached::Counts(counts) => Some(counts),
            _ => None,
        }
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
        self.cache.insert(block.meta.id, Piece::Counts, Cached::Counts(Arc::clone(&counts)), weight as u64);
        Ok(counts)
    }

    /// Stored pieces of the block, in order; adjacent ones are read together.
    pub async fn pieces(
        &self,
        meta: &BlockMeta,
        pieces: &[StoredPiece],
        hint: Hint,
        stats: &QueryStats,
    ) -> Result<Vec<Stored>, ReadError> {
        let ranges: Vec<_> = pieces.iter().map(|piece| piece.offset..piece.end()).collect();
        let read = self.bytes.read(meta, &ranges, (hint, self.intent(meta)), stats).await;
        let (stored, Spent { store_ns, cache_ns }) = read.map_err(|error| ReadError::store(meta, error))?;
        let of = |tier| stored.iter().filter(move |piece| piece.tier == tier).map(|piece| piece.bytes.len());
        let (ram, flash) = (of(Tier::Ram).sum::<usize>() as u64, of(Tier::Flash).sum::<usize>() as u64);
        QueryStats::add(&stats.store_ns, store_ns);
        QueryStats::add(&stats.page_cache_bytes, ram);
        QueryStats::add(&stats.page_flash_bytes, flash);
        // The slower of the tiers that answered is what was waited for.
        let waited = if flash > 0 { &stats.page_flash_ns } else { &stats.page_cache_ns };
        QueryStats::add(waited, cache_ns);
        Ok(stored)
    }

    fn intent(&self, meta: &BlockMeta) -> Intent {
        match self.payer {
            Payer::Tenant => Intent::block().for_tenant(meta.dataset.tenant.as_str()),
            Payer::Nobody => Intent::block(),
        }
    }

    /// A stored part of the block's index.
    async fn index(
        &self,
        meta: &BlockMeta,
        range: std::ops::Range<u64>,
        stats: &QueryStats,
    ) -> Result<Bytes, ReadError> {
        let read = self.bytes.read(meta, &[range], (Hint::Metadata, self.intent(meta)), stats).await;
        let (mut stored, _) = read.map_err(|error| ReadError::store(meta, error))?;
        let Stored { bytes, tier } = stored.swap_remove(0);
        let counter = match tier {
            Tier::Ram => &stats.index_cache_hits,
            Tier::Flash => &stats.index_flash_hits,
            Tier::Origin => &stats.index_cache_misses,
        };
        QueryStats::add(counter, 1);
        Ok(bytes)
    }
}

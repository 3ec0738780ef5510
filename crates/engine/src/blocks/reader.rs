//! Reads the parts of blocks of any signal, through the cache.
//!
//! Parts that only the blocks of one signal have are read in that signal's module, as in
//! [`crate::logs::block`].

use std::sync::Arc;

use bytes::Bytes;
use sandur_cache::{Hint, Tier};
use sandur_format::block::BlockIndex;
use sandur_format::catalog_entry::BlockMeta;
use sandur_format::codec::Piece as StoredPiece;
use sandur_query::QueryStats;
use sandur_runtime::{Env, Lane};
use sandur_store::Intent;

use crate::blocks::bytes::{Alongside, BlockBytes, Spent, Stored};
use crate::blocks::cache::{BlockCache, for_the_cache};
use crate::error::ReadError;

/// Opens blocks and reads their parts. Cheap to clone.
#[derive(Clone)]
pub struct BlockReader {
    pub(crate) env: Env,
    bytes: BlockBytes,
    pub(crate) cache: Arc<BlockCache>,
    payer: Payer,
}

/// Whose store rates apply to reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Payer {
    /// The tenant that owns the block: queries.
    Tenant,
    /// No tenant: upkeep.
    Upkeep,
}

impl BlockReader {
    /// A reader of stored bytes that caches decoded indexes in `cache`.
    pub fn new(env: Env, bytes: BlockBytes, cache: Arc<BlockCache>) -> Self {
        Self { env, bytes, cache, payer: Payer::Tenant }
    }

    /// The same reader for upkeep, which no tenant's rates limit.
    pub fn for_upkeep(&self) -> Self {
        Self { payer: Payer::Upkeep, ..self.clone() }
    }

    /// The cache of decoded values.
    pub fn cache(&self) -> &BlockCache {
        &self.cache
    }

    /// The reader of stored bytes, which also receives those of new blocks.
    pub fn bytes(&self) -> &BlockBytes {
        &self.bytes
    }

    /// Returns stored pieces of the block, in order. Adjacent ones are read together.
    pub async fn pieces(
        &self,
        meta: &BlockMeta,
        pieces: &[StoredPiece],
        hint: Hint,
        stats: &QueryStats,
    ) -> Result<Vec<Stored>, ReadError> {
        self.pieces_alongside(meta, (pieces, &|| (Vec::new(), None)), hint, stats).await
    }

    /// Returns stored pieces of the block, in order. If the store must be read, what the caller will need
    /// next, `others`, is read with them and cached.
    pub async fn pieces_alongside(
        &self,
        meta: &BlockMeta,
        (pieces, others): (&[StoredPiece], &Alongside<'_>),
        hint: Hint,
        stats: &QueryStats,
    ) -> Result<Vec<Stored>, ReadError> {
        let ranges: Vec<_> = pieces.iter().map(|piece| piece.offset..piece.end()).collect();
        let read = self.bytes.read(meta, (&ranges, others), (hint, self.intent(meta)), stats).await;
        let (stored, Spent { store_ns, cache_ns }) = read.map_err(|error| ReadError::store(meta, error))?;
        let of = |tier| stored.iter().filter(move |piece| piece.tier == tier).map(|piece| piece.bytes.len());
        let (ram, flash) = (of(Tier::Ram).sum::<usize>() as u64, of(Tier::Flash).sum::<usize>() as u64);
        QueryStats::add(&stats.store_ns, store_ns);
        QueryStats::add(&stats.page_cache_bytes, ram);
        QueryStats::add(&stats.page_flash_bytes, flash);
        // The slowest tier that answered determined the wait.
        let waited = if flash > 0 { &stats.page_flash_ns } else { &stats.page_cache_ns };
        QueryStats::add(waited, cache_ns);
        Ok(stored)
    }

    /// A piece of the block if a tier holds it, without a read from the store.
    pub async fn kept(&self, meta: &BlockMeta, piece: &StoredPiece) -> Option<Bytes> {
        self.bytes.kept(meta, piece.offset..piece.end()).await
    }

    fn intent(&self, meta: &BlockMeta) -> Intent {
        match self.payer {
            Payer::Tenant => Intent::block().for_tenant(meta.dataset.tenant.as_str()),
            Payer::Upkeep => Intent::block(),
        }
    }

    /// Reads and decodes the block's footer, and compares it with the catalog's entry.
    pub(crate) async fn footer<F: BlockIndex>(
        &self,
        meta: &Arc<BlockMeta>,
        stats: &QueryStats,
    ) -> Result<F, ReadError> {
        let start = meta.footer_offset;
        let bytes = self.index(meta, start..start + u64::from(meta.footer_len), stats).await?;
        let decoded = self.env.run_cpu(Lane::Query, move || for_the_cache(|| F::open(bytes))).await;
        let footer = decoded.map_err(|reason| ReadError::damaged(meta, reason))?;
        match meta.difference(&footer) {
            None => Ok(footer),
            Some(difference) => Err(ReadError::damaged(meta, difference)),
        }
    }

    /// Reads a stored part of the block's index.
    pub(crate) async fn index(
        &self,
        meta: &BlockMeta,
        range: std::ops::Range<u64>,
        stats: &QueryStats,
    ) -> Result<Bytes, ReadError> {
        let others = || (Vec::new(), None);
        let read =
            self.bytes.read(meta, (&[range], &others), (Hint::Metadata, self.intent(meta)), stats).await;
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

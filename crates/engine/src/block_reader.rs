//! Reading the parts of blocks of any signal, through the cache.
//!
//! What a signal makes of them is in its own module: see [`crate::logs::block`] and
//! [`crate::samples::block`], which add to [`BlockReader`] how their blocks are opened.

use std::sync::Arc;

use bytes::Bytes;
use sandur_base::{Env, Lane};
use sandur_cache::{Hint, Tier};
use sandur_format::block::BlockIndex;
use sandur_format::catalog_entry::BlockMeta;
use sandur_format::codec::Piece as StoredPiece;
use sandur_query::{Error as QueryError, QueryContext, QueryStats};
use sandur_store::Intent;

use crate::block_bytes::{BlockBytes, Spent, Stored};
use crate::block_cache::{BlockCache, for_the_cache};
use crate::error::FilterError;

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
    /// What delete requests hide of it is not known.
    #[error(transparent)]
    Filter(#[from] FilterError),
}

impl ReadError {
    /// A damaged part of a block.
    pub fn damaged(meta: &BlockMeta, reason: impl ToString) -> Self {
        Self::Damaged { path: meta.path(), reason: reason.to_string() }
    }

    pub(crate) fn store(meta: &BlockMeta, error: sandur_store::Error) -> Self {
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

/// Missing and damaged blocks are warnings; a store that does not answer fails the query.
pub(crate) fn or_warn<T>(
    context: &QueryContext,
    read: Result<T, ReadError>,
) -> Result<Option<T>, QueryError> {
    match read {
        Ok(value) => Ok(Some(value)),
        Err(error @ ReadError::Store { .. }) => Err(QueryError::Unavailable(error.to_string())),
        Err(ReadError::Filter(error)) => Err(error.into()),
        Err(damage) => {
            context.warn(damage.to_string());
            Ok(None)
        }
    }
}

/// Opens blocks and reads their parts. Cheap to clone.
#[derive(Clone)]
pub struct BlockReader {
    pub(crate) env: Env,
    bytes: BlockBytes,
    pub(crate) cache: Arc<BlockCache>,
    payer: Payer,
}

/// Whose rates of the store apply to reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Payer {
    /// The tenant's that the block belongs to: queries.
    Tenant,
    /// No tenant's: work of the database itself.
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

    /// Stored pieces of the block, in order; adjacent ones are read together.
    pub async fn pieces(
        &self,
        meta: &BlockMeta,
        pieces: &[StoredPiece],
        hint: Hint,
        stats: &QueryStats,
    ) -> Result<Vec<Stored>, ReadError> {
        self.pieces_alongside(meta, (pieces, &[]), hint, stats).await
    }

    /// Stored pieces of the block, in order. Others are read with them and kept, if the store has to be
    /// asked: those that will be wanted next.
    pub async fn pieces_alongside(
        &self,
        meta: &BlockMeta,
        (pieces, others): (&[StoredPiece], &[StoredPiece]),
        hint: Hint,
        stats: &QueryStats,
    ) -> Result<Vec<Stored>, ReadError> {
        let ranges = |pieces: &[StoredPiece]| -> Vec<_> {
            pieces.iter().map(|piece| piece.offset..piece.end()).collect()
        };
        let (ranges, others) = (ranges(pieces), ranges(others));
        let read = self.bytes.read(meta, (&ranges, &others), (hint, self.intent(meta)), stats).await;
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

    /// A piece of the block that need not be read from the store.
    pub async fn kept(&self, meta: &BlockMeta, piece: &StoredPiece) -> Option<Bytes> {
        self.bytes.kept(meta, piece.offset..piece.end()).await
    }

    fn intent(&self, meta: &BlockMeta) -> Intent {
        match self.payer {
            Payer::Tenant => Intent::block().for_tenant(meta.dataset.tenant.as_str()),
            Payer::Nobody => Intent::block(),
        }
    }

    /// The block's footer, read and decoded, and compared with what the catalog says of it.
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

    /// A stored part of the block's index.
    pub(crate) async fn index(
        &self,
        meta: &BlockMeta,
        range: std::ops::Range<u64>,
        stats: &QueryStats,
    ) -> Result<Bytes, ReadError> {
        let read = self.bytes.read(meta, (&[range], &[]), (Hint::Metadata, self.intent(meta)), stats).await;
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

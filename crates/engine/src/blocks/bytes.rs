//! The stored bytes of blocks: from memory, from flash, or from the store.
//!
//! All reads of blocks, by queries and merges, use this module. A piece of a block (a page's columns, a
//! segment of filters, the footer) is a value in the cache; its key is the block's id and the piece's
//! position. Pieces that are in no tier are read from the store with as few requests as its planner finds,
//! and cached; before that, the process that wrote the block is asked for what it has cached. Blocks that
//! this process writes pass through [`WriteThrough`], so that the first query for new rows finds them in the
//! cache.
//!
//! **Invariants.** Blocks never change and ids are never used twice, so no cached piece is ever stale.
//! Bytes are checked against the block's own checksums when they are decoded, whatever tier they come from.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use sandur_base::Id;
use sandur_cache::flash::TENANT_BITS;
use sandur_cache::{Cache, Hint, Put, Read, Tier};
use sandur_format::catalog_entry::BlockMeta;
use sandur_format::codec::Piece;
use sandur_memory::Reservation;
use sandur_memory::account::uncharged;
use sandur_model::TenantId;
use sandur_query::QueryStats;
use sandur_runtime::Env;
use sandur_store::{Error, Intent, Store};

use crate::peers::AskedPeers;

/// A piece of a block.
#[derive(Clone, Debug)]
pub struct Stored {
    /// Its bytes.
    pub bytes: Bytes,
    /// The tier that held it.
    pub tier: Tier,
}

/// Returns further pieces that are worth reading when the store must be read, and the memory for reading
/// them.
pub type Alongside<'a> = dyn Fn() -> (Vec<Piece>, Option<Reservation>) + Sync + 'a;

/// Reads and caches pieces of blocks. Cheap to clone.
#[derive(Clone)]
pub struct BlockBytes {
    env: Env,
    store: Store,
    cache: Cache,
    peers: Option<Arc<AskedPeers>>,
}

impl BlockBytes {
    /// Reads pieces from `store` through `cache`.
    pub fn new(env: Env, store: Store, cache: Cache) -> Self {
        Self { env, store, cache, peers: None }
    }

    /// Asks the authors of blocks for their pieces before the store.
    pub(crate) fn asking(self, peers: Option<Arc<AskedPeers>>) -> Self {
        Self { peers, ..self }
    }

    /// The cache of pieces.
    pub fn cache(&self) -> &Cache {
        &self.cache
    }

    /// Returns the pieces at `ranges`, in order. If the store must be read, the pieces that `alongside`
    /// names then are read with them and cached. Counts tiers and bytes in `stats`; returns the time instead.
    pub async fn read(
        &self,
        meta: &BlockMeta,
        (ranges, alongside): (&[Range<u64>], &Alongside<'_>),
        (hint, intent): (Hint, Intent),
        stats: &QueryStats,
    ) -> Result<(Vec<Stored>, Spent), Error> {
        let started = self.env.monotonic();
        let names: Vec<[u8; KEY_BYTES]> = ranges.iter().map(|range| key(meta.id, range)).collect();
        let keys: Vec<&[u8]> = names.iter().map(|name| name.as_slice()).collect();
        let put = Put { hint, tenant: tenant_number(&meta.dataset.tenant), ..Put::default() };
        let store_ns = AtomicU64::new(0);
        let fetch = |places: Vec<usize>| {
            let mut wanted: Vec<Range<u64>> = places.into_iter().map(|at| ranges[at].clone()).collect();
            let own = wanted.len();
            let (others, memory) = alongside();
            let others = others.iter().map(|piece| piece.offset..piece.end());
            wanted.extend(others.filter(|range| !ranges.contains(range)));
            let (intent, store_ns, put) = (intent.clone(), &store_ns, &put);
            async move {
                let mut read = self.fetch(meta, &wanted, intent, (stats, store_ns)).await?;
                for (range, bytes) in wanted.iter().zip(&read).skip(own) {
                    // A copy, because the bytes may be a slice of a much larger buffer.
                    let _ = self.cache.put(&key(meta.id, range), Bytes::copy_from_slice(bytes), put);
                }
                read.truncate(own);
                drop(memory);
                Ok(read)
            }
        };
        // The cache owns what it keeps, which outlives the caller, so the caller's account is not charged.
        let found = uncharged(self.cache.get_or_fetch_many(&keys, &put, fetch)).await?;
        let total = self.env.monotonic().saturating_sub(started).as_nanos() as u64;
        let store = store_ns.into_inner();
        let pieces: Vec<Stored> = found
            .into_iter()
            .map(|found| Stored { bytes: found.value.into_bytes(), tier: found.tier })
            .collect();
        Ok((pieces, Spent { store_ns: store, cache_ns: total.saturating_sub(store) }))
    }

    /// The piece at a range if a tier holds it. Does not count as a use of the piece.
    pub async fn kept(&self, meta: &BlockMeta, range: Range<u64>) -> Option<Bytes> {
        let read = Read { quiet: true, ..Read::default() };
        let found = self.cache.get(&key(meta.id, &range), &read).wait().await;
        found.map(|item| item.value.into_bytes())
    }

    async fn fetch(
        &self,
        meta: &BlockMeta,
        wanted: &[Range<u64>],
        intent: Intent,
        (stats, spent_ns): (&QueryStats, &AtomicU64),
    ) -> Result<Vec<Bytes>, Error> {
        let started = self.env.monotonic();
        let mut pieces = self.ask_author(meta, wanted).await;
        let left: Vec<Range<u64>> = wanted
            .iter()
            .zip(&pieces)
            .filter(|(_, piece)| piece.is_none())
            .map(|(range, _)| range.clone())
            .collect();
        let read = match &left[..] {
            [] => Ok(Vec::new()),
            left => {
                QueryStats::add(&stats.store_requests, 1);
                self.store.get_ranges_sized(&meta.path(), meta.size, left, intent).await
            }
        };
        let took = self.env.monotonic().saturating_sub(started).as_nanos() as u64;
        spent_ns.fetch_add(took, Ordering::Relaxed);
        let read = read?;
        QueryStats::add(&stats.store_bytes, read.iter().map(|bytes| bytes.len() as u64).sum());
        let gaps = pieces.iter_mut().filter(|piece| piece.is_none());
        gaps.zip(read).for_each(|(gap, bytes)| *gap = Some(bytes));
        Ok(pieces.into_iter().flatten().collect())
    }

    /// The pieces that the block's author has in its cache; one for each range.
    async fn ask_author(&self, meta: &BlockMeta, wanted: &[Range<u64>]) -> Vec<Option<Bytes>> {
        let nothing = || vec![None; wanted.len()];
        let Some(peers) = &self.peers else { return nothing() };
        peers.pieces(meta.writer, meta.id, wanted).await.unwrap_or_else(nothing)
    }

    /// The pieces of a block that are in a tier, for another process. Does not count as a use of them.
    pub(crate) async fn for_peer(&self, block: Id, ranges: &[Range<u64>]) -> Vec<Option<Bytes>> {
        let read = Read { quiet: true, ..Read::default() };
        let mut pieces = Vec::with_capacity(ranges.len());
        for range in ranges {
            let found = self.cache.get(&key(block, range), &read).wait().await;
            pieces.push(found.map(|item| item.value.into_bytes()));
        }
        pieces
    }

    /// Returns the writer of a new block's pieces to the cache.
    pub fn write_through(&self, id: Id, tenant: &TenantId) -> WriteThrough {
        WriteThrough { cache: self.cache.clone(), id, tenant: tenant_number(tenant), offset: 0 }
    }
}

/// Time that a read took.
#[derive(Clone, Copy, Debug, Default)]
pub struct Spent {
    /// Nanoseconds of waiting for the store.
    pub store_ns: u64,
    /// Nanoseconds of the rest: memory, flash, and waiting for other callers' requests for the same pieces.
    pub cache_ns: u64,
}

/// Puts the pieces of a new block into the cache as its writer hands them out.
///
/// The writer's output is cut at pieces: the header, then one buffer for each column, each segment and
/// the footer. If the block is never committed, its cached pieces are never read.
pub struct WriteThrough {
    cache: Cache,
    id: Id,
    tenant: u32,
    offset: u64,
}

impl WriteThrough {
    /// Adds the next pieces. With `has_footer` the last one is the footer.
    pub fn pieces(&mut self, pieces: &[Bytes], has_footer: bool) {
        for (at, bytes) in pieces.iter().enumerate() {
            let is_footer = has_footer && at + 1 == pieces.len();
            self.piece(bytes, if is_footer { Hint::Metadata } else { Hint::Ingest });
        }
    }

    fn piece(&mut self, bytes: &Bytes, hint: Hint) {
        let range = self.offset..self.offset + bytes.len() as u64;
        self.offset = range.end;
        if range.start == 0 {
            return;
        }
        let put = Put { hint, tenant: self.tenant, ..Put::default() };
        // A piece that cannot be cached is read from the store when a query needs it.
        let _ = self.cache.put(&key(self.id, &range), Bytes::copy_from_slice(bytes), &put);
    }
}

/// Bytes of a key: the block's id, then the begin and end of the piece.
const KEY_BYTES: usize = 32;

fn key(id: Id, range: &Range<u64>) -> [u8; KEY_BYTES] {
    let mut key = [0; KEY_BYTES];
    key[..16].copy_from_slice(&id.to_bytes());
    key[16..24].copy_from_slice(&range.start.to_le_bytes());
    key[24..].copy_from_slice(&range.end.to_le_bytes());
    key
}

/// The number of a tenant in the cache: a hash of its name with as many bits as the cache has room for
/// on flash. It is the same in every run and never 0.
pub fn tenant_number(tenant: &TenantId) -> u32 {
    ((xxhash_rust::xxh3::xxh3_64(tenant.as_str().as_bytes()) >> (64 - TENANT_BITS)) as u32).max(1)
}

//! Blocks that this process has just written are decoded where every query looks: footer, series, values of
//! labels, heads of groups and lists of times. The first query finds them in the cache, as the second does.
//!
//! **Invariants.** Nothing is read from the store: what is not in memory is left to queries. What is decoded
//! makes no other decoded value go, so that many small blocks do not take the place of what queries use. That
//! it fails is of no consequence.

use std::sync::Arc;

use sandur_base::MemoryBudget;
use sandur_format::catalog_entry::BlockMeta;
use sandur_format::codec::Piece as StoredPiece;
use sandur_format::sample_block::{Footer, GroupHead};
use sandur_query::QueryStats;

use super::OpenSamples;
use super::index::{IndexError, IndexReader};
use super::times::read_times;
use crate::block_cache::{Piece, for_the_cache};
use crate::block_reader::BlockReader;

/// Stored bytes of an index that are decoded ahead at most.
const INDEX_BYTES: u64 = 2 << 20;
/// Decoded bytes of heads of groups and of lists of times that are decoded ahead at most.
const HEADS_BYTES: u64 = 8 << 20;
/// Decoded bytes of a stored byte of an index, about.
const DECODED: u64 = 8;

/// Decodes what queries look at of some blocks.
pub(crate) async fn warm(reader: &BlockReader, budget: &MemoryBudget, blocks: &[Arc<BlockMeta>]) {
    let reader = reader.for_upkeep();
    for block in blocks {
        if let Err(error) = warm_one(&reader, budget, block).await {
            tracing::debug!(path = block.path(), ?error, "a new block is left to its first query");
        }
    }
}

async fn warm_one(
    reader: &BlockReader,
    budget: &MemoryBudget,
    meta: &Arc<BlockMeta>,
) -> Result<(), IndexError> {
    let footer = StoredPiece { offset: meta.footer_offset, len: meta.footer_len, crc: 0 };
    let is_small = meta.footer_offset.min(meta.size) > 0 && u64::from(meta.footer_len) <= INDEX_BYTES;
    if !is_small || reader.kept(meta, &footer).await.is_none() {
        return Ok(());
    }
    let block: Arc<OpenSamples> = reader.open::<Footer>(meta, &QueryStats::default()).await?;
    let index = IndexReader::ahead_of_queries(reader, budget, &block);
    let bytes = block.footer.index().object_bytes();
    if bytes <= INDEX_BYTES && reader.cache().has_room(bytes * DECODED) && index.is_in_memory().await {
        index.decode_all().await?;
    }
    let heads: u64 = block.footer.groups().iter().map(|group| group.head_memory_bytes()).sum();
    let times: u64 = block.footer.time_pages().iter().map(|page| page.memory_bytes()).sum();
    if heads + times <= HEADS_BYTES && reader.cache().has_room(heads + times) {
        let _memory = budget.reserve(heads + times)?;
        heads_of_groups(reader, &block).await?;
        lists_of_times(reader, &block).await?;
    }
    Ok(())
}

async fn heads_of_groups(reader: &BlockReader, block: &OpenSamples) -> Result<(), IndexError> {
    for group in block.footer.groups() {
        // A group is kept as it was written: as a whole, which begins with its head.
        let Some(bytes) = reader.kept(&block.meta, &group.piece).await else { return Ok(()) };
        let head = bytes.get(..group.head.len as usize).unwrap_or(&bytes);
        let decoded = for_the_cache(|| GroupHead::decode(group, head));
        let head = decoded.map_err(|reason| crate::block_reader::ReadError::damaged(&block.meta, reason))?;
        let (key, bytes) = (Piece::GroupHead(group.piece.offset), head.memory_bytes());
        reader.cache().insert(block.meta.id, key, Arc::new(head), bytes);
    }
    Ok(())
}

async fn lists_of_times(reader: &BlockReader, block: &OpenSamples) -> Result<(), IndexError> {
    let pages = block.footer.time_pages();
    for page in pages {
        if reader.kept(&block.meta, &page.piece).await.is_none() {
            return Ok(());
        }
    }
    read_times(reader, block, pages, &QueryStats::default()).await?;
    Ok(())
}

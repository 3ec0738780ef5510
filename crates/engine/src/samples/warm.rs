//! Decodes blocks that this process has just written into the cache: footer, series, label values,
//! headers of groups and lists of times. So the first query finds them decoded.
//!
//! **Invariants.** Nothing is read from the store; what is not in memory is left to queries. Decoding
//! evicts no other decoded value, so that many small blocks do not displace what queries use. A failure
//! has no consequence.

use std::sync::Arc;

use sandur_format::catalog_entry::BlockMeta;
use sandur_format::codec::Piece as StoredPiece;
use sandur_format::sample_block::{Footer, GroupHead};
use sandur_memory::MemoryBudget;
use sandur_query::QueryStats;

use super::OpenSamples;
use super::index::{IndexError, IndexReader};
use super::times::read_times;
use crate::blocks::cache::{Piece, for_the_cache};
use crate::blocks::reader::BlockReader;

/// The most stored bytes of an index that is decoded ahead.
const INDEX_BYTES: u64 = 2 << 20;
/// The most decoded bytes of group headers and lists of times that are decoded ahead.
const HEADS_BYTES: u64 = 8 << 20;
/// Estimated decoded bytes per stored byte of an index.
const DECODED: u64 = 8;

/// Decodes the parts of these blocks that queries use.
pub(crate) async fn warm(reader: &BlockReader, budget: &MemoryBudget, blocks: &[Arc<BlockMeta>]) {
    let reader = reader.for_upkeep();
    for block in blocks {
        if let Err(error) = warm_one(&reader, budget, block).await {
            tracing::debug!(path = block.path(), ?error, "a new block could not be decoded ahead of queries");
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
        // The cache has a group as it was written: in one piece that begins with its header.
        let Some(bytes) = reader.kept(&block.meta, &group.piece).await else { return Ok(()) };
        let head = bytes.get(..group.head.len as usize).unwrap_or(&bytes);
        let decoded = for_the_cache(|| GroupHead::decode(group, head));
        let head = decoded.map_err(|reason| crate::error::ReadError::damaged(&block.meta, reason))?;
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

//! Reading the lists of times of a block, which many series share: decoded once and kept.

use std::sync::Arc;

use sandur_cache::Hint;
use sandur_format::codec::Piece as StoredPiece;
use sandur_format::sample_block::{TimeLists, TimePageEntry, TimeTable};
use sandur_query::QueryStats;

use super::OpenSamples;
use crate::block_cache::Piece;
use crate::block_reader::{BlockReader, ReadError};

/// The lists of these pages, those that are not known read together; and which of them are damaged.
pub(super) async fn read_times(
    reader: &BlockReader,
    block: &OpenSamples,
    pages: &[TimePageEntry],
    stats: &QueryStats,
) -> Result<(TimeTable, Vec<ReadError>), ReadError> {
    let key = |page: &TimePageEntry| Piece::Times(page.piece.offset);
    let known: Vec<Option<Arc<TimeLists>>> =
        pages.iter().map(|page| reader.cache().get(block.meta.id, key(page))).collect();
    let unknown: Vec<StoredPiece> =
        pages.iter().zip(&known).filter(|(_, known)| known.is_none()).map(|(page, _)| page.piece).collect();
    let hint = Hint::Scan { bytes: unknown.iter().map(|piece| u64::from(piece.len)).sum() };
    let stored = match unknown.is_empty() {
        true => Vec::new(),
        false => reader.pieces(&block.meta, &unknown, hint, stats).await?,
    };
    let mut stored = stored.into_iter();
    let (mut table, mut damaged) = (TimeTable::default(), Vec::new());
    for (page, known) in pages.iter().zip(known) {
        let lists = match (known, page) {
            (Some(lists), _) => lists,
            (None, page) => {
                let Some(stored) = stored.next() else { break };
                match page.decode(&stored.bytes) {
                    Ok(lists) => {
                        let lists = Arc::new(lists);
                        let bytes = page.memory_bytes();
                        reader.cache().insert(block.meta.id, key(page), Arc::clone(&lists), bytes);
                        lists
                    }
                    Err(reason) => {
                        damaged.push(ReadError::damaged(&block.meta, reason));
                        continue;
                    }
                }
            }
        };
        table.push(page.first_list, lists);
    }
    Ok((table, damaged))
}

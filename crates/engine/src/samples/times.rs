//! Reads the lists of times of a block, which many series share. They are decoded once and cached.

use std::sync::Arc;

use bytes::Bytes;
use sandur_cache::Hint;
use sandur_format::codec::Piece as StoredPiece;
use sandur_format::sample_block::{TimeLists, TimePageEntry, TimeTable};
use sandur_query::QueryStats;

use super::OpenSamples;
use crate::blocks::cache::{Piece, for_the_cache};
use crate::blocks::reader::BlockReader;
use crate::error::ReadError;

/// Pages of lists, with the cached ones.
pub(super) struct KnownTimes<'a>(Vec<(&'a TimePageEntry, Option<Arc<TimeLists>>)>);

impl<'a> KnownTimes<'a> {
    /// Looks these pages up in the cache.
    pub(super) fn of(reader: &BlockReader, block: &OpenSamples, pages: &'a [TimePageEntry]) -> Self {
        let known = |page: &TimePageEntry| reader.cache().get(block.meta.id, key(page));
        Self(pages.iter().map(|page| (page, known(page))).collect())
    }

    /// The stored pieces of the pages that must be read.
    pub(super) fn unknown(&self) -> impl Iterator<Item = StoredPiece> {
        self.0.iter().filter(|(_, known)| known.is_none()).map(|(page, _)| page.piece)
    }

    /// All lists, given the stored bytes of the pages that had to be read, and the errors of damaged pages.
    pub(super) fn with_read(
        self,
        reader: &BlockReader,
        block: &OpenSamples,
        mut stored: impl Iterator<Item = Bytes>,
    ) -> (TimeTable, Vec<ReadError>) {
        let (mut table, mut damaged) = (TimeTable::default(), Vec::new());
        for (page, known) in self.0 {
            let lists = match known {
                Some(lists) => lists,
                None => {
                    let Some(stored) = stored.next() else { break };
                    match for_the_cache(|| page.decode(&stored)) {
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
        (table, damaged)
    }
}

fn key(page: &TimePageEntry) -> Piece {
    Piece::Times(page.piece.offset)
}

/// Reads the lists of these pages, the uncached ones with one request. Also returns the errors of
/// damaged pages.
pub(super) async fn read_times(
    reader: &BlockReader,
    block: &OpenSamples,
    pages: &[TimePageEntry],
    stats: &QueryStats,
) -> Result<(TimeTable, Vec<ReadError>), ReadError> {
    let times = KnownTimes::of(reader, block, pages);
    let unknown: Vec<StoredPiece> = times.unknown().collect();
    let hint = Hint::Scan { bytes: unknown.iter().map(|piece| u64::from(piece.len)).sum() };
    let stored = match unknown.is_empty() {
        true => Vec::new(),
        false => reader.pieces(&block.meta, &unknown, hint, stats).await?,
    };
    Ok(times.with_read(reader, block, stored.into_iter().map(|piece| piece.bytes)))
}

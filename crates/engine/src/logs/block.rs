//! The parts of log blocks in memory: needle filters and counts, opened through the cache.
//!
//! All bytes are checked against their checksums, here or when they are decoded.

use std::sync::Arc;

use sandur_cache::Hint;
use sandur_format::log_block::{CountRun, Footer};
use sandur_format::needle::{FilterSegment, SegmentPieces};
use sandur_memory::{MemoryBudget, Reservation};
use sandur_query::{MinuteCount, QueryStats};

use crate::blocks::cache::{Piece, for_the_cache};
use crate::blocks::open::OpenBlock;
use crate::blocks::reader::BlockReader;
use crate::error::ReadError;

/// A log block whose footer is in memory.
pub type OpenLogs = OpenBlock<Footer>;

/// The decoded minute counts of a block.
pub struct BlockCounts {
    /// Counts of all streams.
    pub minutes: Arc<Vec<MinuteCount>>,
    /// The counts of each stream and level.
    pub runs: Vec<CountRun>,
}

/// Pieces of a filter segment, with their memory unless the cache holds it.
pub(crate) struct HeldPieces {
    /// The pieces.
    pub(crate) pieces: Arc<SegmentPieces>,
    _memory: Option<Reservation>,
}

/// Reading of parts that only log blocks have.
impl BlockReader {
    /// Reads the pieces of a filter segment that show which pages have these keys, in memory of the budget.
    /// Reads all pieces, and caches them as checked, while the cache has room: the next search finds them
    /// there.
    pub(crate) async fn filters_of(
        &self,
        block: &OpenLogs,
        (segment, keys): (&FilterSegment, &[u32]),
        budget: &MemoryBudget,
        stats: &QueryStats,
    ) -> Result<HeldPieces, ReadError> {
        let (range, id) = (segment.range(), block.meta.id);
        if let Some(pieces) = self.cache.get(id, Piece::Filter(range.start)) {
            QueryStats::add(&stats.index_cache_hits, 1);
            return Ok(HeldPieces { pieces, _memory: None });
        }
        if self.cache.has_room_for_one(range.end - range.start)
            && let Ok(memory) = budget.reserve(segment.pieces_memory(0..segment.pieces()))
        {
            let pieces = self.read_segment(block, segment, stats).await?;
            return Ok(HeldPieces { pieces, _memory: Some(memory) });
        }
        let numbers = segment.pieces_for(keys);
        let memory = budget.reserve(segment.pieces_memory(numbers.iter().copied()))?;
        let pieces: Vec<_> = numbers.iter().map(|number| segment.piece(*number)).collect();
        let read = self.pieces(&block.meta, &pieces, Hint::Point, stats).await?;
        let opened = segment.open(numbers.into_iter().zip(read.into_iter().map(|piece| piece.bytes)));
        let opened = opened.map_err(|reason| ReadError::damaged(&block.meta, reason))?;
        Ok(HeldPieces { pieces: Arc::new(opened), _memory: Some(memory) })
    }

    async fn read_segment(
        &self,
        block: &OpenLogs,
        segment: &FilterSegment,
        stats: &QueryStats,
    ) -> Result<Arc<SegmentPieces>, ReadError> {
        let key = Piece::Filter(segment.range().start);
        let pieces: Vec<_> = (0..segment.pieces()).map(|number| segment.piece(number)).collect();
        let read = self.pieces(&block.meta, &pieces, Hint::Metadata, stats).await?;
        let present = read.into_iter().map(|piece| piece.bytes).enumerate();
        let opened = for_the_cache(|| segment.open(present));
        let opened = Arc::new(opened.map_err(|reason| ReadError::damaged(&block.meta, reason))?);
        self.cache.insert(block.meta.id, key, Arc::clone(&opened), opened.memory_bytes());
        Ok(opened)
    }

    /// The block's counts, if they are cached.
    pub fn known_counts(&self, block: &OpenLogs) -> Option<Arc<BlockCounts>> {
        self.cache.get(block.meta.id, Piece::Counts)
    }

    /// Decodes the block's counts and caches them. Does no I/O.
    pub fn decode_counts(&self, block: &OpenLogs) -> Result<Arc<BlockCounts>, ReadError> {
        let damaged = |reason| ReadError::damaged(&block.meta, reason);
        let stored = block.footer.minute_counts();
        let make = |minute, lines, bytes| MinuteCount { minute, lines, bytes };
        let decoded = for_the_cache(|| stored.decode(None, make)).map_err(damaged)?;
        let weight =
            decoded.counts.len() * size_of::<MinuteCount>() + decoded.runs.len() * size_of::<CountRun>();
        let counts = Arc::new(BlockCounts { minutes: Arc::new(decoded.counts), runs: decoded.runs });
        self.cache.insert(block.meta.id, Piece::Counts, Arc::clone(&counts), weight as u64);
        Ok(counts)
    }
}

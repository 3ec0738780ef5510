//! The parts of log blocks in memory: needle filters and counts, opened through the cache.
//!
//! All bytes are checked against their checksums, here or when they are decoded.

use std::sync::Arc;

use sandur_format::log_block::{CountRun, Footer};
use sandur_format::needle::{FilterSegment, SegmentView};
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

/// Reading of parts that only log blocks have.
impl BlockReader {
    /// Reads a filter segment of the block.
    pub async fn segment(
        &self,
        block: &OpenLogs,
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
        let view = for_the_cache(|| segment.open(bytes));
        let view = view.map_err(|reason| ReadError::damaged(&block.meta, reason))?;
        let (weight, view) = (view.memory_bytes(), Arc::new(view));
        self.cache.insert(block.meta.id, piece, Arc::clone(&view), weight);
        Ok(view)
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

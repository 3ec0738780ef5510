//! Sample blocks in memory: footers, opened through the cache.

use std::sync::Arc;

use sandur_format::block::BlockIndex;
use sandur_format::catalog_entry::BlockMeta;
use sandur_format::sample_block::Footer;
use sandur_query::QueryStats;

use crate::block_cache::Piece;
use crate::block_reader::{BlockReader, ReadError};

/// A block whose footer is in memory.
pub(crate) struct OpenSamples {
    /// What the catalog says of it: in the snapshot of whoever opened it, since some of it changes.
    pub(crate) meta: Arc<BlockMeta>,
    /// The decoded footer.
    pub(crate) footer: Arc<Footer>,
}

/// How sample blocks are read.
impl BlockReader {
    /// The block with its footer.
    pub(crate) async fn open_samples(
        &self,
        meta: &Arc<BlockMeta>,
        stats: &QueryStats,
    ) -> Result<Arc<OpenSamples>, ReadError> {
        if let Some(footer) = self.cache.get::<Footer>(meta.id, Piece::Footer) {
            QueryStats::add(&stats.index_cache_hits, 1);
            return Ok(Arc::new(OpenSamples { meta: Arc::clone(meta), footer }));
        }
        let footer: Footer = self.footer(meta, stats).await?;
        let (weight, footer) = (footer.memory_bytes(), Arc::new(footer));
        self.cache.insert(meta.id, Piece::Footer, Arc::clone(&footer), weight);
        Ok(Arc::new(OpenSamples { meta: Arc::clone(meta), footer }))
    }
}

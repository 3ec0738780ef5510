//! Reads the indexes of sample blocks in parts, through the cache.
//!
//! **Life of a selection.** [`IndexReader::select`] finds the numbers of the values that match, and
//! reads the shortest lists of series first. It then applies the remaining matchers to the columns of
//! the remaining series where that reads less. [`IndexReader::page`] returns labels of 4,096 series.
//!
//! **Invariants.** The memory of a part is reserved before it is read. Damage is an error that names the
//! block; the caller decides whether it becomes a warning.

mod columns;
mod dictionary;
mod few;
mod joined;
mod kept;
mod page;
mod select;
#[cfg(test)]
mod tests;
mod values;
mod wanted_labels;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use sandur_cache::Hint;
use sandur_format::Error as FormatError;
use sandur_format::codec::Piece as StoredPiece;
use sandur_format::sample_block::index::{Index, Part, Place};
use sandur_memory::{MemoryBudget, OverBudget, Reservation};
use sandur_query::{Error, QueryContext, QueryStats};
use sandur_runtime::Lane;

pub(crate) use page::HeldPage;
pub(crate) use values::ValueStream;
pub(crate) use wanted_labels::WantedLabels;

use super::OpenSamples;
use crate::blocks::reader::BlockReader;
use crate::error::ReadError;

/// If an index has at most this many bytes outside of the footer, all of its parts are read with the
/// first one: which parts a query needs next is known only after reading earlier ones, and another round
/// trip takes longer than these bytes.
const SMALL_INDEX_BYTES: u64 = 2 << 20;
/// Up to this many plain bytes are decoded inline, because a job on the CPU pool costs more.
const LITTLE_BYTES: u64 = 64 << 10;

/// Why an index cannot be read.
#[derive(Debug)]
pub(crate) enum IndexError {
    /// The block cannot be read.
    Block(ReadError),
    /// The query fails.
    Query(Error),
}

impl From<ReadError> for IndexError {
    fn from(error: ReadError) -> Self {
        Self::Block(error)
    }
}

impl From<Error> for IndexError {
    fn from(error: Error) -> Self {
        Self::Query(error)
    }
}

impl From<OverBudget> for IndexError {
    fn from(refusal: OverBudget) -> Self {
        Self::Query(refusal.into())
    }
}

impl From<IndexError> for crate::error::Error {
    fn from(error: IndexError) -> Self {
        match error {
            IndexError::Block(error) => error.into(),
            IndexError::Query(Error::OverBudget(refusal)) => refusal.into(),
            IndexError::Query(error) => Self::Internal(error.to_string()),
        }
    }
}

/// Turns a block that cannot be read into a warning. Fails if the store does not answer.
pub(crate) fn or_warn<T>(context: &QueryContext, read: Result<T, IndexError>) -> Result<Option<T>, Error> {
    match read {
        Ok(value) => Ok(Some(value)),
        Err(IndexError::Query(error)) => Err(error),
        Err(IndexError::Block(error)) => crate::error::or_warn(context, Err(error)),
    }
}

/// The caller for which an index is read.
#[derive(Clone)]
enum Asker {
    Query(QueryContext),
    /// Upkeep.
    Upkeep(MemoryBudget, Arc<QueryStats>),
    /// Decoding ahead of queries. Decoded parts are cached as for a query.
    Ahead(MemoryBudget, Arc<QueryStats>),
}

impl Asker {
    /// Whether decoded parts are cached, because a query will probably need them next.
    fn keeps(&self) -> bool {
        matches!(self, Self::Query(_) | Self::Ahead(..))
    }
}

/// Reads the index of one block. Cheap to clone.
#[derive(Clone)]
pub(crate) struct IndexReader {
    reader: BlockReader,
    asker: Asker,
    block: Arc<OpenSamples>,
    /// Whether the other parts were already read along with some part. That is done once, even if the
    /// cache did not keep them.
    read_others: Arc<AtomicBool>,
}

impl IndexReader {
    /// A reader for a query.
    pub(crate) fn new(reader: &BlockReader, context: &QueryContext, block: &Arc<OpenSamples>) -> Self {
        Self::for_asker(reader, Asker::Query(context.clone()), block)
    }

    fn for_asker(reader: &BlockReader, asker: Asker, block: &Arc<OpenSamples>) -> Self {
        Self { reader: reader.clone(), asker, block: Arc::clone(block), read_others: Arc::default() }
    }

    /// A reader for merges and rewrites.
    pub(crate) fn for_upkeep(reader: &BlockReader, budget: &MemoryBudget, block: &Arc<OpenSamples>) -> Self {
        Self::for_asker(reader, Asker::Upkeep(budget.clone(), Arc::default()), block)
    }

    /// A reader that decodes the parts that queries will need.
    pub(crate) fn ahead_of_queries(
        reader: &BlockReader,
        budget: &MemoryBudget,
        block: &Arc<OpenSamples>,
    ) -> Self {
        Self::for_asker(reader, Asker::Ahead(budget.clone(), Arc::default()), block)
    }

    /// The block whose index is read.
    pub(crate) fn block(&self) -> &Arc<OpenSamples> {
        &self.block
    }

    fn index(&self) -> &Arc<Index> {
        self.block.footer.index()
    }

    fn stats(&self) -> &QueryStats {
        match &self.asker {
            Asker::Query(context) => context.stats(),
            Asker::Upkeep(_, stats) | Asker::Ahead(_, stats) => stats,
        }
    }

    fn reserve(&self, bytes: u64) -> Result<Reservation, OverBudget> {
        match &self.asker {
            Asker::Query(context) => context.budget().reserve(bytes),
            Asker::Upkeep(budget, _) | Asker::Ahead(budget, _) => budget.reserve(bytes),
        }
    }

    fn check(&self) -> Result<(), Error> {
        match &self.asker {
            Asker::Query(context) => context.check(),
            Asker::Upkeep(..) | Asker::Ahead(..) => Ok(()),
        }
    }

    fn damaged(&self, reason: FormatError) -> IndexError {
        ReadError::damaged(&self.block.meta, reason).into()
    }

    /// Decodes on the CPU pool, or inline if there is little to decode.
    async fn decode<T: Send + 'static>(
        &self,
        plain_bytes: u64,
        work: impl FnOnce(&Index) -> Result<T, FormatError> + Send + 'static,
    ) -> Result<T, IndexError> {
        let index = Arc::clone(self.index());
        let work = move || work(&index);
        let decoded = match &self.asker {
            Asker::Query(context) => {
                context.compute_sized(plain_bytes <= LITTLE_BYTES, move || Ok(work())).await?
            }
            Asker::Upkeep(..) | Asker::Ahead(..) if plain_bytes <= LITTLE_BYTES => work(),
            Asker::Upkeep(..) | Asker::Ahead(..) => self.reader.env.run_cpu(Lane::Background, work).await,
        };
        decoded.map_err(|reason| self.damaged(reason))
    }

    /// Returns the stored bytes of parts, in order. Those outside of the footer are read together.
    async fn stored(&self, parts: &[Part]) -> Result<Vec<Bytes>, IndexError> {
        let (mut found, mut pieces) = (Vec::with_capacity(parts.len()), Vec::new());
        for part in parts {
            match self.index().locate(part).map_err(|reason| self.damaged(reason))? {
                Place::Footer(bytes) => found.push(Some(bytes)),
                Place::Object(piece) => {
                    pieces.push(piece);
                    found.push(None);
                }
            }
        }
        if pieces.is_empty() {
            return Ok(found.into_iter().flatten().collect());
        }
        let hint = Hint::Scan { bytes: pieces.iter().map(|piece| u64::from(piece.len)).sum() };
        let (others, meta, stats) = (|| self.other_parts(), &self.block.meta, self.stats());
        let mut read = self.reader.pieces_alongside(meta, (&pieces, &others), hint, stats).await?.into_iter();
        let of = |found: Option<Bytes>| found.or_else(|| read.next().map(|piece| piece.bytes));
        Ok(found.into_iter().filter_map(of).collect())
    }
}

impl IndexReader {
    /// The pieces of all parts of a small index, for the first read from the store, and the memory for
    /// reading them. Empty if there is no memory for that.
    fn other_parts(&self) -> (Vec<StoredPiece>, Option<Reservation>) {
        let bytes = self.index().object_bytes();
        let is_small = bytes <= SMALL_INDEX_BYTES && matches!(self.asker, Asker::Query(_));
        if !is_small || self.read_others.swap(true, Ordering::Relaxed) {
            return (Vec::new(), None);
        }
        let Ok(memory) = self.reserve(bytes) else { return (Vec::new(), None) };
        let of_part = |part: Part| match self.index().locate(&part) {
            Ok(Place::Object(piece)) => Some(piece),
            // An invalid location is reported when the part is needed.
            Ok(Place::Footer(_)) | Err(_) => None,
        };
        (self.index().parts().filter_map(of_part).collect(), Some(memory))
    }
}

/// Opens parts in order.
fn open_all(parts: &[Part], stored: &[Bytes]) -> Result<Vec<Bytes>, FormatError> {
    parts.iter().zip(stored).map(|(part, bytes)| part.open(bytes)).collect()
}

/// Bytes of memory for reading and opening parts.
fn memory_of(parts: &[Part]) -> u64 {
    parts.iter().map(Part::memory_bytes).sum()
}

/// The cost of reading and decoding a part, as stored plus plain bytes. Plain bytes count as well,
/// because a list of a value that recurs at equal distances has few stored bytes but takes long to decode.
fn cost_of(part: &Part) -> u64 {
    u64::from(part.len) + u64::from(part.plain)
}

/// Stored bytes of parts.
fn stored_of(parts: &[Part]) -> u64 {
    parts.iter().map(|part| u64::from(part.len)).sum()
}

/// Plain bytes of parts.
fn plain_of(parts: &[Part]) -> u64 {
    parts.iter().map(|part| u64::from(part.plain)).sum()
}

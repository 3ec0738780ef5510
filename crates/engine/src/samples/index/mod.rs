//! Reading the indexes of sample blocks by parts, through the cache.
//!
//! **Life of a selection.** [`IndexReader::select`] finds the numbers of the values that matchers name, reads
//! the shortest lists of series first, and checks what is left of the matchers on the columns of the series
//! that are left, whenever that reads less. [`IndexReader::page`] gives labels of 4,096 series.
//!
//! **Invariants.** The memory of a part is reserved before it is read. What is damaged is an error that names
//! the block; the caller decides whether that is a warning.

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

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use sandur_base::{Lane, MemoryBudget, OverBudget, Reservation};
use sandur_cache::Hint;
use sandur_format::Error as FormatError;
use sandur_format::codec::Piece as StoredPiece;
use sandur_format::sample_block::index::{Index, Part, Place};
use sandur_query::{Error, QueryContext, QueryStats};

pub(crate) use page::{HeldPage, WantedLabels};
pub(crate) use values::ValueStream;

use super::OpenSamples;
use crate::block_reader::{BlockReader, ReadError};

/// Of an index with so few bytes outside of the footer all parts are read when one is: which parts a query
/// wants next is known only after the one before, and another round trip takes longer than these bytes.
const SMALL_INDEX_BYTES: u64 = 2 << 20;
/// Plain bytes that are quicker decoded than handed to the CPU pool.
const LITTLE_BYTES: u64 = 64 << 10;

/// Why an index cannot be read.
#[derive(Debug)]
pub(crate) enum IndexError {
    /// The block cannot be had.
    Block(ReadError),
    /// The query ends.
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

/// Blocks that cannot be had are warnings; a store that does not answer fails the query.
pub(crate) fn or_warn<T>(context: &QueryContext, read: Result<T, IndexError>) -> Result<Option<T>, Error> {
    match read {
        Ok(value) => Ok(Some(value)),
        Err(IndexError::Query(error)) => Err(error),
        Err(IndexError::Block(error)) => crate::block_reader::or_warn(context, Err(error)),
    }
}

/// On whose behalf an index is read.
#[derive(Clone)]
enum Asker {
    Query(QueryContext),
    /// The database itself.
    Upkeep(MemoryBudget, Arc<QueryStats>),
    /// The database itself, for queries to come: what it decodes is kept as theirs is.
    Ahead(MemoryBudget, Arc<QueryStats>),
}

impl Asker {
    /// Whether what is decoded is what queries ask for next.
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
    /// Whether parts were read with others beside them: once is enough, whatever is kept of them.
    read_beside: Arc<AtomicBool>,
}

impl IndexReader {
    /// A reader for a query.
    pub(crate) fn new(reader: &BlockReader, context: &QueryContext, block: &Arc<OpenSamples>) -> Self {
        Self::for_asker(reader, Asker::Query(context.clone()), block)
    }

    fn for_asker(reader: &BlockReader, asker: Asker, block: &Arc<OpenSamples>) -> Self {
        Self { reader: reader.clone(), asker, block: Arc::clone(block), read_beside: Arc::default() }
    }

    /// A reader for merges and rewrites.
    pub(crate) fn for_upkeep(reader: &BlockReader, budget: &MemoryBudget, block: &Arc<OpenSamples>) -> Self {
        Self::for_asker(reader, Asker::Upkeep(budget.clone(), Arc::default()), block)
    }

    /// A reader that decodes what queries will ask for.
    pub(crate) fn ahead_of_queries(
        reader: &BlockReader,
        budget: &MemoryBudget,
        block: &Arc<OpenSamples>,
    ) -> Self {
        Self::for_asker(reader, Asker::Ahead(budget.clone(), Arc::default()), block)
    }

    /// The block.
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

    /// Decodes on the CPU pool, or here when there is little to decode.
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

    /// The stored bytes of parts, in order: those of the object are read together.
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
        let (beside, _memory) = self.parts_beside();
        let (meta, stats) = (&self.block.meta, self.stats());
        let mut read = self.reader.pieces_alongside(meta, (&pieces, &beside), hint, stats).await?.into_iter();
        let of = |found: Option<Bytes>| found.or_else(|| read.next().map(|piece| piece.bytes));
        Ok(found.into_iter().filter_map(of).collect())
    }
}

impl IndexReader {
    /// Where the parts of a small index are, the first time that a query wants some, and memory for reading
    /// them; none when there is no memory for that.
    fn parts_beside(&self) -> (Vec<StoredPiece>, Option<Reservation>) {
        let bytes = self.index().object_bytes();
        let is_small = bytes <= SMALL_INDEX_BYTES && matches!(self.asker, Asker::Query(_));
        if !is_small || self.read_beside.swap(true, Ordering::Relaxed) {
            return (Vec::new(), None);
        }
        let Ok(memory) = self.reserve(bytes) else { return (Vec::new(), None) };
        let of_part = |part: Part| match self.index().locate(&part) {
            Ok(Place::Object(piece)) => Some(piece),
            // What lies nowhere is found out when it is wanted.
            Ok(Place::Footer(_)) | Err(_) => None,
        };
        (self.index().parts().filter_map(of_part).collect(), Some(memory))
    }
}

/// Opens parts in order.
fn open_all(parts: &[Part], stored: &[Bytes]) -> Result<Vec<Bytes>, FormatError> {
    parts.iter().zip(stored).map(|(part, bytes)| part.open(bytes)).collect()
}

/// Bytes that reading and opening parts takes.
fn memory_of(parts: &[Part]) -> u64 {
    parts.iter().map(Part::memory_bytes).sum()
}

/// What it costs to read and to decode a part, in bytes of either: a list of a value that comes again and
/// again at equal distances is stored in few bytes, and takes long to decode.
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

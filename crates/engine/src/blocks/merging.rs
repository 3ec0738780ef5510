//! The traits that a signal implements for compaction: how its blocks are opened, what deletes and
//! retention remove from them, and how several become one.
//!
//! A merge is a state machine without I/O ([`Merge`]): it computes until it needs a page or has output.
//! So it runs on the CPU pool with a bounded number of pages in memory. The compactor of
//! [`crate::upkeep`] does the I/O and does not interpret pages.

use std::future::Future;
use std::sync::Arc;

use bytes::Bytes;
use sandur_format::block::{BlockOrigin, BlockSummary};
use sandur_format::catalog_entry::{BlockForms, BlockMeta};
use sandur_format::stamp::StampSpan;
use sandur_memory::MemoryBudget;
use sandur_model::{TenantId, TimeRange};

use crate::blocks::reader::BlockReader;
use crate::error::{Error, ReadError};
use crate::policy::expired::ExpiredSeries;
use crate::policy::retention::Expiry;
use crate::policy::rollups::DayRollup;
use crate::rules::DueRules;

/// Bytes of output that a merge hands over at once.
pub(crate) const OUTPUT_BYTES: u64 = 4 << 20;

/// The block that a merge makes.
#[derive(Clone, Debug)]
pub(crate) struct Target {
    /// The tenant that owns the rows.
    pub(crate) tenant: TenantId,
    /// The window of the block.
    pub(crate) window: TimeRange,
    /// How often its rows were compacted.
    pub(crate) level: u8,
    /// The origin that the block records: its inputs and its place.
    pub(crate) origin: BlockOrigin,
    /// Which points become rollups, if any.
    pub(crate) rollup: Option<Arc<DayRollup>>,
    /// The newest versions of blocks that all processes read.
    pub(crate) forms: BlockForms,
    /// Whether rows keep their stamps.
    pub(crate) stamped: bool,
}

/// The result of a step of a merge: what it needs, or its output.
pub(crate) enum Step<P> {
    /// Supply this page.
    Need(P),
    /// Store these bytes, then call [`Merge::step`] again.
    Output(Vec<Bytes>),
    /// Store these bytes; the block is complete.
    Finished(Vec<Bytes>, BlockSummary, MergeCounts),
}

/// Counts of a merge.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct MergeCounts {
    /// Pages that were copied unchanged.
    pub(crate) moved_pages: u64,
    /// Pages that were merged row by row.
    pub(crate) merged_pages: u64,
    /// Rows left out as duplicates.
    pub(crate) duplicates: u64,
    /// Rows that deletes or retention removed.
    pub(crate) deleted: u64,
    /// Rows that were replaced by rollups.
    pub(crate) rolled: u64,
    /// Rows of these rollups.
    pub(crate) rollups: u64,
    /// Exemplars and metadata in the result, which is worth storing for them even without rows.
    pub(crate) annotations: u64,
    /// The exemplars among these.
    pub(crate) exemplars: u64,
}

impl MergeCounts {
    /// Fails unless the rows after the merge are those before it minus and plus the counted ones.
    pub(crate) fn check(&self, before: u64, after: u64) -> Result<(), Error> {
        if after + self.duplicates + self.deleted + self.rolled == before + self.rollups {
            return Ok(());
        }
        Err(Error::Internal(format!("a merge of {before} rows made {after} rows")))
    }
}

/// Merges blocks into one.
pub(crate) trait Merge: Send + 'static {
    /// Identifies a page of an input.
    type Page: Send;
    /// The stored bytes of a page.
    type Bytes: Send;

    /// Computes until the merge needs a page, has output, or is complete.
    fn step(&mut self) -> Result<Step<Self::Page>, Error>;

    /// Supplies the page that the last step needs.
    fn supply(&mut self, bytes: Self::Bytes);
}

/// Compaction of a signal's blocks.
pub(crate) trait Merging: Send + Sync + 'static {
    /// An opened block.
    type Block: Send + Sync;
    /// What deletes and retention remove from a block.
    type Touched: Send;
    /// A merge in progress.
    type Merger: Merge;

    /// Opens a block.
    fn open(
        reader: &BlockReader,
        meta: &Arc<BlockMeta>,
    ) -> impl Future<Output = Result<Arc<Self::Block>, ReadError>> + Send;

    /// The span of the stamps of a block's rows; `None` if none has a stamp.
    fn stamps(_: &Self::Block) -> Option<StampSpan> {
        None
    }

    /// Computes what delete rules remove from a block.
    fn touch(
        reader: &BlockReader,
        block: &Arc<Self::Block>,
        due: &DueRules,
        budget: &MemoryBudget,
    ) -> impl Future<Output = Result<Self::Touched, Error>> + Send;

    /// Finds the series of a block that are past their retention.
    fn expired(
        reader: &BlockReader,
        block: &Arc<Self::Block>,
        expiry: &Arc<Expiry>,
        budget: &MemoryBudget,
    ) -> impl Future<Output = Result<ExpiredSeries, Error>> + Send;

    /// Removes these series as well as what the rules remove.
    fn take_out(touched: &mut Self::Touched, expired: &ExpiredSeries, of: (&Arc<BlockMeta>, &Arc<Expiry>));

    /// Removes rows outside of a window as well. The window's ends are multiples of a millisecond.
    fn keep_only(touched: &mut Self::Touched, window: TimeRange);

    /// Whether nothing is removed from the block.
    fn is_untouched(touched: &Self::Touched) -> bool;

    /// Begins a merge of these blocks, without what is removed from each.
    fn merger(
        inputs: &[Arc<Self::Block>],
        touched: Vec<Self::Touched>,
        target: Target,
        budget: MemoryBudget,
    ) -> Result<Self::Merger, Error>;

    /// Reads a page that the merge needs. Its memory is reserved from the budget.
    fn fetch(
        reader: &BlockReader,
        inputs: &[Arc<Self::Block>],
        page: <Self::Merger as Merge>::Page,
        budget: &MemoryBudget,
    ) -> impl Future<Output = Result<<Self::Merger as Merge>::Bytes, Error>> + Send;
}

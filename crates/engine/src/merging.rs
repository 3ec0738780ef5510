//! What compaction asks of a signal: how its blocks are opened, what deletes and retention do to them, and
//! how several become one.
//!
//! A merge is a state machine without I/O ([`Merge`]): it computes until it needs a page or has output, so
//! that it runs on the CPU pool with a bounded number of pages in memory. [`crate::compact`] does the I/O
//! and knows nothing of what is in a page.

use std::future::Future;
use std::sync::Arc;

use bytes::Bytes;
use sandur_base::MemoryBudget;
use sandur_format::block::{BlockOrigin, BlockSummary};
use sandur_format::catalog_entry::BlockMeta;
use sandur_model::{TenantId, TimeRange};

use crate::block_reader::{BlockReader, ReadError};
use crate::error::Error;
use crate::retention::{ExpiredSeries, Expiry};
use crate::rollups::DayRollup;
use crate::rules::DueRules;

/// Output that is handed over at once.
pub(crate) const OUTPUT_BYTES: u64 = 4 << 20;

/// The block that a merge makes.
#[derive(Clone, Debug)]
pub(crate) struct Target {
    /// Whose rows it holds.
    pub(crate) tenant: TenantId,
    /// The window that it belongs to.
    pub(crate) window: TimeRange,
    /// How often its rows were compacted.
    pub(crate) level: u8,
    /// What it is made from.
    pub(crate) origin: BlockOrigin,
    /// Which points become rollups in it.
    pub(crate) rollup: Option<Arc<DayRollup>>,
}

/// What a merge needs or has.
pub(crate) enum Step<P> {
    /// Give it this page of this input.
    Need(P),
    /// Store these bytes, then go on.
    Output(Vec<Bytes>),
    /// Store these bytes; the block is complete.
    Finished(Vec<Bytes>, BlockSummary, MergeCounts),
}

/// What a merge did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct MergeCounts {
    /// Pages that were moved as they are.
    pub(crate) moved_pages: u64,
    /// Pages that were merged row by row.
    pub(crate) merged_pages: u64,
    /// Rows that were there twice.
    pub(crate) duplicates: u64,
    /// Rows that deletes or retention took out.
    pub(crate) deleted: u64,
    /// Rows that rollups stand for.
    pub(crate) rolled: u64,
    /// Rows of these rollups.
    pub(crate) rollups: u64,
    /// Exemplars and metadata that the result has: it is of use without rows, too.
    pub(crate) beside: u64,
    /// The exemplars among these.
    pub(crate) exemplars: u64,
}

impl MergeCounts {
    /// Fails when a merge of so many rows lost some.
    pub(crate) fn check(&self, before: u64, after: u64) -> Result<(), Error> {
        if after + self.duplicates + self.deleted + self.rolled == before + self.rollups {
            return Ok(());
        }
        Err(Error::Internal(format!("a merge of {before} rows made {after} of them")))
    }
}

/// Merges blocks into one.
pub(crate) trait Merge: Send + 'static {
    /// Which page it needs.
    type Page: Send;
    /// What it is given then.
    type Bytes: Send;

    /// Computes until it needs a page, has output, or is done.
    fn step(&mut self) -> Result<Step<Self::Page>, Error>;

    /// Gives the page that the last step asked for.
    fn supply(&mut self, bytes: Self::Bytes);
}

/// How blocks of a signal are merged.
pub(crate) trait Merging: Send + Sync + 'static {
    /// An opened block.
    type Block: Send + Sync;
    /// What deletes do to one.
    type Touched: Send;
    /// Several on their way to become one.
    type Merger: Merge;

    /// Opens a block.
    fn open(
        reader: &BlockReader,
        meta: &Arc<BlockMeta>,
    ) -> impl Future<Output = Result<Arc<Self::Block>, ReadError>> + Send;

    /// What rules do to a block.
    fn touch(
        reader: &BlockReader,
        block: &Arc<Self::Block>,
        due: &DueRules,
        budget: &MemoryBudget,
    ) -> impl Future<Output = Result<Self::Touched, Error>> + Send;

    /// The series of a block that are kept no longer.
    fn expired(
        reader: &BlockReader,
        block: &Arc<Self::Block>,
        expiry: &Arc<Expiry>,
        budget: &MemoryBudget,
    ) -> impl Future<Output = Result<ExpiredSeries, Error>> + Send;

    /// Takes these series of a block out beside what the rules take out.
    fn take_out(touched: &mut Self::Touched, expired: &ExpiredSeries, of: (&Arc<BlockMeta>, &Arc<Expiry>));

    /// Takes out what lies outside of a window as well, whose ends are whole milliseconds.
    fn keep_only(touched: &mut Self::Touched, window: TimeRange);

    /// Whether they do nothing to it.
    fn is_untouched(touched: &Self::Touched) -> bool;

    /// A merge of these blocks without the rows that deletes take out of each.
    fn merger(
        inputs: &[Arc<Self::Block>],
        touched: Vec<Self::Touched>,
        target: Target,
        budget: MemoryBudget,
    ) -> Result<Self::Merger, Error>;

    /// A page that the merge asked for; its memory is of the budget.
    fn fetch(
        reader: &BlockReader,
        inputs: &[Arc<Self::Block>],
        page: <Self::Merger as Merge>::Page,
        budget: &MemoryBudget,
    ) -> impl Future<Output = Result<<Self::Merger as Merge>::Bytes, Error>> + Send;
}

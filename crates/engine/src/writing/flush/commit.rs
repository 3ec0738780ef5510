//! The commits of a flush: first blocks of complete datasets, at last the remaining blocks with the WAL
//! floor.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use sandur_base::Id;
use sandur_catalog::{CommitError, Snapshot};
use sandur_format::catalog_entry::{BlockMeta, Edit, Precondition};
use sandur_model::{Dataset, TimeRange};
use sandur_runtime::Backoff;

use crate::error::Error;
use crate::head::Head;
use crate::view::floor_of;
use crate::writing::flush::flusher::Flusher;
use crate::writing::flush::outcome::{Ending, Flushed, HeadFlush};

/// The pauses between attempts to commit.
const COMMITS: Backoff = Backoff::new(Duration::from_millis(500), Duration::from_secs(15));

/// A transaction, with what shows whether an earlier attempt of it succeeded.
struct Transaction<'a> {
    author: Id,
    incarnation: Id,
    /// The floor that it requires, and the floor after it.
    floors: (u64, u64),
    blocks: &'a [BlockMeta],
    fence: Option<u64>,
    /// The last stamp below the floor, if samples have stamps: those of later frames are later.
    stamps_after: Option<u64>,
}

impl Flusher {
    /// Commits blocks and leaves the floor where it is. Returns `None` when another process was first.
    pub(crate) async fn commit_blocks(
        &self,
        HeadFlush { author, head, floor, .. }: &HeadFlush,
        blocks: &[BlockMeta],
    ) -> Result<Option<Arc<Snapshot>>, Error> {
        let (incarnation, floors) = (head.incarnation(), (*floor, *floor));
        self.note_same_rows(head, blocks);
        let (fence, stamps_after) = (None, None);
        self.commit(Transaction { author: *author, incarnation, floors, blocks, fence, stamps_after }).await
    }

    /// Commits the last blocks of a head and moves the floor past it.
    pub(crate) async fn commit_floor(
        &self,
        HeadFlush { author, head, ending, .. }: &HeadFlush,
        blocks: &[BlockMeta],
    ) -> Result<Flushed, Error> {
        let (incarnation, floors) = (head.incarnation(), (head.start(), head.end()));
        let fence = match ending {
            Ending::Open => None,
            Ending::Sealed { fence } => Some(*fence),
        };
        let stamps_after = head.samples().stamps().map(|(_, last)| last);
        let transaction = Transaction { author: *author, incarnation, floors, blocks, fence, stamps_after };
        self.note_same_rows(head, blocks);
        let Some(snapshot) = self.commit(transaction).await? else { return Ok(Flushed::Overtaken) };
        self.node.views.publish(snapshot);
        Ok(Flushed::Committed)
    }

    /// Notes for each dataset that its blocks have the rows of the head.
    fn note_same_rows(&self, head: &Head, blocks: &[BlockMeta]) {
        let mut of_datasets: BTreeMap<&Dataset, Vec<&BlockMeta>> = BTreeMap::new();
        blocks.iter().for_each(|block| of_datasets.entry(&block.dataset).or_default().push(block));
        for (dataset, blocks) in of_datasets {
            let holdings = head.holdings(dataset, TimeRange::ALL);
            self.node.views.same_rows().note_flush((holdings, head.rows(dataset)), &blocks);
        }
    }

    /// Retries until the transaction is committed or another process was first.
    async fn commit(&self, transaction: Transaction<'_>) -> Result<Option<Arc<Snapshot>>, Error> {
        let incarnation = transaction.incarnation;
        let (edits, preconditions) = (transaction.edits(), transaction.preconditions());
        let mut pauses = COMMITS.pauses();
        loop {
            let committed =
                self.node.catalog.commit(transaction.author, edits.clone(), preconditions.clone()).await;
            let error = match committed {
                Ok(snapshot) => return Ok(Some(snapshot)),
                Err(CommitError::Rejected { why }) => {
                    let snapshot = self.node.catalog.refresh().await?;
                    let done = transaction.is_done(&snapshot);
                    tracing::info!(%incarnation, %why, done, "a flush was settled by an earlier commit");
                    if !done {
                        self.node.views.publish(snapshot);
                        return Ok(None);
                    }
                    return Ok(Some(snapshot));
                }
                Err(CommitError::TooLarge(error)) => return Err(Error::Internal(error.to_string())),
                Err(error) => error,
            };
            self.node.expect_catalog()?;
            tracing::warn!(%incarnation, %error, "the commit of a flush is tried again");
            self.node.metrics.flush_failures.inc();
            self.node.env.sleep(pauses.after_failure()).await;
        }
    }
}

impl Transaction<'_> {
    fn edits(&self) -> Vec<Edit> {
        let (incarnation, (from, to)) = (self.incarnation, self.floors);
        let mut edits: Vec<Edit> = self.blocks.iter().cloned().map(Edit::AddBlock).collect();
        if from < to {
            edits.push(Edit::Floor { incarnation, from, to });
        }
        edits.extend(self.stamps_after.map(|time| Edit::StampsAfter { incarnation, time }));
        edits.extend(self.fence.map(|fence| Edit::Seal { incarnation, fence }));
        edits
    }

    fn preconditions(&self) -> Vec<Precondition> {
        let incarnation = self.incarnation;
        let floor = Precondition::FloorIs { incarnation, at: self.floors.0 };
        vec![floor, Precondition::Live { incarnation }]
    }

    /// Whether an earlier attempt succeeded. Its blocks may be merged already, so the floor decides when
    /// there were none or they are gone.
    fn is_done(&self, snapshot: &Snapshot) -> bool {
        let is_past = floor_of(snapshot, self.incarnation) >= self.floors.1;
        is_past && self.blocks.iter().all(|block| snapshot.is_referenced(block.id))
    }
}

#[cfg(test)]
mod tests {
    use sandur_format::catalog_entry::{ENTRY_BYTES_MAX, Transaction as Encoded};
    use sandur_model::{Signal, TenantId};

    use super::*;
    use crate::blocks::block_meta;
    use crate::writing::flush::flusher::COMMIT_BLOCKS_MAX;

    #[test]
    fn the_largest_transaction_of_a_flush_is_smaller_than_an_entry() {
        let tenant = TenantId::new(&"t".repeat(150)).unwrap();
        let dataset = Dataset { tenant, signal: Signal::Metrics };
        let mut block = block_meta::unwritten(Id(u128::MAX), Id(u128::MAX), &dataset, TimeRange::ALL, 0);
        (block.rows, block.raw_bytes, block.size, block.footer_offset) =
            (u64::MAX, u64::MAX, u64::MAX, u64::MAX);
        (block.streams, block.pages, block.footer_len) = (u32::MAX, u32::MAX, u32::MAX);
        let blocks = vec![block; 2 * COMMIT_BLOCKS_MAX + 64];
        let (author, incarnation, floors) = (Id(1), Id(2), (u64::MAX - 1, u64::MAX));
        let (blocks, fence, stamps_after) = (&blocks[..], Some(u64::MAX), Some(u64::MAX));
        let largest = Transaction { author, incarnation, floors, blocks, fence, stamps_after };
        let (edits, preconditions) = (largest.edits(), largest.preconditions());
        let encoded = Encoded { sequence: u64::MAX, author, preconditions, edits };
        let bytes = encoded.encoded_len().unwrap();
        assert!(bytes < ENTRY_BYTES_MAX / 4 * 3, "{bytes}");
    }
}

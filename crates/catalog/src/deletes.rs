//! Delete requests in the replicated state: which there are, how far they have come, what is left to do.
//!
//! A request hides its lines from the entry that creates it. The entry that starts it is a mark: a block
//! made from a later snapshot, by a maker that left out the lines of all started requests, says so in
//! [`BlockMeta::deletes_through`]. Which blocks still hold lines is therefore a comparison of numbers, and
//! finishing a request is refused as long as there is one: no clock and no message decides.

use std::collections::BTreeMap;
use std::sync::Arc;

use sandur_base::Id;
use sandur_format::catalog_entry::{
    BlockMeta, DeleteProgress, DeleteRecord, DeleteRequest, Edit, TenantDeletes,
};
use sandur_model::Dataset;

use crate::error::EditFault;
use crate::snapshot::Snapshot;

/// Open delete requests of one dataset at most: each costs at every read of what it names.
pub const OPEN_DELETES_MAX: usize = 1_000;
/// Processed delete requests of one dataset that are remembered, the latest by id.
const PROCESSED_DELETES_KEPT: usize = 1_000;
/// Bytes that the queries of a dataset's open requests take together at most, and so those of the remembered
/// ones: they are part of every checkpoint's root.
pub const DELETE_QUERIES_BYTES_MAX: usize = 1 << 20;

pub(crate) type Deletes = BTreeMap<Dataset, Arc<TenantDeletes>>;

impl Snapshot {
    /// The delete requests of a dataset by id, processed ones too.
    pub fn deletes(&self, dataset: &Dataset) -> impl DoubleEndedIterator<Item = &DeleteRecord> {
        self.deletes.get(dataset).into_iter().flat_map(|of| of.requests.values())
    }

    /// A delete request.
    pub fn delete(&self, dataset: &Dataset, id: Id) -> Option<&DeleteRecord> {
        self.deletes.get(dataset)?.requests.get(&id)
    }

    /// Datasets that have or had delete requests.
    pub fn datasets_with_deletes(&self) -> impl Iterator<Item = &Dataset> {
        self.deletes.keys()
    }

    /// A number that grows whenever the lines that are hidden from queries of the dataset may have changed;
    /// 0 for a dataset that never had a delete request. Answers that are kept for later belong to the
    /// generation under which they were made: with another one they must not be used.
    pub fn delete_generation(&self, dataset: &Dataset) -> u64 {
        self.deletes.get(dataset).map_or(0, |of| of.generation)
    }

    /// The blocks that may hold lines of a started request; none before it is started.
    pub fn unclean_blocks<'a>(
        &'a self,
        record: &'a DeleteRecord,
    ) -> impl Iterator<Item = &'a Arc<BlockMeta>> {
        let started = record.started_at();
        let blocks = self.blocks(&record.request.dataset, record.request.range());
        blocks.filter(move |block| started.is_some_and(|at| block.deletes_through < at))
    }

    /// How much of a started request is done, in percent; 0 before it is started, 100 once it is processed.
    pub fn delete_percent(&self, record: &DeleteRecord) -> u8 {
        match record.progress {
            DeleteProgress::Received => 0,
            DeleteProgress::Processed { .. } => 100,
            DeleteProgress::Started { blocks, .. } => {
                let left = (self.unclean_blocks(record).count() as u64).min(blocks);
                let done = (blocks - left) * 100;
                // Nothing left is not yet the end: rows in memory may have to become blocks first.
                done.checked_div(blocks).unwrap_or(99).min(99) as u8
            }
        }
    }

    /// Whether an edit that concerns deletes is allowed.
    pub(crate) fn check_delete(&self, edit: &Edit) -> Result<(), EditFault> {
        let find = |dataset, id| self.delete(dataset, id).ok_or(EditFault::NoDelete);
        match edit {
            Edit::CreateDelete(request) => match self.delete(&request.dataset, request.id) {
                Some(known) if known.request == *request => Ok(()),
                Some(_) => Err(EditFault::Duplicate),
                None => self.check_room(request),
            },
            Edit::StartDelete { dataset, id } => match find(dataset, *id)?.progress {
                DeleteProgress::Processed { .. } => Err(EditFault::DeleteProcessed),
                DeleteProgress::Received | DeleteProgress::Started { .. } => Ok(()),
            },
            Edit::CancelDelete { dataset, id, started } => match find(dataset, *id)?.progress {
                DeleteProgress::Processed { .. } => Err(EditFault::DeleteProcessed),
                DeleteProgress::Started { .. } if !started => Err(EditFault::DeleteStarted),
                DeleteProgress::Received | DeleteProgress::Started { .. } => Ok(()),
            },
            Edit::FinishDelete { dataset, id, .. } => {
                let record = find(dataset, *id)?;
                match record.progress {
                    DeleteProgress::Received => Err(EditFault::DeleteNotStarted),
                    DeleteProgress::Processed { .. } => Ok(()),
                    DeleteProgress::Started { .. } => match self.unclean_blocks(record).next() {
                        Some(_) => Err(EditFault::DeleteUnfinished),
                        None => Ok(()),
                    },
                }
            }
            Edit::BlocksClean { through, .. } if *through > self.number => Err(EditFault::Future),
            _ => Ok(()),
        }
    }

    /// Whether the dataset may have one more open request.
    fn check_room(&self, request: &DeleteRequest) -> Result<(), EditFault> {
        let open = || self.deletes(&request.dataset).filter(|record| record.is_open());
        if open().count() >= OPEN_DELETES_MAX {
            return Err(EditFault::DeletesFull);
        }
        let queries: usize = open().map(|record| record.request.query.len()).sum();
        if queries + request.query.len() > DELETE_QUERIES_BYTES_MAX {
            return Err(EditFault::DeleteQueriesFull);
        }
        Ok(())
    }

    /// Performs an edit that concerns deletes and was checked.
    pub(crate) fn perform_delete(&mut self, edit: &Edit) {
        match edit {
            Edit::CreateDelete(request) if self.delete(&request.dataset, request.id).is_none() => {
                let record = DeleteRecord { request: request.clone(), progress: DeleteProgress::Received };
                self.change(&request.dataset, |of| drop(of.requests.insert(request.id, record)));
            }
            Edit::StartDelete { dataset, id } => {
                let received = |record: &&DeleteRecord| record.progress == DeleteProgress::Received;
                let Some(record) = self.delete(dataset, *id).filter(received) else { return };
                let at = self.number;
                let blocks = self.blocks(dataset, record.request.range()).count() as u64;
                self.set_progress(dataset, *id, DeleteProgress::Started { at, blocks });
            }
            Edit::CancelDelete { dataset, id, .. } if self.delete(dataset, *id).is_some() => {
                self.change(dataset, |of| drop(of.requests.remove(id)));
            }
            Edit::FinishDelete { dataset, id, at_ms }
                if self.delete(dataset, *id).is_some_and(DeleteRecord::is_open) =>
            {
                self.set_progress(dataset, *id, DeleteProgress::Processed { at_ms: *at_ms });
                self.change(dataset, forget_oldest);
            }
            Edit::BlocksClean { ids, through } => {
                for id in ids {
                    self.blocks.mark_clean(*id, *through);
                }
            }
            _ => {}
        }
    }

    fn set_progress(&mut self, dataset: &Dataset, id: Id, progress: DeleteProgress) {
        self.change(dataset, |of| {
            if let Some(record) = of.requests.get_mut(&id) {
                record.progress = progress;
            }
        });
    }

    fn change(&mut self, dataset: &Dataset, change: impl FnOnce(&mut TenantDeletes)) {
        let deletes = Arc::make_mut(&mut self.deletes);
        let of_dataset = Arc::make_mut(deletes.entry(dataset.clone()).or_default());
        change(of_dataset);
        of_dataset.generation = self.number;
    }
}

fn forget_oldest(of: &mut TenantDeletes) {
    let (mut kept, mut bytes) = (0, 0);
    let mut forgotten = Vec::new();
    for request in of.requests.values().rev().filter(|r| !r.is_open()).map(|r| &r.request) {
        kept += 1;
        bytes += request.query.len();
        if kept > PROCESSED_DELETES_KEPT || bytes > DELETE_QUERIES_BYTES_MAX {
            forgotten.push(request.id);
        }
    }
    for id in forgotten {
        of.requests.remove(&id);
    }
}

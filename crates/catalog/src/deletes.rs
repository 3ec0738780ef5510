//! Delete requests in the replicated state: the requests, their progress, and the remaining work.
//!
//! A request hides its lines from the entry that creates it. The entry that starts it is a mark: a block
//! that was made from a later snapshot, without the lines of all started requests, records this in
//! [`BlockMeta::deletes_through`]. So comparing numbers shows which blocks may still hold lines, and a
//! request cannot be finished while there is one. No clock and no message is involved.

use std::sync::Arc;

use sandur_base::Id;
use sandur_format::catalog_entry::{
    BlockMeta, DeleteProgress, DeleteRecord, DeleteRequest, Edit, TenantDeletes,
};
use sandur_model::Dataset;

use crate::error::EditFault;
use crate::snapshot::Snapshot;

/// Most open delete requests of one dataset: each costs time at every read of the data that it covers.
pub const OPEN_DELETES_MAX: usize = 1_000;
/// Most processed delete requests of one dataset that are kept: those with the highest ids.
const PROCESSED_DELETES_KEPT: usize = 1_000;
/// Most bytes of the queries of a dataset's open requests together, and so of the kept ones: they are
/// part of every checkpoint's root.
pub const DELETE_QUERIES_BYTES_MAX: usize = 1 << 20;

impl Snapshot {
    /// Returns the delete requests of a dataset by id, including processed ones.
    pub fn deletes(&self, dataset: &Dataset) -> impl DoubleEndedIterator<Item = &DeleteRecord> {
        self.deletes.get(dataset).into_iter().flat_map(|of| of.requests.values())
    }

    /// Returns a delete request.
    pub fn delete(&self, dataset: &Dataset, id: Id) -> Option<&DeleteRecord> {
        self.deletes.get(dataset)?.requests.get(&id)
    }

    /// Returns the datasets that have or had delete requests.
    pub fn datasets_with_deletes(&self) -> impl Iterator<Item = &Dataset> {
        self.deletes.keys()
    }

    /// Returns a number that grows whenever the lines hidden from queries of the dataset may have
    /// changed; 0 for a dataset that never had a delete request. A cached answer belongs to the
    /// generation under which it was made, and must not be used under another one.
    pub fn delete_generation(&self, dataset: &Dataset) -> u64 {
        self.deletes.get(dataset).map_or(0, |of| of.generation)
    }

    /// Returns the blocks that may hold lines of a started request; none before it is started.
    pub fn unclean_blocks<'a>(
        &'a self,
        record: &'a DeleteRecord,
    ) -> impl Iterator<Item = &'a Arc<BlockMeta>> {
        let started = record.started_at();
        let blocks = self.blocks(&record.request.dataset, record.request.range());
        blocks.filter(move |block| started.is_some_and(|at| block.deletes_through < at))
    }

    /// Returns the progress of a request in percent: 0 before it is started, 100 once it is processed.
    pub fn delete_percent(&self, record: &DeleteRecord) -> u8 {
        match record.progress {
            DeleteProgress::Received => 0,
            DeleteProgress::Processed { .. } => 100,
            DeleteProgress::Started { blocks, .. } => {
                let left = (self.unclean_blocks(record).count() as u64).min(blocks);
                let done = (blocks - left) * 100;
                // With no block left the request may still be unfinished: rows in memory may have to
                // become blocks first.
                done.checked_div(blocks).unwrap_or(99).min(99) as u8
            }
        }
    }

    /// Checks whether an edit that concerns deletes is allowed.
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

    /// Checks whether the dataset may have one more open request.
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

    /// Applies an edit that concerns deletes and was checked.
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

//! The API of delete requests: create, list, cancel.

use std::sync::Arc;
use std::time::Duration;

use sandur_base::Id;
use sandur_catalog::{CommitError, DeleteRecord, DeleteRequest, Rejection};
use sandur_format::catalog_entry::Edit;
use sandur_model::Dataset;

use crate::error::{CancelRefusal, Error, refused};
use crate::node::Node;
use crate::rules::Rulebook;
use crate::upkeep::author::Author;

/// A delete request with its progress.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeleteStatus {
    /// The request.
    pub record: DeleteRecord,
    /// Progress in percent: 0 before it is started, 100 when it is processed.
    pub percent: u8,
}

impl DeleteStatus {
    fn check_cancel(&self, period: Duration, now_ms: i64, force: bool) -> Result<(), CancelRefusal> {
        let period_ms = i64::try_from(period.as_millis()).unwrap_or(i64::MAX);
        let is_late = self.record.request.created_ms.saturating_add(period_ms) < now_ms;
        match self.percent {
            100 => Err(CancelRefusal::Processed),
            started if (started > 0 || is_late) && !force => Err(CancelRefusal::Late { period }),
            _ => Ok(()),
        }
    }
}

/// Delete requests of all processes, on behalf of this one.
pub(crate) struct DeleteRequests<'e> {
    pub(crate) node: &'e Node,
    pub(crate) author: &'e dyn Author,
    pub(crate) rulebook: &'e Rulebook,
}

impl DeleteRequests<'_> {
    /// Hides the lines that a query selects in a time range, both ends inclusive, and schedules their
    /// removal. When it returns, no query of this process shows them; other processes follow when they
    /// have read the catalog. Fails if the engine's compiler cannot read the query, or the compiled
    /// query is too large.
    pub(crate) async fn create(
        &self,
        dataset: &Dataset,
        query: &str,
        start_ms: i64,
        end_ms: i64,
    ) -> Result<Id, Error> {
        let (id, created_ms) = (self.node.env.new_id(), self.node.env.now_ns() / 1_000_000);
        let (dataset, query) = (dataset.clone(), query.to_owned());
        let request = DeleteRequest { id, dataset, query, start_ms, end_ms, created_ms };
        self.rulebook.check(&request).await?;
        self.commit("a delete request", Edit::CreateDelete(request)).await?;
        self.node.metrics.deletes_created.inc();
        Ok(id)
    }

    /// Whether a query looks at rows or names complete series. Fails if no request may have this query.
    pub(crate) async fn check(&self, dataset: &Dataset, query: &str) -> Result<bool, Error> {
        let (id, dataset, query) = (self.node.env.new_id(), dataset.clone(), query.to_owned());
        let request = DeleteRequest { id, dataset, query, start_ms: 0, end_ms: 0, created_ms: 0 };
        Ok(self.rulebook.check(&request).await?)
    }

    /// Cancels a request: its lines are shown again, unless they were removed. A request that was
    /// started, or whose cancellation period is over, is cancelled only with `force`.
    pub(crate) async fn cancel(&self, dataset: &Dataset, id: Id, force: bool) -> Result<(), Error> {
        let all = self.list(dataset).await?;
        let found = all.iter().find(|status| status.record.request.id == id);
        let status = found.ok_or(CancelRefusal::Unknown)?;
        let period = self.rulebook.cancel_period();
        status.check_cancel(period, self.node.env.now_ns() / 1_000_000, force)?;
        let edit = Edit::CancelDelete { dataset: dataset.clone(), id, started: force };
        self.commit("the cancellation of a delete request", edit).await?;
        self.node.metrics.deletes_cancelled.inc();
        Ok(())
    }

    /// The requests of a dataset from all processes, by id.
    pub(crate) async fn list(&self, dataset: &Dataset) -> Result<Vec<DeleteStatus>, Error> {
        let snapshot = self.node.catalog.refresh().await?;
        self.author.publish(Arc::clone(&snapshot));
        let status = |record: &DeleteRecord| DeleteStatus {
            percent: snapshot.delete_percent(record),
            record: record.clone(),
        };
        Ok(snapshot.deletes(dataset).map(status).collect())
    }

    async fn commit(&self, what: &'static str, edit: Edit) -> Result<(), Error> {
        let committed = self.node.catalog.commit(self.author.incarnation(), vec![edit], Vec::new()).await;
        let committed = committed.map_err(|error| match &error {
            // The fault alone, because the edit would repeat the complete request.
            CommitError::Rejected { why } => match &**why {
                Rejection::Edit { fault, .. } => {
                    Error::Refused { what, reason: fault.to_string(), kind: error.kind() }
                }
                Rejection::Precondition(_) => refused(what, &error),
            },
            _ => refused(what, &error),
        });
        self.author.publish(committed?);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use sandur_catalog::DeleteProgress;
    use sandur_model::TenantId;

    use super::*;

    #[test]
    fn late_cancellations_must_be_forced_and_processed_requests_stay() {
        let dataset = Dataset::logs(TenantId::default_tenant());
        let period = Duration::from_secs(10);
        let query = "{app=\"a\"}".to_owned();
        let request = DeleteRequest { id: Id(1), dataset, query, start_ms: 0, end_ms: 1, created_ms: 5_000 };
        let record = DeleteRecord { request, progress: DeleteProgress::Received };
        let check = |percent, now_ms, force| {
            DeleteStatus { record: record.clone(), percent }.check_cancel(period, now_ms, force)
        };
        assert_eq!((check(0, 5_000, false), check(0, 15_000, false)), (Ok(()), Ok(())));
        let late = Err(CancelRefusal::Late { period });
        assert_eq!((check(0, 15_001, false), check(1, 5_000, false)), (late, late));
        assert_eq!((check(0, 15_001, true), check(99, 5_000, true)), (Ok(()), Ok(())));
        assert_eq!(check(100, 5_000, true), Err(CancelRefusal::Processed));
    }
}

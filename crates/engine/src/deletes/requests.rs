//! Delete requests as the API asks for them: make, list, cancel.

use std::sync::Arc;

use sandur_base::Id;
use sandur_catalog::{CommitError, DeleteRecord, DeleteRequest, Rejection};
use sandur_format::catalog_entry::Edit;
use sandur_model::TenantId;

use crate::engine::Engine;
use crate::error::Error;
use crate::shared::refused;

/// A delete request and how far it has come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeleteStatus {
    /// The request.
    pub record: DeleteRecord,
    /// How much of it is done, in percent: 0 before it is started, 100 when it is processed.
    pub percent: u8,
}

impl Engine {
    /// Hides the lines that a query selects within a time, both ends included, and has them removed later.
    /// When it returns, no query of this process shows them; other processes follow when they have read the
    /// catalog. The query must be one that the engine's compiler reads.
    pub async fn create_delete(
        &self,
        tenant: &TenantId,
        query: &str,
        start_ms: i64,
        end_ms: i64,
    ) -> Result<Id, Error> {
        let (id, created_ms) = (self.env().new_id(), self.env().now_ns() / 1_000_000);
        let (tenant, query) = (tenant.clone(), query.to_owned());
        let request = DeleteRequest { id, tenant, query, start_ms, end_ms, created_ms };
        self.commit_delete("a delete request", Edit::CreateDelete(request)).await?;
        self.shared().metrics.deletes_created.inc();
        Ok(id)
    }

    /// Takes a request back: its lines are shown again, as far as they are still there. One that was
    /// started is taken back only if `started` says so.
    pub async fn cancel_delete(&self, tenant: &TenantId, id: Id, started: bool) -> Result<(), Error> {
        let edit = Edit::CancelDelete { tenant: tenant.clone(), id, started };
        self.commit_delete("the cancellation of a delete request", edit).await?;
        self.shared().metrics.deletes_cancelled.inc();
        Ok(())
    }

    /// The requests of a tenant, of all processes, by id.
    pub async fn deletes(&self, tenant: &TenantId) -> Result<Vec<DeleteStatus>, Error> {
        let snapshot = self.catalog().refresh().await?;
        self.publish(Arc::clone(&snapshot));
        let status = |record: &DeleteRecord| DeleteStatus {
            percent: snapshot.delete_percent(record),
            record: record.clone(),
        };
        Ok(snapshot.deletes(tenant).map(status).collect())
    }

    async fn commit_delete(&self, what: &'static str, edit: Edit) -> Result<(), Error> {
        let committed = self.catalog().commit(self.incarnation(), vec![edit], Vec::new()).await;
        let committed = committed.map_err(|error| match &error {
            // The fault alone: the edit would repeat the whole request.
            CommitError::Rejected { why } => match &**why {
                Rejection::Edit { fault, .. } => {
                    Error::Refused { what, reason: fault.to_string(), kind: error.kind() }
                }
                Rejection::Precondition(_) => refused(what, &error),
            },
            _ => refused(what, &error),
        });
        self.publish(committed?);
        Ok(())
    }
}

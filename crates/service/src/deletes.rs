//! The trait by which requests to delete rows reach the engine.

use sandur_base::{BoxFuture, ErrorKind, Id};
use sandur_model::TenantId;

use crate::failure::Failure;

/// Requests to delete rows of one signal.
pub trait Deletes: Send + Sync {
    /// Whether the query reads lines or metadata; an error when a delete request cannot have this query.
    fn check<'a>(&'a self, tenant: &'a TenantId, query: &'a str) -> BoxFuture<'a, Result<bool, Failure>>;
    /// Creates a request: hides the rows that the query selects between two instants (milliseconds, both
    /// inclusive) and has them removed later. When it returns, queries of this process do not return
    /// these rows.
    fn create<'a>(
        &'a self,
        tenant: &'a TenantId,
        query: &'a str,
        start_ms: i64,
        end_ms: i64,
    ) -> BoxFuture<'a, Result<Id, Failure>>;
    /// The tenant's requests from all processes, in no particular order.
    fn list<'a>(&'a self, tenant: &'a TenantId) -> BoxFuture<'a, Result<Vec<DeleteShown>, Failure>>;
    /// Cancels a request. A request that was started, or that is older than the cancellation period, is
    /// cancelled only with `force`; a processed request never.
    fn cancel<'a>(&'a self, tenant: &'a TenantId, id: Id, force: bool) -> BoxFuture<'a, Result<(), Failure>>;
}

/// A delete request as it is shown to clients.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeleteShown {
    /// Id of the request.
    pub id: Id,
    /// Start of the range, inclusive, milliseconds since the epoch.
    pub start_ms: i64,
    /// End of the range, inclusive, milliseconds since the epoch.
    pub end_ms: i64,
    /// When it was created, milliseconds since the epoch.
    pub created_ms: i64,
    /// The query that selects the rows.
    pub query: String,
    /// Progress in percent: 100 when it is processed.
    pub percent: u8,
}

/// Loki's error when the tenant has no such request.
pub fn no_such_delete() -> Failure {
    Failure::new(ErrorKind::NotFound, "could not find delete request with given id\n")
}

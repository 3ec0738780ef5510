//! The seam between requests to delete rows and the engine.

use sandur_base::{BoxFuture, ErrorKind, Id};
use sandur_model::TenantId;

use crate::failure::Failure;

/// Requests to delete lines.
pub trait Deletes: Send + Sync {
    /// Whether a query looks at lines or metadata; why, when no request may have it.
    fn check<'a>(&'a self, tenant: &'a TenantId, query: &'a str) -> BoxFuture<'a, Result<bool, Failure>>;
    /// Hides the lines of a query between two instants in milliseconds, both included, and has them removed
    /// later. When it returns, queries of this process do not show them.
    fn create<'a>(
        &'a self,
        tenant: &'a TenantId,
        query: &'a str,
        start_ms: i64,
        end_ms: i64,
    ) -> BoxFuture<'a, Result<Id, Failure>>;
    /// The tenant's requests of all processes, in no order.
    fn list<'a>(&'a self, tenant: &'a TenantId) -> BoxFuture<'a, Result<Vec<DeleteShown>, Failure>>;
    /// Takes a request back; one that was started or is too old only if `force` says so, a processed one
    /// never.
    fn cancel<'a>(&'a self, tenant: &'a TenantId, id: Id, force: bool) -> BoxFuture<'a, Result<(), Failure>>;
}

/// A delete request as clients see it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeleteShown {
    /// Its id.
    pub id: Id,
    /// First instant, milliseconds since the epoch.
    pub start_ms: i64,
    /// Last instant.
    pub end_ms: i64,
    /// When it was made.
    pub created_ms: i64,
    /// The query.
    pub query: String,
    /// How much of it is done: 100 when it is processed.
    pub percent: u8,
}

/// What Loki says when the tenant has no such request.
pub fn no_such_delete() -> Failure {
    Failure::new(ErrorKind::NotFound, "could not find delete request with given id\n")
}

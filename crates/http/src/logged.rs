//! The log line of a request that queries, in the failures of HTTP.

use sandur_query::QueryContext;
use sandur_service::query_log::{self, Asked};
use sandur_service::{Caller, Cost, Queries};

use crate::failed_request::Failure;

/// Does the work of a request within the query's time, logs how it ended, and says what it cost.
pub async fn logged<T>(
    service: (&Queries, &Caller),
    context: &QueryContext,
    asked: Asked,
    work: impl Future<Output = Result<T, Failure>>,
) -> Result<(T, Cost), Failure> {
    query_log::logged(service, context, asked, work).await
}

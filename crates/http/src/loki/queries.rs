//! What `query` and `query_range` share: parsing, evaluation, the log line, the answer.

use axum::response::Response;
use sandur_memory::Reservation;
use sandur_query::{QueryContext, QueryResult};
use sandur_service::logql::{LogqlQuery, QueryText, lines};
use sandur_service::query_log::Outcome;
use sandur_service::{Cost, Queries};

use crate::call::Call;
use crate::failed_request::Failure;
use crate::marshal::{estimate, legacy_answer, query_answer};
use crate::reply;

/// Runs, logs and answers one query. When the client disconnects, this future is dropped, which cancels the
/// query and logs it as well.
pub async fn answer(queries: Queries, call: Call, request: QueryText) -> Result<Response, Failure> {
    answer_in(Shape::Current, queries, call, request).await
}

/// The format of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// The format of version 1.
    Current,
    /// The format before version 1, which has only streams.
    Legacy,
}

/// Like [`answer`], in this format.
pub async fn answer_in(
    shape: Shape,
    queries: Queries,
    call: Call,
    request: QueryText,
) -> Result<Response, Failure> {
    let query = LogqlQuery::begin(&queries, &call.caller, request, shape == Shape::Legacy).await?;
    let outcome = query.run().await.map_err(Failure::from);
    let LogqlQuery { context, log, .. } = query;
    let cost = log.cost();
    let answered = match outcome {
        Ok(result) => answered(shape, &call, &context, result, cost.clone()).await,
        Err(failure) => Err(failure),
    };
    match answered {
        Ok((body, memory, returned_lines)) => {
            log.end(&cost, Outcome { returned_lines, ..Outcome::answered(body.len() as u64) });
            Ok(reply::large_json(queries.env(), &call, body, Some(memory)).await)
        }
        Err(failure) => {
            log.end(&cost, Outcome::from(&failure));
            Err(failure)
        }
    }
}

/// Maximum size of an answer that is formatted on the I/O thread.
const SMALL_ANSWER_BYTES: u64 = 64 << 10;

/// Formats the answer. Returns its body, the body's reservation, and the number of lines.
async fn answered(
    shape: Shape,
    call: &Call,
    context: &QueryContext,
    result: QueryResult,
    cost: Cost,
) -> Result<(Vec<u8>, Reservation, u64), Failure> {
    let bytes = estimate(&result);
    let memory = context.budget().reserve(bytes).map_err(sandur_query::Error::from)?;
    let (encoding, warnings) = (call.encoding(), context.warnings());
    let job = move || {
        let body = match (shape, &result) {
            (Shape::Legacy, QueryResult::Streams(rows)) => legacy_answer(rows, &cost),
            _ => query_answer(&result, encoding, &cost, &warnings),
        };
        Ok((body, memory, lines(&result)))
    };
    Ok(context.compute_sized(bytes <= SMALL_ANSWER_BYTES, job).await?)
}

//! What `query` and `query_range` share: admission, running, the log line, the answer.

use std::time::Duration;

use axum::response::Response;
use sandur_query::QueryResult;

use crate::http::app::App;
use crate::http::call::Call;
use crate::http::failure::Failure;
use crate::http::marshal::{Cost, ResultCache, estimate, legacy_answer, query_answer};
use crate::http::query_log::{Asked, Outcome};
use crate::http::reply;
use crate::wiring::{self, QueryText};

/// Longest piece of work between two looks at the deadline.
const PIECE_MAX: Duration = Duration::from_secs(10);

/// Admits, runs, logs and answers one query. When the client goes away this future is dropped,
/// which ends the query's tasks.
pub async fn answer(app: App, call: Call, request: QueryText) -> Result<Response, Failure> {
    answer_in(Shape::Current, app, call, request).await
}

/// The shape of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// Of version 1.
    Current,
    /// Of before, which knows streams alone.
    Legacy,
}

/// [`answer`] in a shape.
pub async fn answer_in(shape: Shape, app: App, call: Call, request: QueryText) -> Result<Response, Failure> {
    let context = app.query_context(&call.tenant);
    let cancel = CancelOnDrop(context.clone());
    let asked = Asked::new(&app, &call, &request);
    let outcome = async {
        let permit = app.queue.enter(&context).await?;
        context.check()?;
        let result = wiring::query(app.source.as_ref(), &context, app.limits(&call.tenant), request).await?;
        drop(permit);
        Ok(result)
    };
    // The query checks its deadline between pieces of work; one piece that hangs must not hold the client.
    let patience = app.limits(&call.tenant).query_timeout.max(0) as u64;
    let patience = Duration::from_nanos(patience);
    let timed = app.env.timeout(patience + PIECE_MAX, outcome).await;
    let outcome: Result<QueryResult, Failure> =
        timed.unwrap_or_else(|| Err(sandur_query::Error::Timeout(patience).into()));
    let cost = cost(&context);
    app.metrics.queries.inc();
    app.metrics.queried_bytes.inc_by(cost.bytes());
    let returned = outcome.as_ref().map_or(0, entries);
    let status = outcome.as_ref().map_or_else(|f| f.status.as_u16(), |_| 200);
    asked.log(&app, &Outcome { cost: &cost, status, returned });
    let result = outcome?;
    let memory = context.budget().reserve(estimate(&result)).map_err(sandur_query::Error::from)?;
    let body = match (shape, &result) {
        (Shape::Legacy, QueryResult::Streams(rows)) => legacy_answer(rows, &cost),
        _ => query_answer(&result, call.encoding(), &cost, &context.warnings()),
    };
    drop(cancel);
    Ok(reply::large_json(&app, &call, body, Some(memory)).await)
}

fn cost(context: &sandur_query::QueryContext) -> Cost {
    let counters = context.stats().snapshot();
    let queue = Duration::from_nanos(counters.queue_ns);
    let execution = context.elapsed().saturating_sub(queue);
    Cost { counters, execution, result_cache: ResultCache::Range }
}

fn entries(result: &QueryResult) -> u64 {
    match result {
        QueryResult::Streams(rows) => rows.len() as u64,
        QueryResult::Matrix(series) | QueryResult::Vector(series) => series.len() as u64,
        QueryResult::Scalar(_) => 1,
    }
}

/// Ends the query's work when the request is dropped in the middle.
struct CancelOnDrop(sandur_query::QueryContext);

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        self.0.cancel();
    }
}

//! What `query` and `query_range` share: admission, running, the log line, the answer.

use std::time::Duration;

use axum::response::Response;
use sandur_base::ErrorKind;
use sandur_query::QueryResult;

use crate::http::app::{App, timeout_of};
use crate::http::call::Call;
use crate::http::failure::{Failure, status_of};
use crate::http::marshal::{Cost, ResultCache, estimate, legacy_answer, query_answer};
use crate::http::query_log::{Asked, Outcome};
use crate::http::reply;
use crate::wiring::{self, QueryText};

/// Runs, logs and answers one query. When the client goes away this future is dropped: that ends the
/// query's tasks, and is logged as well.
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
    let mut unanswered = Unanswered { asked: Some(Asked::new(&app, &call, &request)), context, app };
    let (app, context) = (&unanswered.app, &unanswered.context);
    let limits = app.limits(&call.tenant);
    let query = wiring::query(app.source.as_ref(), context, &limits, call.tags(), request);
    // The query looks at its deadline between pieces of work; one piece that hangs must not hold the client.
    let patience = timeout_of(&limits);
    let timed = app.env.timeout(patience, query).await;
    let outcome: Result<QueryResult, Failure> =
        timed.unwrap_or_else(|| Err(sandur_query::Error::Timeout(patience).into()));
    let returned = outcome.as_ref().map_or(0, entries);
    let status = outcome.as_ref().map_or_else(|f| f.status.as_u16(), |_| 200);
    let cost = unanswered.log(status, returned);
    let result = outcome?;
    let (app, context) = (&unanswered.app, &unanswered.context);
    let memory = context.budget().reserve(estimate(&result)).map_err(sandur_query::Error::from)?;
    let body = match (shape, &result) {
        (Shape::Legacy, QueryResult::Streams(rows)) => legacy_answer(rows, &cost),
        _ => query_answer(&result, call.encoding(), &cost, &context.warnings()),
    };
    Ok(reply::large_json(app, &call, body, Some(memory)).await)
}

/// A query until it is answered. Dropped before, its client is gone: its work ends, and it is logged with
/// status 499.
struct Unanswered {
    asked: Option<Asked>,
    context: sandur_query::QueryContext,
    app: App,
}

impl Unanswered {
    fn log(&mut self, status: u16, returned: u64) -> Cost {
        let cost = cost(&self.context);
        if let Some(asked) = self.asked.take() {
            self.app.metrics.queries.inc();
            self.app.metrics.queried_bytes.inc_by(cost.bytes());
            asked.log(&self.app, &Outcome { cost: &cost, status, returned });
        }
        cost
    }
}

impl Drop for Unanswered {
    fn drop(&mut self) {
        self.context.cancel();
        if self.asked.is_some() {
            self.app.metrics.queries_cancelled.inc();
            self.log(status_of(ErrorKind::Cancelled).as_u16(), 0);
        }
    }
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

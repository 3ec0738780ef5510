//! What `query` and `query_range` share: admission, running, the log line, the answer.

use axum::response::Response;
use sandur_base::Reservation;
use sandur_query::{QueryContext, QueryResult, QueryStats};

use crate::failed_request::Failure;
use crate::http::app::App;
use crate::http::call::Call;
use crate::http::marshal::{Cost, estimate, legacy_answer, query_answer};
use crate::http::query_log::{self, Asked, Outcome, QueryLog};
use crate::http::reply;
use crate::wiring::{self, ParsedQuery, QueryText};

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
    if query_log::is_drilldown(&call.tags) {
        context.allow_partial();
    }
    let parsed = ParsedQuery::read(&context, &app.limits(&call.tenant), &request.query).await?;
    let parsed = if shape == Shape::Legacy { parsed.of_lines()? } else { parsed };
    let asked = Asked::query(&request, parsed.query_type(), &call.tags);
    let log = QueryLog::begin(&app, &call, &context, asked);
    let outcome = run(&app, &call, &context, (parsed, request)).await;
    let cost = log.cost();
    let answered = match outcome {
        Ok(result) => answered(shape, &call, &context, result, cost.clone()).await,
        Err(failure) => Err(failure),
    };
    match answered {
        Ok((body, memory, returned_lines)) => {
            log.end(&cost, Outcome { returned_lines, ..Outcome::answered(body.len() as u64) });
            Ok(reply::large_json(&app, &call, body, Some(memory)).await)
        }
        Err(failure) => {
            log.end(&cost, Outcome::from(&failure));
            Err(failure)
        }
    }
}

/// Bytes of an answer that are written where they are asked for.
const SMALL_ANSWER_BYTES: u64 = 64 << 10;

/// The body of an answer with its memory, and its lines.
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

async fn run(
    app: &App,
    call: &Call,
    context: &QueryContext,
    query: (ParsedQuery, QueryText),
) -> Result<QueryResult, Failure> {
    let limits = app.limits(&call.tenant);
    let query = wiring::query(&*app.sources.logs, context, &limits, &call.tags, query);
    // The query looks at its deadline between pieces of work; one piece that hangs must not hold the client.
    let result = context.in_time(query).await??;
    if let QueryResult::Matrix(series) | QueryResult::Vector(series) = &result {
        QueryStats::add(&context.stats().entries_returned, series.len() as u64);
    }
    Ok(result)
}

/// Lines of a log query's answer.
fn lines(result: &QueryResult) -> u64 {
    match result {
        QueryResult::Streams(rows) => rows.len() as u64,
        QueryResult::Matrix(_) | QueryResult::Vector(_) | QueryResult::Scalar(_) => 0,
    }
}

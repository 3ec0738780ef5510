//! What `query` and `query_range` share: admission, running, the log line, the answer.

use axum::response::Response;

use super::evaluate::{Asked, Evaluated, evaluate};
use super::params;
use super::refused::{Kind, Refused};
use super::reply::{JSON, in_pieces};
use super::result::{Shown, Writer};
use super::statistics;
use crate::http::app::{App, AppState};
use crate::http::call::Call;
use crate::http::marshal::Cost;
use crate::http::query_log::{Asked as Logged, Outcome, QueryLog};
use crate::http::route::{Parameter, parameter};
use crate::wiring::promql::{self, Options, Request, Times};
use sandur_query::{QueryContext, QueryStats};

/// The text of a query.
pub const QUERY: Parameter = parameter("query", "PromQL; required");
/// How long it may take.
pub const TIMEOUT: Parameter =
    parameter("timeout", "seconds or a duration after which it ends; at most `query.timeout`");
/// Most series.
pub const LIMIT: Parameter =
    parameter("limit", "most series of the answer, with a warning when there are more; 0: all");
/// How old a sample may be.
pub const LOOKBACK: Parameter =
    parameter("lookback_delta", "how old a sample may be that stands for an instant; `query.lookback_delta`");
/// Whether statistics are wanted.
pub const STATS: Parameter = parameter("stats", "`true` or `all`: what the query cost, by phase");

/// The options of a query.
fn options(app: &AppState, call: &Call) -> Result<Options, Refused> {
    let query = &app.settings.query;
    let ms = |length: std::time::Duration| i64::try_from(length.as_millis()).unwrap_or(i64::MAX);
    Ok(Options {
        lookback_ms: params::lookback_ms(&call.params)?.unwrap_or(ms(query.lookback_delta)),
        samples_max: query.max_samples,
        // Steps are counted with both ends.
        points_max: POINTS_MAX as u64 + 1,
        ..Options::default()
    })
}

/// Most steps between the ends of a range.
pub const POINTS_MAX: i64 = 11_000;

/// Reads the parameters that both have.
pub fn asked(app: &AppState, call: &Call, times: Times) -> Result<Asked, Refused> {
    let query = call.params.query().to_owned();
    Ok(Asked {
        request: Request { query, times, options: options(app, call)? },
        limit: params::limit(&call.params)?,
        stats: call.params.get("stats").unwrap_or("").to_owned(),
    })
}

/// Runs, logs and answers one query. When the client goes away this future or the body that it answered is
/// dropped: that ends the query, and is logged as well.
pub async fn answer(app: App, call: Call, asked: Asked) -> Result<Response, Refused> {
    let context = app.metrics_context(&call.tenant, params::timeout(&call.params)?);
    let Request { query, times, .. } = &asked.request;
    let log = QueryLog::begin(&app, &call, &context, Logged::promql(query, *times, asked.limit));
    let outcome = context.in_time(run(&app, &context, &call, &asked)).await.map_err(Refused::from);
    let cost = log.cost();
    let evaluated = match outcome.and_then(|outcome| outcome) {
        Ok(evaluated) => evaluated,
        Err(refused) => {
            log.end(&cost, Outcome::from(&refused));
            return Err(refused);
        }
    };
    let shown = shown(&context, &asked, evaluated, &cost);
    let ended = move |result_bytes| log.end(&cost, Outcome::answered(result_bytes));
    Ok(in_pieces(&app, &call, JSON, Writer::new(shown), ended).await)
}

async fn run(app: &App, context: &QueryContext, call: &Call, asked: &Asked) -> Result<Evaluated, Refused> {
    let parsed = promql::parse(context, &asked.request.query).await;
    if context.remaining().is_zero() {
        return Err(sandur_query::Error::Timeout(context.elapsed()).into());
    }
    let checked = parsed.and_then(|expr| promql::check_times(&expr, asked.request.times).map(|()| expr));
    let expr = checked.map_err(|error| {
        Refused::reading(error, |reason| format!("invalid parameter \"query\": {reason}"))
    })?;
    app.check_blocked(&call.tenant, &asked.request.query, &call.tags)?;
    let evaluated = evaluate(app, context, asked, &expr).await?;
    let series = if evaluated.is_number() { 0 } else { evaluated.rows.len() };
    QueryStats::add(&context.stats().entries_returned, series as u64);
    Ok(evaluated)
}

fn shown(context: &QueryContext, asked: &Asked, evaluated: Evaluated, cost: &Cost) -> Shown {
    let Evaluated { mut rows, mut warnings, infos, samples, peak_samples } = evaluated;
    warnings.extend(context.warnings());
    if asked.limit.is_some_and(|limit| rows.truncate(limit)) {
        warnings.push(TRUNCATED.to_owned());
    }
    let stats = || statistics::object(cost, (samples, peak_samples), context.budget().peak());
    let stats = match asked.stats.as_str() {
        "" => None,
        "true" | "all" => Some(stats()),
        other => {
            warnings.push(format!(
                "value {other:?} for parameter \"stats\" is deprecated and will be rejected in the next \
                 major release, use \"true\" or \"all\""
            ));
            Some(stats())
        }
    };
    Shown { rows, at_ms: asked.request.times.start, warnings, infos, stats }
}

/// What is said of an answer that has not all.
pub const TRUNCATED: &str = "results truncated due to limit";

/// A refusal of the whole request.
pub fn refuse(message: &str) -> Refused {
    Refused::new(Kind::BadData, message)
}

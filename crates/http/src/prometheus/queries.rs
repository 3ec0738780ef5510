//! What `query` and `query_range` share: parameters, evaluation, the log line, the answer.

use axum::response::Response;
use sandur_promql::Times;
use sandur_query::QueryContext;
use sandur_service::promql::{Evaluated, PromqlQuery, PromqlRequest};
use sandur_service::query_log::Outcome;
use sandur_service::{Cost, Queries};

use super::params;
use super::refused::{Kind, Refused};
use super::reply::{JSON, in_pieces};
use super::result::{Shown, Writer};
use super::statistics;
use crate::call::Call;
use crate::route::{Parameter, parameter};

/// The text of the query.
pub const QUERY: Parameter = parameter("query", "PromQL; required");
/// Timeout of the query.
pub const TIMEOUT: Parameter =
    parameter("timeout", "seconds or a duration after which the query is cancelled; at most `query.timeout`");
/// Maximum number of series.
pub const LIMIT: Parameter =
    parameter("limit", "maximum number of series in the answer, with a warning when there are more; 0: all");
/// Maximum age of a sample.
pub const LOOKBACK: Parameter = parameter(
    "lookback_delta",
    "maximum age of the sample that is the value at an instant; \
        `query.lookback_delta`",
);
/// Whether the answer contains statistics.
pub const STATS: Parameter = parameter("stats", "`true` or `all`: what the query cost, by phase");

/// The parameters of a request.
pub struct Asked {
    /// The query, its times and limits.
    pub request: PromqlRequest,
    /// The parameter `stats`.
    pub stats: String,
}

/// Maximum number of intervals between the steps of a range.
pub const POINTS_MAX: i64 = 11_000;

/// Reads the parameters that both endpoints have.
pub fn asked(call: &Call, times: Times) -> Result<Asked, Refused> {
    let request = PromqlRequest {
        query: call.params.query().to_owned(),
        times,
        lookback_ms: params::lookback_ms(&call.params)?,
        // Steps are counted with both ends.
        points_max: POINTS_MAX as u64 + 1,
        limit: params::limit(&call.params)?,
        timeout: params::timeout(&call.params)?,
    };
    Ok(Asked { request, stats: call.params.get("stats").unwrap_or("").to_owned() })
}

/// Runs, logs and answers one query. When the client disconnects, this future or the body that it returned
/// is dropped, which cancels the query and logs it as well.
pub async fn answer(queries: Queries, call: Call, asked: Asked) -> Result<Response, Refused> {
    let Asked { request, stats } = asked;
    let wanted = Wanted { at_ms: request.times.start, limit: request.limit, stats };
    let query = PromqlQuery::begin(&queries, &call.caller, request);
    let outcome = query.run().await;
    let PromqlQuery { context, log, .. } = query;
    let cost = log.cost();
    let evaluated = match outcome {
        Ok(evaluated) => evaluated,
        Err(failed) => {
            let refused = Refused::from(failed);
            log.end(&cost, Outcome::from(&refused));
            return Err(refused);
        }
    };
    let shown = shown(&context, wanted, evaluated, &cost);
    let ended = move |result_bytes| log.end(&cost, Outcome::answered(result_bytes));
    Ok(in_pieces(queries.env(), &call, JSON, Writer::new(shown), ended).await)
}

/// Parameters that determine the form of the answer.
struct Wanted {
    at_ms: i64,
    limit: Option<usize>,
    stats: String,
}

fn shown(context: &QueryContext, wanted: Wanted, evaluated: Evaluated, cost: &Cost) -> Shown {
    let Evaluated { mut rows, mut warnings, infos, samples, peak_samples } = evaluated;
    warnings.extend(context.warnings());
    if wanted.limit.is_some_and(|limit| rows.truncate(limit)) {
        warnings.push(TRUNCATED.to_owned());
    }
    let stats = || statistics::object(cost, (samples, peak_samples), context.budget().peak());
    let stats = match wanted.stats.as_str() {
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
    Shown { rows, at_ms: wanted.at_ms, warnings, infos, stats }
}

/// The warning of an answer that the limit truncated.
pub const TRUNCATED: &str = "results truncated due to limit";

/// A refusal of the request as `bad_data`.
pub fn refuse(message: &str) -> Refused {
    Refused::new(Kind::BadData, message)
}

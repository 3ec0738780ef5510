//! PromQL queries: parses them, checks the tenant's policies, evaluates and logs.

mod differences;
mod evaluate;
mod evaluated;
mod rows;
mod steps;
mod text;

use std::time::Duration;

use sandur_promql::{Expr, Options, Request, Times, check_times};
use sandur_query::{Error, QueryContext, QueryStats};

use crate::caller::Caller;
use crate::cost::Cost;
use crate::failure::Failure;
use crate::queries::Queries;
use crate::query_log::{Asked, Outcome, QueryLog};

pub use differences::SeriesBox;
pub use evaluated::Evaluated;
pub use rows::Rows;
pub use text::{exact_selector_text, parse, parse_selectors, selector_text, series_selector};

/// The failure of a query.
#[derive(Debug)]
pub enum Failed {
    /// It is invalid.
    Reading(Error),
    /// A policy blocks it, or its evaluation failed.
    Running(Error),
}

impl From<Error> for Failed {
    fn from(error: Error) -> Self {
        Self::Running(error)
    }
}

impl From<Failed> for Failure {
    fn from(failed: Failed) -> Self {
        match failed {
            Failed::Reading(error) | Failed::Running(error) => error.into(),
        }
    }
}

/// A query with its times and bounds.
#[derive(Clone, Debug)]
pub struct PromqlRequest {
    /// The query.
    pub query: String,
    /// The instant, or the range and its step.
    pub times: Times,
    /// Maximum age of the sample that is the value at an instant, milliseconds; `None` for the configured
    /// age.
    pub lookback_ms: Option<i64>,
    /// Maximum number of points per series of the answer.
    pub points_max: u64,
    /// Maximum number of series that the client requests; only for the log of queries.
    pub limit: Option<usize>,
    /// Duration after which the query is cancelled; at most the configured one.
    pub timeout: Option<Duration>,
}

/// A running query. It is logged when it ends or is dropped.
pub struct PromqlQuery<'a> {
    queries: &'a Queries,
    caller: &'a Caller,
    request: Request,
    /// Its tenant, budget, deadline, statistics and warnings.
    pub context: QueryContext,
    /// Its line in the log of queries.
    pub log: QueryLog,
}

impl<'a> PromqlQuery<'a> {
    /// Begins a query.
    pub fn begin(queries: &'a Queries, caller: &'a Caller, request: PromqlRequest) -> Self {
        let PromqlRequest { query, times, lookback_ms, points_max, limit, timeout } = request;
        let (times, points_max) = match queries.limits(&caller.tenant).align_queries_with_step {
            // Rounding can add one step to those that the client asked for.
            true => (times.aligned(), points_max.saturating_add(1)),
            false => (times, points_max),
        };
        let options = queries.options();
        let lookback = || i64::try_from(options.lookback.as_millis()).unwrap_or(i64::MAX);
        let options = Options {
            lookback_ms: lookback_ms.unwrap_or_else(lookback),
            samples_max: options.samples_max,
            points_max,
            ..Options::default()
        };
        let context = queries.samples_context(&caller.tenant, timeout);
        let log = QueryLog::begin(queries, caller, &context, Asked::promql(&query, times, limit));
        let request = Request { query, times, options };
        Self { queries, caller, request, context, log }
    }

    /// Parses and evaluates the query within its deadline.
    pub async fn run(&self) -> Result<Evaluated, Failed> {
        self.context.in_time(self.evaluated()).await?
    }

    async fn evaluated(&self) -> Result<Evaluated, Failed> {
        let expr = self.checked().await?;
        let evaluated = evaluate::evaluate(self.queries, &self.context, &self.request, &expr).await?;
        let series = if evaluated.rows.is_single() { 0 } else { evaluated.rows.len() };
        QueryStats::add(&self.context.stats().entries_returned, series as u64);
        Ok(evaluated)
    }

    /// Parses the query and checks it against the policies of the tenant.
    async fn checked(&self) -> Result<Expr, Failed> {
        let (context, request) = (&self.context, &self.request);
        let parsed = parse(context, &request.query).await;
        if context.remaining().is_zero() {
            return Err(Error::Timeout(context.elapsed()).into());
        }
        let checked = parsed.and_then(|expr| check_times(&expr, request.times).map(|()| expr));
        let expr = checked.map_err(Failed::Reading)?;
        self.queries.check_blocked(self.caller, &request.query)?;
        Ok(expr)
    }

    /// Evaluates the query and logs its outcome, for callers that send no answer over a network.
    pub async fn finish(self) -> Result<(Evaluated, Cost), Failure> {
        let done = self.run().await.map_err(Failure::from);
        let cost = self.log.cost();
        self.log.end(&cost, done.as_ref().map_or_else(Outcome::from, |_| Outcome::answered(0)));
        done.map(|mut evaluated| {
            evaluated.warnings.extend(self.context.warnings());
            (evaluated, cost)
        })
    }
}

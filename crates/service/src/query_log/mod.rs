//! The log of queries: a line for each query, with the keys of Loki's `metrics.go` line, so that queries and
//! dashboards over Loki's own logs work on ours. Pages count as chunks, heads as the ingester.
//!
//! The server's own log in its store receives every line. The log of the process receives a bounded selection
//! ([`pace`]) unless `query.log` is `all`. The last slow queries are also kept in memory ([`slow_queries`]),
//! and the running ones are listed ([`open_queries`]).
//!
//! A handler describes the request ([`Asked`]) before its work, and the outcome afterwards. If the client
//! disconnects, the request is dropped, and the drop of [`QueryLog`] logs it with status 499. Answers do
//! not wait for their lines, which are written afterwards ([`queued_lines`]). `docs/reference/query-log.md`
//! explains every key.

mod asked;
mod line;
mod open_queries;
mod outcome;
mod pace;
mod queued_lines;
mod slow_queries;
mod tags;

use std::future::Future;
use std::time::Duration;

use pace::Kind;
use queued_lines::{Ended, Log};
use sandur_model::TenantId;
use sandur_query::QueryContext;

use crate::caller::Caller;
use crate::cost::{Cost, ResultCache};
use crate::queries::Queries;

pub use asked::{Asked, Times};
pub(crate) use open_queries::may_see;
pub use open_queries::{OpenQueries, OpenQuery, QUERIES_MAX};
pub use outcome::Outcome;
pub(crate) use pace::Pace;
pub(crate) use queued_lines::QueuedLines;
pub use slow_queries::{QUERIES_MAX as SLOW_QUERIES_MAX, SlowQueries, SlowQuery};
pub use tags::{is_drilldown, pairs as tag_pairs};

/// Status of a request whose client disconnected.
const CLIENT_GONE: u16 = 499;

/// A query that is logged when it ends, also when it is dropped.
pub struct QueryLog {
    queries: Queries,
    context: QueryContext,
    result_cache: ResultCache,
    /// The request and its client; `None` after the query ended.
    open: Option<(Asked, Caller)>,
    _entry: Option<open_queries::Entry>,
}

impl QueryLog {
    /// Begins the log of a query, and passes to it what the caller requires of the view.
    pub fn begin(queries: &Queries, caller: &Caller, context: &QueryContext, asked: Asked) -> Self {
        let result_cache = asked.result_cache();
        caller.answered_by.note(context);
        if let Some(age_max) = caller.view_age_max {
            context.require_view(age_max);
        }
        let entry = queries.open().add(&asked, caller, context);
        let open = Some((asked, caller.clone()));
        Self { queries: queries.clone(), context: context.clone(), result_cache, open, _entry: entry }
    }

    /// The cost of the query so far.
    pub fn cost(&self) -> Cost {
        let counters = self.context.stats().snapshot();
        let queue = Duration::from_nanos(counters.queue_ns);
        let execution = self.context.elapsed().saturating_sub(queue);
        Cost { counters, execution, result_cache: self.result_cache }
    }

    /// Counts the query and queues its line.
    pub fn end(mut self, cost: &Cost, outcome: Outcome) {
        if let Some(ended) = self.ended(cost, outcome) {
            self.queries.lines().push(self.queries.env(), ended);
        }
    }

    /// Counts the query, and returns it if a log receives its line.
    fn ended(&mut self, cost: &Cost, outcome: Outcome) -> Option<Ended> {
        let (asked, caller) = self.open.take()?;
        let queries = &self.queries;
        let metrics = queries.metrics();
        metrics.ended.inc();
        metrics.line_bytes.inc_by(cost.bytes());
        let slow = cost.execution + cost.queue() >= queries.options().slow_after;
        let kind = match slow {
            true => Kind::Slow,
            false if outcome.is_failure() => Kind::Failed,
            false => Kind::Other,
        };
        let (log, left_out) = self.log_of(kind, &caller.tenant);
        let seen = line::Seen { now_ns: queries.env().now_ns(), slow, left_out };
        let ended = Ended { asked, caller, cost: cost.clone(), outcome, seen, log };
        if slow {
            queries.slow().add(&ended);
        }
        (log == Log::All || queries.options().stores_log).then_some(ended)
    }

    /// Where a line is written, and the number of lines of its kind that were left out before it.
    fn log_of(&self, kind: Kind, tenant: &TenantId) -> (Log, u64) {
        let queries = &self.queries;
        if queries.options().logs_all {
            return (Log::All, 0);
        }
        match queries.pace().admit(kind, tenant, queries.env().monotonic()) {
            Some(left_out) => (Log::All, left_out),
            None => {
                queries.metrics().leave_out_line(kind.name());
                (Log::Stored, 0)
            }
        }
    }
}

impl Drop for QueryLog {
    /// The request was dropped: cancels its tasks and logs it.
    fn drop(&mut self) {
        self.context.cancel();
        if self.open.is_some() {
            self.queries.metrics().cancelled.inc();
            let cost = self.cost();
            let ended = self.ended(&cost, Outcome::failed(CLIENT_GONE, "the client disconnected"));
            // No answer has to be sent first, and after this there may be no task that would write the
            // line.
            if let Some(ended) = ended {
                ended.write();
            }
        }
    }
}

/// Runs a request's work within the query's time, logs the outcome, and returns the cost.
pub async fn logged<T, E: From<sandur_query::Error>>(
    (queries, caller): (&Queries, &Caller),
    context: &QueryContext,
    asked: Asked,
    work: impl Future<Output = Result<T, E>>,
) -> Result<(T, Cost), E>
where
    Outcome: for<'a> From<&'a E>,
{
    let log = QueryLog::begin(queries, caller, context, asked);
    let result = context.in_time(work).await.unwrap_or_else(|late| Err(late.into()));
    let outcome = result.as_ref().map_or_else(Outcome::from, |_| Outcome::answered(0));
    let cost = log.cost();
    log.end(&cost, outcome);
    Ok((result?, cost))
}

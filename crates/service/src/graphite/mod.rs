//! Graphite requests: they read the series and events of a tenant, and are logged.

mod kept_events;

use std::time::Duration;

use sandur_graphite::{
    Error, LastValue, Listing, ListingRequest, RenderRequest, Rendered, StoredOptions, StoredSeries,
    last_values, render,
};
use sandur_memory::Reservation;
use sandur_model::SECOND_NS;
use sandur_query::QueryContext;

use crate::caller::Caller;
use crate::failure::status_of;
use crate::queries::Queries;
use crate::query_log::{Asked, Outcome, QueryLog, Times};

pub use kept_events::{KeptEvents, batch};

/// A request as the query log describes it.
#[derive(Clone, Debug)]
pub struct GraphiteRequest {
    /// The kind of request (`render`, `find`).
    pub kind: &'static str,
    /// Its targets or patterns.
    pub text: String,
    /// First and last second since the epoch; `None` for all times.
    pub times: Option<(i64, i64)>,
}

/// A running request. It is logged when it ends or is dropped.
pub struct GraphiteQuery<'a> {
    queries: &'a Queries,
    caller: &'a Caller,
    request: GraphiteRequest,
    /// Its tenant, budget, deadline, statistics and warnings.
    pub context: QueryContext,
    /// Its line in the log of queries.
    pub log: QueryLog,
}

impl<'a> GraphiteQuery<'a> {
    /// Begins a request.
    pub fn begin(queries: &'a Queries, caller: &'a Caller, request: GraphiteRequest) -> Self {
        Self::begin_within(queries, caller, request, None)
    }

    /// Begins a request with a shorter deadline than that of the server.
    pub fn begin_within(
        queries: &'a Queries,
        caller: &'a Caller,
        request: GraphiteRequest,
        timeout: Option<Duration>,
    ) -> Self {
        let ns = |seconds: i64| seconds.saturating_mul(SECOND_NS);
        let (start_ns, end_ns) = match request.times {
            Some((from, until)) => (ns(from), ns(until)),
            None => (0, queries.env().now_ns()),
        };
        let context = queries.samples_context(&caller.tenant, timeout);
        let asked = Asked::graphite(request.kind, &request.text, Times { start_ns, end_ns });
        let log = QueryLog::begin(queries, caller, &context, asked);
        Self { queries, caller, request, context, log }
    }

    /// Fails when a policy of the tenant blocks the request.
    pub fn check_blocked(&self) -> Result<(), sandur_query::Error> {
        self.queries.check_blocked(self.caller, &self.request.text)
    }

    /// Runs `work` over the series of the tenant within the deadline, unless a policy blocks the request.
    /// The returned reservation covers the body.
    pub async fn run(
        &self,
        work: impl AsyncFnOnce(&StoredSeries<'_>, &QueryContext) -> Result<Rendered, Error>,
    ) -> Result<(Rendered, Reservation), Error> {
        let done = async {
            self.check_blocked()?;
            let rendered = over_series(self.queries, self.request.times, async |series| {
                work(series, &self.context).await
            });
            let rendered = rendered.await?;
            let memory = self.context.budget().reserve(rendered.body.len() as u64);
            Ok((rendered, memory.map_err(sandur_query::Error::from)?))
        };
        self.context.in_time(done).await.unwrap_or_else(|late| Err(late.into()))
    }

    /// Evaluates the text as a target at the end of its times, and ends the request. Each series has its last
    /// value in the window before. The returned reservation covers the values.
    pub async fn last_values(self, window: Duration) -> Result<(Vec<LastValue>, Reservation), Error> {
        let (window, at) = (i64::try_from(window.as_secs()).unwrap_or(i64::MAX), self.request.times);
        let at = at.map_or_else(|| self.queries.env().now_ns().div_euclid(SECOND_NS), |(_, until)| until);
        let done = async {
            self.check_blocked()?;
            let (context, target) = (&self.context, &self.request.text);
            let values = over_series(self.queries, self.request.times, async |series| {
                with_retries(context, || last_values(series, context, target, (window, at))).await
            });
            let values = values.await?;
            let bytes = values.iter().map(LastValue::bytes).sum();
            let memory = self.context.budget().reserve(bytes).map_err(sandur_query::Error::from)?;
            Ok((values, memory))
        };
        let done: Result<_, Error> = self.context.in_time(done).await.unwrap_or_else(|late| Err(late.into()));
        let outcome = match &done {
            Ok((values, _)) => Outcome::answered(values.iter().map(LastValue::bytes).sum()),
            Err(error) => Outcome::failed(status_of(error.kind()), &error.to_string()),
        };
        let cost = self.log.cost();
        self.log.end(&cost, outcome);
        done
    }

    /// Opens a listing of paths, without producing its first piece.
    pub async fn listing(&self, request: ListingRequest) -> Result<Listing, sandur_query::Error> {
        let queries = self.queries;
        let source = queries.samples_with_rollups();
        let options = options(queries, self.request.times);
        let series = StoredSeries::new(&source, queries.graphite_rules(), options);
        let now = queries.env().now_ns().div_euclid(SECOND_NS);
        self.context.in_time(series.listing(&self.context, request, now)).await?
    }
}

/// Runs `work` over the series of a request for these times (seconds; `None` for all times).
pub async fn over_series<T>(
    queries: &Queries,
    times: Option<(i64, i64)>,
    work: impl AsyncFnOnce(&StoredSeries<'_>) -> T,
) -> T {
    let source = queries.samples_with_rollups();
    let events = KeptEvents(queries.logs());
    let series = StoredSeries::new(&source, queries.graphite_rules(), options(queries, times));
    work(&series.with_events(&events)).await
}

fn options(queries: &Queries, times: Option<(i64, i64)>) -> StoredOptions {
    let query = queries.options();
    StoredOptions {
        lookback: i64::try_from(query.lookback.as_secs()).unwrap_or(i64::MAX),
        samples_max: query.samples_max,
        names_in: times,
    }
}

/// Renders a request. If other queries hold the memory that it needs, it waits and tries again.
pub async fn rendered(
    series: &StoredSeries<'_>,
    context: &QueryContext,
    request: &RenderRequest,
) -> Result<Rendered, Error> {
    with_retries(context, || render(series, context, request)).await
}

/// Evaluates, and again as long as other queries hold the memory that this one needs.
async fn with_retries<T, F: Future<Output = Result<T, Error>>>(
    context: &QueryContext,
    evaluate: impl Fn() -> F,
) -> Result<T, Error> {
    let mut retries = context.memory_retries();
    loop {
        let done = evaluate().await;
        if !retries.repeat_after(&done).await {
            return done;
        }
    }
}

//! LogQL queries: parses them, checks the tenant's policies, evaluates and logs.

pub mod selector;

use sandur_logql::Expr;
use sandur_model::go_text::quote;
use sandur_model::{Limits, LogPage, Matcher};
use sandur_query::{Direction, LogRow, LogSource, QueryContext, QueryResult, QueryStats, Series};

use crate::caller::Caller;
use crate::cost::Cost;
use crate::failure::Failure;
use crate::queries::Queries;
use crate::query_log::{Asked, Outcome, QueryLog, is_drilldown};
use crate::query_text::on_text;

pub use sandur_logql::parts::{Counted, QueryPart, QueryParts};
pub use sandur_logql::{DifferencesRequest, Kind as QueryKind, Request as QueryText};
pub use sandur_query::differences::{Differences, FieldDifference};

/// A query that is parsed once for all uses, or the error of the parser.
pub struct ParsedQuery(Result<Expr, sandur_query::Error>);

impl ParsedQuery {
    /// Parses the query as [`on_text`] does, unless the text has more matchers than allowed.
    pub async fn read(context: &QueryContext, limits: &Limits, text: &str) -> Result<Self, Failure> {
        if let Err(error) = sandur_logql::check_matcher_counts(text, limits) {
            return Ok(Self(Err(error)));
        }
        Ok(on_text(context, text, Self::of_text).await?)
    }

    /// Parses on the current thread.
    pub fn of_text(text: &str) -> Self {
        Self(sandur_logql::parse(text).map_err(Into::into))
    }

    /// The type of the query as in Loki: `metric`, `filter` (a stage may drop lines), `limited` (no stage
    /// does); empty if the query is invalid.
    pub fn query_type(&self) -> &'static str {
        self.0.as_ref().map_or("", sandur_logql::query_type)
    }

    /// Refuses a metric query, with Loki's error text.
    pub fn of_lines(self) -> Result<Self, Failure> {
        let expr = self.0?;
        is_log_query(&expr)?;
        Ok(Self(Ok(expr)))
    }
}

/// A running query. It is logged when it ends or is dropped.
pub struct LogqlQuery<'a> {
    queries: &'a Queries,
    caller: &'a Caller,
    parsed: ParsedQuery,
    request: QueryText,
    /// Its tenant, budget, deadline, statistics and warnings.
    pub context: QueryContext,
    /// Its line in the log of queries.
    pub log: QueryLog,
}

impl<'a> LogqlQuery<'a> {
    /// Parses a query and begins it. With `of_lines` a metric query is refused. An invalid query begins too,
    /// and fails when it runs, so that it is logged.
    pub async fn begin(
        queries: &'a Queries,
        caller: &'a Caller,
        request: QueryText,
        of_lines: bool,
    ) -> Result<Self, Failure> {
        let context = queries.logs_context(&caller.tenant);
        if is_drilldown(&caller.tags) {
            context.allow_partial();
        }
        let limits = queries.limits(&caller.tenant);
        let parsed = ParsedQuery::read(&context, &limits, &request.query).await?;
        let parsed = if of_lines { parsed.of_lines()? } else { parsed };
        let request = match parsed.query_type() {
            "metric" if limits.align_queries_with_step => request.with_aligned_end(),
            _ => request,
        };
        let asked = Asked::query(&request, parsed.query_type(), &caller.tags);
        let log = QueryLog::begin(queries, caller, &context, asked);
        Ok(Self { queries, caller, parsed, request, context, log })
    }

    /// Evaluates the query within its deadline.
    pub async fn run(&self) -> Result<QueryResult, Failure> {
        let limits = self.queries.limits(&self.caller.tenant);
        let (source, context) = (self.queries.logs(), &self.context);
        let query = query(source, context, &limits, &self.caller.tags, (&self.parsed, &self.request));
        // The query checks its deadline between pieces of work; one piece that hangs must not block the
        // client.
        let result = context.in_time(query).await??;
        if let QueryResult::Matrix(series) | QueryResult::Vector(series) = &result {
            QueryStats::add(&context.stats().entries_returned, series.len() as u64);
        }
        Ok(result)
    }

    /// Evaluates the query and logs its outcome, for callers that send no answer over a network.
    pub async fn finish(self) -> Result<(QueryResult, Cost), Failure> {
        let done = self.run().await;
        let cost = self.log.cost();
        let returned_lines = done.as_ref().map_or(0, lines);
        let answered = |_: &QueryResult| Outcome { returned_lines, ..Outcome::answered(0) };
        self.log.end(&cost, done.as_ref().map_or_else(Outcome::from, answered));
        done.map(|result| (result, cost))
    }
}

/// Returns the number of lines of a log query's result; 0 for other results.
pub fn lines(result: &QueryResult) -> u64 {
    match result {
        QueryResult::Streams(rows) => rows.len() as u64,
        QueryResult::Matrix(_) | QueryResult::Vector(_) | QueryResult::Scalar(_) => 0,
    }
}

/// Runs a parsed query. If it is refused memory, it runs once more with one page at a time; if other queries
/// hold the memory that it needs, it waits and tries again. `tags` are those of the client.
pub async fn query(
    source: &dyn LogSource,
    context: &QueryContext,
    limits: &Limits,
    tags: &[(String, String)],
    (parsed, request): (&ParsedQuery, &QueryText),
) -> Result<QueryResult, Failure> {
    if request.query.trim().is_empty() {
        return Err(Failure::invalid(EMPTY_QUERY));
    }
    let parsed = parsed.0.as_ref().map_err(Clone::clone)?;
    sandur_logql::check_blocked(parsed, &request.query, tags, limits)?;
    let mut retries = context.memory_retries();
    loop {
        let done = sandur_logql::query_parsed(source, context, limits, parsed, request).await;
        if !context.saves_memory_after(&done) && !retries.repeat_after(&done).await {
            return Ok(done?);
        }
    }
}

/// Compares the lines inside a part of a time range with the others. `tags` are those of the client, `text`
/// is the text of the query.
pub async fn differences(
    source: &dyn LogSource,
    context: &QueryContext,
    limits: &Limits,
    tags: &[(String, String)],
    (parsed, text): (&ParsedQuery, &str),
    request: DifferencesRequest,
) -> Result<Differences, Failure> {
    if text.trim().is_empty() {
        return Err(Failure::invalid(EMPTY_QUERY));
    }
    let parsed = parsed.0.as_ref().map_err(Clone::clone)?;
    sandur_logql::check_blocked(parsed, text, tags, limits)?;
    Ok(sandur_logql::differences(source, context, parsed, request).await?)
}

/// Returns the bytes of lines within a window before each instant, summed by labels of the matching
/// streams. The tenant's query limits do not apply.
pub async fn bytes_by_labels(
    source: &dyn LogSource,
    context: &QueryContext,
    (matchers, labels): (Vec<Matcher>, Vec<String>),
    kind: QueryKind,
    window_ns: i64,
) -> Result<Vec<Series>, Failure> {
    let query = sandur_logql::bytes_by_labels(matchers, labels, window_ns);
    let limits = Limits { max_query_length: 0, max_query_range: 0, max_query_series: 0, ..Limits::default() };
    let (direction, text) = (Direction::Backward, String::new());
    let request = QueryText { query: text, kind, limit: 1, direction, interval_ns: 0 };
    match sandur_logql::query_parsed(source, context, &limits, &query, &request).await? {
        QueryResult::Matrix(series) | QueryResult::Vector(series) => Ok(series),
        QueryResult::Streams(_) | QueryResult::Scalar(_) => Ok(Vec::new()),
    }
}

/// Returns the first rows in a time range of the streams with this label. The tenant's query limits do not
/// apply.
pub async fn rows_of_stream(
    source: &dyn LogSource,
    context: &QueryContext,
    (label, value): (&str, &str),
    (start_ns, end_ns): (i64, i64),
    limit: u32,
) -> Result<Vec<LogRow>, sandur_query::Error> {
    let query = format!("{{{label}={}}}", quote(value));
    let parsed = sandur_logql::parse(&query)?;
    let limits = Limits {
        max_query_length: 0,
        max_query_range: 0,
        max_query_series: 0,
        max_entries_limit_per_query: limit.into(),
        ..Limits::default()
    };
    let kind = QueryKind::Range { start_ns, end_ns, step_ns: 1_000_000_000 };
    let request = QueryText { query, kind, limit, direction: Direction::Forward, interval_ns: 0 };
    match sandur_logql::query_parsed(source, context, &limits, &parsed, &request).await? {
        QueryResult::Streams(rows) => Ok(rows),
        _ => Ok(Vec::new()),
    }
}

/// Loki's error for an empty query.
pub const EMPTY_QUERY: &str = "parse error : syntax error: unexpected $end";

/// A log query that is applied to pages as they arrive.
pub struct LineQuery(sandur_logql::LogQuery);

impl LineQuery {
    /// Returns the conditions on streams.
    pub fn matchers(&self) -> Vec<Matcher> {
        self.0.matchers().to_vec()
    }

    /// Appends the matching rows of the page, by time.
    pub fn process(&self, page: &LogPage, rows: &mut Vec<LogRow>) {
        self.0.process_page(page, rows);
    }
}

/// Compiles a log query for a tail.
pub fn compile_log_query(text: &str, limits: &Limits) -> Result<LineQuery, Failure> {
    sandur_logql::check_matcher_counts(text, limits)?;
    is_log_query(&sandur_logql::parse(text).map_err(sandur_query::Error::from)?)?;
    Ok(LineQuery(sandur_logql::compile_log_query(text)?))
}

fn is_log_query(expr: &Expr) -> Result<(), Failure> {
    match expr {
        Expr::Log(_) => Ok(()),
        Expr::Metric(_) => Err(Failure::invalid("only log selector is supported")),
    }
}

/// The parts of a query; lines are counted over `range_ns` if the query has no function.
pub fn query_parts(text: &str, range_ns: i64) -> Result<QueryParts, Failure> {
    let parsed = sandur_logql::parse(text).map_err(sandur_query::Error::from)?;
    Ok(sandur_logql::parts::parts(&parsed, range_ns))
}

/// Formats a query for readers.
pub fn format_query(text: &str) -> Result<String, Failure> {
    let parsed = sandur_logql::parse(text).map_err(sandur_query::Error::from)?;
    Ok(sandur_logql::pretty(&parsed))
}

//! LogQL: Loki's query language over a [`sandur_query::LogSource`].
//!
//! **What it is.** Parser, planner, stages and functions. The text of a query becomes a syntax tree
//! ([`Expr`]). The planner turns the tree into scans of a source: which streams, times, columns and
//! needles, and whether rows or only counts. Scans run over pages on the CPU pool and produce a
//! [`sandur_query::QueryResult`].
//!
//! **What it is not.** It has no access to stores, nodes or wire formats, and keeps no data after a query.
//!
//! **Life of a query.** [`query`] parses the text and checks it against the tenant's limits (`admission`).
//! It splits the query's time range into pieces (`splits`); a metric range query first takes the steps that
//! the step cache of `sandur_query` has. Each piece of a log query becomes a `LogScan`: line filters search
//! complete pages, stages process the remaining rows, best first, and the scan stops when no later page can
//! have a row of the answer. A metric query is evaluated from the leaves: each range aggregation becomes a
//! `RangeScan`, whose workers add rows to groups and time slots. Vector functions and operators then
//! process the resulting series.
//!
//! **How to add.** A stage is one file in `stage/` and one line in `stage::STAGES`. A function over windows
//! is one file in `range/` and one line in `range::FUNCTIONS`. A function over vectors is one line in
//! `vector::FUNCTIONS`. A template function is one line in a group of `template::FUNCTIONS`. The parser and
//! the documentation are made from these tables.
//!
//! **Example.**
//!
//! ```
//! use std::{sync::Arc, time::Duration};
//! use sandur_memory::MemoryBudget;
//! use sandur_runtime::Env;
//! use sandur_logql::{Kind, Request, query};
//! use sandur_model::{Labels, Level, Limits, TenantId};
//! use sandur_query::{Direction, MemoryRow, MemorySource, QueryContext, QueryResult};
//!
//! let labels = Arc::new(Labels::from_pairs([("app", "api")]));
//! let row = |timestamp: i64, line: &'static str| MemoryRow {
//!     labels: Arc::clone(&labels), timestamp, line: line.into(), metadata: Vec::new(), level: Level::None,
//! };
//! let source = MemorySource::new(vec![row(1, "status=200"), row(2, "status=503")]);
//! let budget = MemoryBudget::root("query", 64 << 20);
//! let context = QueryContext::new(
//!     Env::simulated(1, 0), TenantId::default_tenant(), budget, Duration::from_secs(60),
//! );
//! let request = Request {
//!     query: r#"{app="api"} | logfmt | status >= 500"#.to_owned(),
//!     kind: Kind::Range { start_ns: 0, end_ns: 10, step_ns: 0 },
//!     limit: 100, direction: Direction::Forward, interval_ns: 0,
//! };
//! # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
//! let answer = query(&source, &context, &Limits::default(), request).await.unwrap();
//! let QueryResult::Streams(rows) = answer else { panic!("a log query answers with rows") };
//! assert_eq!(rows.len(), 1);
//! assert_eq!(rows[0].line, "status=503");
//! # });
//! ```
//!
//! **Invariants.** Semantics and error texts are Loki's. The syntax tree node of a stage is checked when it
//! is parsed, so that running it cannot fail. Memory that grows with the data is always reserved.

mod admission;
mod ast;
mod binary;
mod delete;
mod diagnose;
mod differences;
#[cfg(test)]
mod edge_tests;
mod error;
mod evaluate;
mod fields;
mod forms;
mod go_regex;
mod grouping;
mod groups;
mod highlight;
mod ip;
mod lexer;
mod line_automaton;
mod line_filter;
mod line_test;
mod log_scan;
mod matrix;
mod names;
mod needles;
mod page_filter;
mod page_sample;
mod parser;
pub mod partial;
pub mod parts;
mod pattern_text;
mod patterns;
mod pipeline;
mod pretty;
mod range;
mod range_groups;
mod range_rows;
mod range_scan;
mod reference;
mod request;
mod row;
mod row_search;
mod splits;
mod stage;
mod tail;
pub mod template;
mod vector;
mod volume;

use sandur_base::BoxFuture;
use sandur_model::{Limits, Matcher};
use sandur_query::{Error, LogSource, QueryContext, QueryResult};

pub use admission::{
    check_blocked, check_blocked_kind, check_matcher_counts, check_selector_sizes, check_selectors,
    policy_regex, query_hash, query_type,
};
pub use ast::{
    BinaryOp, Cardinality, Chain, Conversion, Expr, LabelReplace, Link, LogExpr, Matching, MetricExpr,
    OPERATORS, OperatorSpec, RangeAggregation, Unwrap, VectorAggregation,
};
pub use delete::DeleteQuery;
pub use diagnose::{Diagnosis, diagnose};
pub use differences::{DifferencesRequest, differences};
pub use error::ParseError;
pub use fields::{Field, FieldParser, line_fields};
pub use forms::{Form, forms};
pub use grouping::Grouping;
pub use highlight::Highlights;
pub use parser::parse;
pub use patterns::{PatternSeries, PatternsRequest, patterns};
pub use pretty::pretty;
pub use range::RangeFunction;
pub use reference::{function_names, reference, stage_names, template_function_names};
pub use request::{Kind, Request, check_length};
pub use stage::node::StageNode;
pub use tail::LogQuery;
pub use vector::VectorFunction;
pub use volume::bytes_by_labels;

/// Queries up to this length are parsed in place, not on the CPU pool. The limit is low because repetitions
/// in a short regular expression can compile to a large one.
const SHORT_QUERY_BYTES: usize = 32;
/// The limit for queries without counted repetitions and without character classes by name: parsing them
/// takes less time than a context switch.
const PLAIN_QUERY_BYTES: usize = 256;

/// Answers a query. The steps of a range query are aligned to multiples of the step, as Loki's frontend
/// does.
pub async fn query(
    source: &dyn LogSource,
    context: &QueryContext,
    limits: &Limits,
    request: Request,
) -> Result<QueryResult, Error> {
    let expr = parse_for(context, limits, &request.query).await?;
    query_parsed(source, context, limits, &expr, &request).await
}

/// Parses a query in its tenant's turn on the CPU pool, because compiling regular expressions takes time. A
/// query with too many matchers fails before it is parsed.
pub async fn parse_for(context: &QueryContext, limits: &Limits, text: &str) -> Result<Expr, Error> {
    check_matcher_counts(text, limits)?;
    let text = text.to_owned();
    context.compute_sized(is_short(&text), move || Ok(parse(&text)?)).await
}

/// Whether parsing the query takes so little time that it needs no turn on the CPU pool.
pub fn is_short(text: &str) -> bool {
    text.len() <= SHORT_QUERY_BYTES || (text.len() <= PLAIN_QUERY_BYTES && is_plain(text))
}

/// Whether no regular expression in the text can compile to much more than its length. A brace before a
/// letter begins a label name; any other brace may count repetitions.
fn is_plain(text: &str) -> bool {
    let counts = |pair: &[u8]| pair[0] == b'{' && !(pair[1].is_ascii_alphabetic() || pair[1] == b'_');
    !text.contains('\\') && !text.as_bytes().windows(2).any(counts)
}

/// Answers a query that is already parsed, like [`query`]; the text in the request is not used.
pub async fn query_parsed(
    source: &dyn LogSource,
    context: &QueryContext,
    limits: &Limits,
    expr: &Expr,
    request: &Request,
) -> Result<QueryResult, Error> {
    let steps = request::metric_steps;
    let answer: BoxFuture<'_, _> = Box::pin(answer((source, context), limits, expr, request, steps));
    answer.await
}

/// Answers a query like [`query`], with steps that begin exactly at the start, as Loki's engine does
/// without its frontend.
pub async fn query_unaligned(
    source: &dyn LogSource,
    context: &QueryContext,
    limits: &Limits,
    request: Request,
) -> Result<QueryResult, Error> {
    let (expr, steps) = (parse_for(context, limits, &request.query).await?, request::exact_steps);
    let answer: BoxFuture<'_, _> = Box::pin(answer((source, context), limits, &expr, &request, steps));
    answer.await
}

async fn answer(
    (source, context): (&dyn LogSource, &QueryContext),
    limits: &Limits,
    expr: &Expr,
    request: &Request,
    steps: fn(&Request, &Limits) -> Result<request::Steps, Error>,
) -> Result<QueryResult, Error> {
    context.check()?;
    check_selectors(expr, limits)?;
    let _compiled = context.budget().reserve(expr.memory_bytes())?;
    let Some(request) = request.since(context.earliest_ns()) else {
        return Ok(nothing(expr, request));
    };
    match expr {
        Expr::Log(log) => {
            let range = request::log_range(&request, limits)?;
            admission::check_size(source, context, limits, vec![(log, range)]).await?;
            splits::log_query(source, context, limits, log, (&request, range)).await.map(QueryResult::Streams)
        }
        Expr::Metric(metric) => {
            let steps = steps(&request, limits)?;
            admission::check_ranges(metric, limits)?;
            let reads = admission::reads(metric, &steps);
            admission::check_size(source, context, limits, reads).await?;
            evaluate::Evaluation { source, context, steps, joined: None }.answer(metric, limits).await
        }
    }
}

/// The answer over a time range without rows.
fn nothing(expr: &Expr, request: &Request) -> QueryResult {
    match (expr, request.kind) {
        (Expr::Log(_), _) => QueryResult::Streams(Vec::new()),
        (Expr::Metric(_), Kind::Instant { .. }) => QueryResult::Vector(Vec::new()),
        (Expr::Metric(_), Kind::Range { .. }) => QueryResult::Matrix(Vec::new()),
    }
}

/// Parses a selector, `{a="b", c=~"d"}`. It may select every stream.
pub fn parse_selector(text: &str) -> Result<Vec<Matcher>, Error> {
    match parser::parse_unchecked(text)? {
        Expr::Log(log) if log.stages.is_empty() => Ok(log.matchers),
        _ => Err(Error::Invalid("only label matchers are supported".to_owned())),
    }
}

/// Parses a selector. At least one of its matchers must not match a missing label.
pub fn parse_selecting(text: &str) -> Result<Vec<Matcher>, Error> {
    let matchers = parse_selector(text)?;
    parser::matchers::validate_matchers(&matchers)?;
    Ok(matchers)
}

/// Parses a log query for following new rows.
pub fn compile_log_query(text: &str) -> Result<LogQuery, Error> {
    Ok(LogQuery::new(&parser::parse_log(text)?))
}

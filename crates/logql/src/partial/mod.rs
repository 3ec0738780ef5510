//! Parts of a query that several processes answer: what one is asked, what it answers, and how the answers
//! become that of the query.
//!
//! **What is divided.** The streams, by the part in the query's context ([`sandur_query::Part`]). Of a log
//! query each process answers with the rows that rank first in its part. Of a metric query it answers each
//! range aggregation with its groups, which have not been turned into values yet; everything around them is
//! computed by the process that asks.
//!
//! **Life of a divided query.** [`sub_queries`] lists what has to be asked. [`answer_part`] answers a
//! [`SubQuery`] from a source, as a [`Partial`], which [`Partial::to_bytes`] writes. [`join`] answers the
//! query from the answers of all parts.
//!
//! **Invariants.** The answer is that of one process to the last bit, whatever the division: a stream is in
//! one part, so duplicates are found there, and accumulations do not depend on the order of rows. A sub-query
//! names its range aggregation; a process that parses the query otherwise refuses it. Memory is reserved
//! before bytes are decoded.

mod rows;
mod wire;

#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use sandur_memory::Reservation;
use sandur_model::Limits;
use sandur_query::{Error, LogSource, QueryContext, QueryResult, RankedRow, TopRows};

use crate::ast::{Expr, LogExpr, MetricExpr};
use crate::evaluate::{Evaluation, Range, ranges};
use crate::log_scan::thin_out;
use crate::range_groups::RangeGroups;
use crate::range_scan::{self, RangeScan};
use crate::request::{self, Request, Steps};
use crate::splits;

/// What a process is asked: the rows of a log query, or the groups of one range aggregation of a metric
/// query, in the part that its context names.
#[derive(Clone, Debug)]
pub struct SubQuery {
    /// The query.
    pub request: Request,
    /// The time at which the query began, in nanoseconds since the epoch.
    begun_ns: i64,
    /// The number of the range aggregation; 0 for a log query.
    number: usize,
    /// The expression of the range aggregation, by which a process recognises another reading of the query.
    expr: String,
}

/// What a process answers.
pub struct Partial {
    number: usize,
    found: Found,
    /// Warnings of the source, for example that a block is damaged.
    warnings: Vec<String>,
}

enum Found {
    Rows(Vec<RankedRow>, Vec<Reservation>),
    Groups(Box<RangeGroups>),
}

/// The sub-queries of a query: each must be answered for every part.
pub fn sub_queries(context: &QueryContext, request: &Request, expr: &Expr) -> Vec<SubQuery> {
    let begun_ns = context.begun_ns();
    let of = |(number, expr)| SubQuery { request: request.clone(), begun_ns, number, expr };
    match expr {
        Expr::Log(_) => vec![of((0, String::new()))],
        Expr::Metric(metric) => ranges(metric).iter().map(shown).enumerate().map(of).collect(),
    }
}

/// A range aggregation as text, with the grouping that it takes over.
fn shown((range, outer): &Range<'_>) -> String {
    match outer {
        None => range.to_string(),
        Some(outer) => format!("sum {outer} ({range})"),
    }
}

/// The steps of a metric query.
fn steps_of(request: &Request) -> Result<Steps, Error> {
    request::metric_steps(request, &Limits { max_query_length: 0, ..Limits::default() })
}

impl SubQuery {
    /// The scan of the range aggregation.
    fn scan(&self, metric: &MetricExpr) -> Result<RangeScan, Error> {
        let (steps, all) = (steps_of(&self.request)?, ranges(metric));
        let own = all.get(self.number);
        let shown = own.map_or_else(String::new, shown);
        match own.filter(|_| shown == self.expr) {
            Some((range, outer)) => Ok(RangeScan::new(range, outer.as_ref(), steps.windows(range))),
            None => Err(Error::Invalid(format!(
                "range aggregation {} of the query is '{shown}' here and '{}' in the process that asks: the \
                 processes read queries differently; let them run the same version",
                self.number, self.expr
            ))),
        }
    }
}

/// Answers a sub-query for the streams in the part of the context.
pub async fn answer_part(
    source: &dyn LogSource,
    context: &QueryContext,
    limits: &Limits,
    query: &SubQuery,
) -> Result<Partial, Error> {
    let context = &context.clone().with_begun(query.begun_ns);
    let expr = crate::parse_for(context, limits, &query.request.query).await?;
    let found = match &expr {
        Expr::Log(log) => rows_of_part(source, context, limits, query, log).await?,
        Expr::Metric(metric) => {
            let _turn = context.turn().await?;
            let scan = Arc::new(query.scan(metric)?);
            Found::Groups(Box::new(range_scan::groups(source, context, scan).await?))
        }
    };
    Ok(Partial { number: query.number, found, warnings: context.warnings() })
}

async fn rows_of_part(
    source: &dyn LogSource,
    context: &QueryContext,
    limits: &Limits,
    query: &SubQuery,
    log: &LogExpr,
) -> Result<Found, Error> {
    let mut request = query.request.clone();
    let range = request::log_range(&request, limits)?;
    if request.interval_ns > 0 {
        // Each row of the answer depends on the previous one, which may be in another part.
        (request.interval_ns, request.limit) = (0, u32::MAX);
    }
    let (rows, held) = splits::ranked_rows(source, context, limits, log, (&request, range)).await?;
    Ok(Found::Rows(rows, held))
}

/// The answer of a query from the answers to its sub-queries for all parts. `source` is not read.
pub async fn join(
    source: &dyn LogSource,
    context: &QueryContext,
    limits: &Limits,
    (request, expr): (&Request, &Expr),
    parts: Vec<Partial>,
) -> Result<QueryResult, Error> {
    parts.iter().flat_map(|part| &part.warnings).for_each(|warning| context.warn(warning.clone()));
    match expr {
        Expr::Log(_) => joined_rows(context, request, parts).map(QueryResult::Streams),
        Expr::Metric(metric) => {
            let groups = joined_groups(context, request, metric, parts).await?;
            let (steps, joined) = (steps_of(request)?, Mutex::new(groups));
            let evaluation = Evaluation { source, context, steps, joined: Some(&joined) };
            evaluation.answer(metric, limits).await
        }
    }
}

fn joined_rows(
    context: &QueryContext,
    request: &Request,
    parts: Vec<Partial>,
) -> Result<Vec<sandur_query::LogRow>, Error> {
    let limit = if request.interval_ns > 0 { usize::MAX } else { request.limit as usize };
    let mut top = TopRows::new(context.budget(), request.direction, limit)?;
    for part in parts {
        let Found::Rows(rows, _held) = part.found else {
            return Err(Error::Invalid("a log query is not answered by groups".to_owned()));
        };
        for (place, mut ranked) in (0..).zip(rows) {
            // A stream is in one part, where its rows of one instant are in their order.
            (ranked.key.item, ranked.key.row) = (place, 0);
            top.offer(ranked)?;
        }
    }
    let (mut rows, _held) = top.into_ranked();
    if request.interval_ns > 0 {
        thin_out(&mut rows, request.interval_ns, request.limit as usize);
    }
    Ok(rows.into_iter().map(|ranked| ranked.row).collect())
}

/// The groups of each range aggregation, of all parts.
async fn joined_groups(
    context: &QueryContext,
    request: &Request,
    metric: &MetricExpr,
    parts: Vec<Partial>,
) -> Result<VecDeque<RangeGroups>, Error> {
    let steps = steps_of(request)?;
    let mut joined = Vec::new();
    for (range, outer) in ranges(metric) {
        let scan = RangeScan::new(range, outer.as_ref(), steps.windows(range));
        joined.push((scan.no_groups(context)?, scan.slots()));
    }
    let job = move || {
        for part in parts {
            let own = joined.get_mut(part.number);
            match (part.found, own) {
                (Found::Groups(groups), Some((own, slots))) => own.add(&groups, *slots)?,
                _ => return Err(Error::Invalid(format!("the query has no range {}", part.number))),
            }
        }
        Ok(joined.into_iter().map(|(groups, _)| groups).collect())
    };
    context.compute(job).await
}

//! Evaluates a PromQL query with the limits of its tenant, and with the step cache where that is exact.

use sandur_promql::{Expr, Request};
use sandur_query::{Error, QueryContext};

use super::evaluated::Evaluated;
use super::steps::{Steps, whole};
use crate::queries::Queries;

/// Evaluates a parsed query. If other queries hold the memory that it needs, it waits and tries again.
pub(super) async fn evaluate(
    queries: &Queries,
    context: &QueryContext,
    request: &Request,
    expr: &Expr,
) -> Result<Evaluated, Error> {
    let mut retries = context.memory_retries();
    loop {
        let done = once(queries, context, request, expr).await;
        if !retries.repeat_after(&done).await {
            return done;
        }
    }
}

async fn once(
    queries: &Queries,
    context: &QueryContext,
    request: &Request,
    expr: &Expr,
) -> Result<Evaluated, Error> {
    let source = queries.samples();
    let is_range = request.times.step > 0;
    let keeps = is_range && context.results().is_some() && context.earliest_ns() == i64::MIN;
    match Steps::new(&source, context, request, expr, queries.wide_turns()).filter(|_| keeps) {
        Some(steps) => steps.run(queries.limits(context.tenant()).split_queries_by_interval).await,
        None => whole(&source, context, request, expr, queries.wide_turns()).await,
    }
}

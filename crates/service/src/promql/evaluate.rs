//! Evaluates a PromQL query with the limits of its tenant, and with the step cache where that is exact.

use sandur_promql::{Answer, Expr, Request};
use sandur_query::{Error, QueryContext};

use super::rows::Rows;
use super::steps::{Steps, whole};
use crate::queries::Queries;

/// The rows of an answer, with warnings, infos and counts.
pub struct Evaluated {
    /// The series, vector or number.
    pub rows: Rows,
    /// Warnings of the evaluation.
    pub warnings: Vec<String>,
    /// Infos of the evaluation.
    pub infos: Vec<String>,
    /// Number of samples that were read.
    pub samples: u64,
    /// Samples that the largest piece read.
    pub peak_samples: u64,
}

impl Evaluated {
    /// Converts the answer of one evaluation.
    pub(super) fn of(mut answer: Answer) -> Self {
        let (warnings, infos) = (std::mem::take(&mut answer.warnings), std::mem::take(&mut answer.infos));
        let samples = answer.samples;
        Self { rows: Rows::Evaluated(answer), warnings, infos, samples, peak_samples: samples }
    }
}

/// Evaluates a parsed query. If other queries hold the memory that it needs, it waits and tries again.
pub(super) async fn evaluate(
    queries: &Queries,
    context: &QueryContext,
    request: &Request,
    expr: &Expr,
) -> Result<Evaluated, Error> {
    let mut room = context.room();
    loop {
        let done = once(queries, context, request, expr).await;
        if !room.is_found_after(&done).await {
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
    match Steps::new(&source, context, request, expr).filter(|_| keeps) {
        Some(steps) => steps.run(queries.limits(context.tenant()).split_queries_by_interval).await,
        None => whole(&source, context, request, expr).await,
    }
}

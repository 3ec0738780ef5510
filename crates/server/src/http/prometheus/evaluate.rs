//! Evaluation of a query: with its tenant's limits, and from steps that were kept where that is exact.

use sandur_query::{Error, QueryContext};

use super::result::Rows;
use super::steps::{Steps, whole};
use super::visible::Visible;
use crate::http::app::AppState;
use crate::wiring::promql::{Answer, Expr, Request, Value};

/// What is asked.
pub struct Asked {
    /// The query, its times and options.
    pub request: Request,
    /// Most series of the answer.
    pub limit: Option<usize>,
    /// Whether statistics stand in the answer.
    pub stats: String,
}

/// What came of it.
pub struct Evaluated {
    /// The rows.
    pub rows: Rows,
    /// Warnings.
    pub warnings: Vec<String>,
    /// Infos.
    pub infos: Vec<String>,
    /// Samples that were read.
    pub samples: u64,
    /// Samples of the largest piece.
    pub peak_samples: u64,
}

impl Evaluated {
    /// An answer as it is.
    pub fn of(mut answer: Answer) -> Self {
        let (warnings, infos) = (std::mem::take(&mut answer.warnings), std::mem::take(&mut answer.infos));
        let samples = answer.samples;
        Self { rows: Rows::Evaluated(answer), warnings, infos, samples, peak_samples: samples }
    }

    /// Series of the answer.
    pub fn is_number(&self) -> bool {
        matches!(&self.rows, Rows::Evaluated(Answer { value: Value::Scalar(_) | Value::String(_), .. }))
    }
}

/// Evaluates a query that was read, when there is room for it.
pub async fn evaluate(
    app: &AppState,
    context: &QueryContext,
    asked: &Asked,
    expr: &Expr,
) -> Result<Evaluated, Error> {
    let mut room = context.room();
    loop {
        let done = evaluated(app, context, asked, expr).await;
        if !room.is_found_after(&done).await {
            return done;
        }
    }
}

async fn evaluated(
    app: &AppState,
    context: &QueryContext,
    asked: &Asked,
    expr: &Expr,
) -> Result<Evaluated, Error> {
    let source = Visible::new(&*app.sources.samples);
    let is_range = asked.request.times.step > 0;
    let keeps = is_range && context.results().is_some() && context.earliest_ns() == i64::MIN;
    match Steps::new(&source, context, asked, expr).filter(|_| keeps) {
        Some(steps) => steps.run(app.limits(context.tenant()).split_queries_by_interval).await,
        None => whole(&source, context, &asked.request, expr).await,
    }
}

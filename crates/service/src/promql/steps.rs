//! Evaluates range queries with the step cache: only steps that are not cached are evaluated.
//!
//! [`over_steps`] stores the steps of a query under the versions of all samples that a step reads. Only
//! series of floats from evaluations without warnings and infos are stored. A query that returns
//! histograms, warnings or infos is evaluated each time.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use sandur_base::BoxFuture;
use sandur_promql::{self as promql, Answer, Expr, Request, Times, Value};
use sandur_query::{
    Error, FairQueue, HeldSeries, QueryContext, QueryStats, Sample, SampleSource, Series, StepEvaluator,
    StepTimes, over_steps,
};

use super::evaluated::Evaluated;
use super::rows::Rows;

const MS_NS: i64 = sandur_model::MILLISECOND_NS;
/// Up to this size, converting an answer at once is faster than handing it to the CPU pool.
const LITTLE_BYTES: u64 = 128 << 10;
/// Minimum raw bytes of samples for a piece that waits in the queue separately. A sample has 16 raw bytes,
/// of which one or two are stored, and only matching series are read. Each piece pays the cost per series
/// again.
const PIECE_BYTES: u64 = 1 << 30;
/// An evaluation of at least this many steps waits for its turn among such evaluations too. A refresh of a
/// panel, of which most steps are cached, has fewer.
const WIDE_STEPS: usize = 64;

#[cfg(test)]
#[path = "steps_tests.rs"]
mod tests;

/// A query whose steps can be evaluated independently.
pub struct Steps<'a> {
    source: &'a dyn SampleSource,
    context: &'a QueryContext,
    request: &'a Request,
    expr: &'a Expr,
    windows: Vec<(i64, i64)>,
    /// The turns of evaluations of many steps.
    wide: &'a FairQueue,
    seen: Mutex<Seen>,
}

/// Results of evaluations other than series of floats.
#[derive(Default)]
struct Seen {
    warnings: Vec<String>,
    infos: Vec<String>,
    samples: u64,
    peak_samples: u64,
    has_histograms: bool,
    /// The answer over all steps, if it has histograms.
    whole: Option<Answer>,
}

impl<'a> Steps<'a> {
    /// `None` if the value of a step depends on more than its own time.
    pub fn new(
        source: &'a dyn SampleSource,
        context: &'a QueryContext,
        request: &'a Request,
        expr: &'a Expr,
        wide: &'a FairQueue,
    ) -> Option<Self> {
        let windows = promql::windows(expr, &request.options)?;
        Some(Self { source, context, request, expr, windows, wide, seen: Mutex::default() })
    }

    fn seen(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Evaluates all steps.
    pub async fn run(self, interval_ns: i64) -> Result<Evaluated, Error> {
        let Times { start, end, step } = self.request.times;
        let at = |ms: i64| ms.saturating_mul(MS_NS);
        let steps = StepTimes { first_ns: at(start), last_ns: at(end), step_ns: at(step) };
        let joined = over_steps(self.source, self.context, steps, interval_ns, &self).await;
        let seen = self.seen.into_inner().unwrap_or_else(PoisonError::into_inner);
        if seen.has_histograms {
            return match seen.whole {
                Some(answer) => Ok(Evaluated::of(answer)),
                None => whole(self.source, self.context, self.request, self.expr, self.wide).await,
            };
        }
        let Seen { warnings, infos, samples, peak_samples, .. } = seen;
        Ok(Evaluated { rows: Rows::Joined(joined?), warnings, infos, samples, peak_samples })
    }

    /// Records warnings, infos and counts of an evaluation. If the answer has histograms, it fails, and
    /// keeps the answer if that covers all steps.
    fn note(&self, answer: Answer, is_whole: bool) -> Result<Answer, Error> {
        let has_histograms = match &answer.value {
            Value::Matrix(series) => series.iter().any(|series| !series.histograms.is_empty()),
            _ => true,
        };
        let mut seen = self.seen();
        let Seen { warnings, infos, samples, peak_samples, .. } = &mut *seen;
        *samples += answer.samples;
        *peak_samples = answer.samples.max(*peak_samples);
        for (of, new) in [(warnings, &answer.warnings), (infos, &answer.infos)] {
            for text in new {
                if !of.contains(text) {
                    of.push(text.clone());
                }
            }
        }
        if !has_histograms {
            return Ok(answer);
        }
        seen.has_histograms = true;
        seen.whole = is_whole.then_some(answer);
        Err(Error::Cancelled)
    }

    async fn piece(&self, (first_ns, last_ns): (i64, i64)) -> Result<HeldSeries, Error> {
        if self.seen().has_histograms {
            // [`Steps::run`] evaluates all steps at once instead.
            return Err(Error::Cancelled);
        }
        let all = self.request.times;
        let (start, last) = (first_ns.div_euclid(MS_NS), last_ns.div_euclid(MS_NS));
        // A query with several steps must stay a range query when one step of it is left.
        let is_open = start == last && all.start < all.end && all.step > 1;
        let times = Times { start, end: last + i64::from(is_open), ..all };
        let request = Request { times, ..self.request.clone() };
        let answer = evaluate(self.source, self.context, &request, self.expr, self.wide).await?;
        let answer = self.note(answer, times.grid().steps == all.grid().steps)?;
        let memory = self.context.budget().reserve(answer.memory.bytes())?;
        let is_little = answer.memory.bytes() <= LITTLE_BYTES;
        let series = self.context.compute_sized(is_little, move || Ok(numbers_of(answer))).await?;
        Ok(HeldSeries { series, memory })
    }
}

/// Converts an answer without histograms to the form of the step cache.
fn numbers_of(answer: Answer) -> Vec<Series> {
    let Value::Matrix(all) = answer.value else { return Vec::new() };
    let one = |series: promql::Series| Series {
        labels: Arc::new(series.labels.iter().map(|(name, value)| (name.into(), value.into())).collect()),
        samples: series
            .floats
            .into_iter()
            .map(|(timestamp_ms, value)| Sample { timestamp_ms, value })
            .collect(),
    };
    all.into_iter().map(one).collect()
}

/// Waits in the queue of queries, then evaluates.
///
/// Evaluations of many steps read many samples, and several at once would use the memory of all queries:
/// those that lack memory would start again, and would delay those of few steps. Therefore they also have
/// their own queue. An evaluation first waits for its turn in that queue, then for its turn in the queue of
/// all queries. It never waits in the opposite order, so two evaluations cannot wait for each other.
async fn evaluate(
    source: &dyn SampleSource,
    context: &QueryContext,
    request: &Request,
    expr: &Expr,
    wide: &FairQueue,
) -> Result<Answer, Error> {
    let _wide_turn = match request.times.grid().steps < WIDE_STEPS {
        true => None,
        false => context.clone().with_queue(wide.clone()).turn().await?,
    };
    let _turn = context.turn().await?;
    QueryStats::add(&context.stats().splits, 1);
    promql::query_parsed(source, context, request, expr).await
}

/// Evaluates all steps at once.
pub async fn whole(
    source: &dyn SampleSource,
    context: &QueryContext,
    request: &Request,
    expr: &Expr,
    wide: &FairQueue,
) -> Result<Evaluated, Error> {
    evaluate(source, context, request, expr, wide).await.map(Evaluated::of)
}

impl StepEvaluator for Steps<'_> {
    fn language(&self) -> &'static str {
        "promql"
    }

    fn text(&self) -> String {
        self.expr.to_string()
    }

    fn windows(&self) -> Vec<(i64, i64)> {
        self.windows.clone()
    }

    fn asks_for_time(&self) -> bool {
        false
    }

    fn piece_bytes(&self) -> u64 {
        PIECE_BYTES
    }

    fn may_keep(&self) -> bool {
        let seen = self.seen();
        !seen.has_histograms && seen.warnings.is_empty() && seen.infos.is_empty()
    }

    fn evaluate(&self, instants: (i64, i64)) -> BoxFuture<'_, Result<HeldSeries, Error>> {
        Box::pin(self.piece(instants))
    }
}

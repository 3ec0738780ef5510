//! Runs a query from its text to its answer: the asynchronous shell around the operators.
//!
//! Operators compute over the series that have arrived. If they need more of a selector, the shell waits
//! for its next batch and hands it over. Operators then continue on the CPU pool while the shell fetches
//! the batch after that ([`crate::sets`]).

use std::cmp::Ordering;
use std::sync::Arc;

use sandur_memory::job::{JobMemory, spend};
use sandur_model::FloatHistogram;
use sandur_query::{Error, QueryContext, QueryStats, SampleSource, Samples};

use crate::answer::{Answer, Point, Series, Value};
use crate::ast::Expr;
use crate::column::Sample;
use crate::found::{Found, FoundSeries};
use crate::labels::{LabelPool, LabelsId};
use crate::lengths::check_named_times;
use crate::ops::binary::same_labels;
use crate::ops::range_call::PointSeries;
use crate::order::sorted;
use crate::plan::{Jobs, Plan, plan};
use crate::run::{LeafId, Options, Run};
use crate::sets::Sets;
use crate::timing::Times;
use crate::value_type::Type;

/// A query with its times and options.
#[derive(Clone, Debug)]
pub struct Request {
    /// The text of the query.
    pub query: String,
    /// The steps.
    pub times: Times,
    /// The options of the evaluation.
    pub options: Options,
}

/// Parses and answers a query.
pub async fn query(
    source: &dyn SampleSource,
    context: &QueryContext,
    request: &Request,
) -> Result<Answer, Error> {
    let text = request.query.clone();
    let expr = context.compute(move || Ok(crate::parser::parse(&text)?)).await?;
    query_parsed(source, context, request, &expr).await
}

/// Answers a query that is already parsed.
pub async fn query_parsed(
    source: &dyn SampleSource,
    context: &QueryContext,
    request: &Request,
    expr: &Expr,
) -> Result<Answer, Error> {
    let kind = expr.value_type();
    check_named_times(expr, request.times, request.options.named(request.times))?;
    let (expr, times, options) = (expr.clone(), request.times, request.options);
    let planned = move || {
        let mut run = Run::new(options);
        let (plan, jobs) = plan(&expr, times, &mut run)?;
        Ok((Box::new(State::new(run, plan, kind, times)), jobs))
    };
    let is_little = request.query.len() <= SHORT_TEXT && !request.query.contains(REGEX_FUNCTION);
    let (state, jobs) = context.compute_sized(is_little, planned).await?;
    run(source, context, state, jobs, request.query.as_str().into()).await
}

/// Runs a planned query. Reads the selectors whose series have not arrived.
pub async fn run(
    source: &dyn SampleSource,
    context: &QueryContext,
    mut state: Box<State>,
    jobs: Jobs,
    text: Arc<str>,
) -> Result<Answer, Error> {
    let mut sets = Sets::new(source, context, jobs);
    // If there is only one selector, operators need it first.
    let mut needed = match state.run.leaves.as_slice() {
        [only] if !only.is_done => sets.fetch(&mut state.run, LeafId(0)).await?,
        _ => None,
    };
    loop {
        let text = Arc::clone(&text);
        let counted = context.clone();
        let compute = context.compute_sized(sets.are_little(&state.run), move || {
            let (mut state, began) = (state, counted.env().monotonic());
            let outcome = state.advance(&text);
            let took = counted.env().monotonic().saturating_sub(began);
            QueryStats::add_time(&counted.stats().execution_ns, took);
            Ok((state, outcome?))
        });
        // The next batch is fetched while operators compute.
        let (computed, ahead) = match needed.and_then(|leaf| Some((leaf, sets.get(leaf)?))) {
            Some((leaf, set)) => {
                let (computed, came) = futures_util::future::join(compute, set.next()).await;
                (computed, Some((leaf, came)))
            }
            None => (compute.await, None),
        };
        let (next, outcome) = computed?;
        state = next;
        if let Some((leaf, came)) = ahead {
            sets.receive(&mut state.run, leaf, came?);
        }
        let leaf = match outcome {
            Outcome::Done(answer) => return Ok(answer),
            Outcome::Need(leaf) => leaf,
        };
        let at = &state.run.leaves[leaf.0];
        needed = match at.has_more() || at.is_done {
            true => (!at.is_done).then_some(leaf),
            false => sets.fetch(&mut state.run, leaf).await?,
        };
    }
}

/// Queries of at most this length in bytes are planned in place, without the CPU pool.
const SHORT_TEXT: usize = 256;
/// The function whose regular expression is compiled by the planner, which may take long even for a short
/// text.
const REGEX_FUNCTION: &str = "label_replace";

/// The outcome of computing until a batch is needed.
enum Outcome {
    Need(LeafId),
    Done(Answer),
}

/// The state of a query's evaluation.
pub struct State {
    run: Run,
    plan: Plan,
    found: FoundSeries,
    windows: Vec<PointSeries>,
    kind: Type,
    times: Times,
}

impl State {
    /// The state at the start.
    pub fn new(run: Run, plan: Plan, kind: Type, times: Times) -> Self {
        Self { run, plan, found: FoundSeries::default(), windows: Vec::new(), kind, times }
    }

    fn advance(&mut self, text: &str) -> Result<Outcome, Error> {
        let mut memory = JobMemory::default();
        let value = match &mut self.plan {
            Plan::Text(text) => Value::String(std::mem::take(text)),
            Plan::Series(operator) => {
                if let Some(leaf) = self.found.gather(operator, self.times.grid().steps, &mut self.run)? {
                    return Ok(Outcome::Need(leaf));
                }
                self.series(&mut memory)?
            }
            Plan::Windows(windows) => {
                loop {
                    match windows.pull(&mut self.run)? {
                        Err(leaf) => return Ok(Outcome::Need(leaf)),
                        Ok(None) => break,
                        Ok(Some(series)) => self.windows.extend(series),
                    }
                }
                self.points(&mut memory)?
            }
        };
        let (warnings, infos) = self.run.notes.texts(&self.run.pool, text);
        let (samples, memory) = (self.run.samples_read, Arc::new(memory));
        Ok(Outcome::Done(Answer { value, warnings, infos, samples, memory }))
    }

    /// Makes the answer from the gathered series.
    fn series(&mut self, memory: &mut JobMemory) -> Result<Value, Error> {
        let grid = self.times.grid();
        let found = self.found.take();
        let is_range = self.times.step > 0;
        let pool = &self.run.pool;
        let value = |found: &Found| match found.first() {
            Some(Sample::Histogram(histogram)) => Point::Histogram(histogram),
            Some(Sample::Float(value)) => Point::Float(value),
            None => Point::Float(f64::NAN),
        };
        if self.kind == Type::Scalar && !is_range {
            return Ok(Value::Scalar(match found.first().map(value) {
                Some(Point::Float(value)) => value,
                _ => f64::NAN,
            }));
        }
        let mut bytes = 0;
        for series in &found {
            spend(64)?;
            // The answer has a timestamp with each sample.
            bytes +=
                answer_bytes(pool, series.labels) + series.count() as u64 * 16 + series.histogram_bytes();
        }
        memory.at_least(bytes)?;
        if !is_range {
            let mut vector = Vec::with_capacity(found.len());
            for series in &found {
                spend(LABELS_WORK)?;
                vector.push((pool.labels(series.labels), value(series)));
            }
            return Ok(Value::Vector(vector));
        }
        // Sorts small keys, not series. A key holds the first bytes of the first label's value, which
        // decide most comparisons.
        memory.at_least(bytes + found.len() as u64 * 40)?;
        let key = |(n, series): (usize, &Found)| (pool.sort_key(series.labels), series.labels, n);
        let order: Vec<_> = found.iter().enumerate().map(key).collect();
        let mut found: Vec<Option<Found>> = found.into_iter().map(Some).collect();
        let order = sorted(order, |(a, a_labels, _), (b, b_labels, _)| match (a.cmp(b), a.0 == b.0) {
            (order @ (Ordering::Less | Ordering::Greater), true) => order,
            _ => pool.compare(*a_labels, *b_labels),
        })?;
        let mut answer = Vec::with_capacity(found.len());
        for series in order.into_iter().filter_map(|(_, _, n)| found[n].take()) {
            spend(LABELS_WORK + series.count() * 2)?;
            let labels = pool.labels(series.labels);
            answer.push(series.answered(labels, &grid));
        }
        Ok(Value::Matrix(answer))
    }

    fn points(&mut self, memory: &mut JobMemory) -> Result<Value, Error> {
        let pool = &mut self.run.pool;
        let (mut windows, mut bytes) = (std::mem::take(&mut self.windows), 0);
        for series in &mut windows {
            if series.drop_name {
                series.labels = pool.nameless(series.labels);
            }
            let Samples { times, histograms, .. } = &series.samples;
            spend(64 + histograms.len())?;
            let histogram_bytes: u64 = histograms.iter().map(|histogram| histogram.memory_bytes()).sum();
            let samples = (times.len() + histograms.len()) as u64 * 16;
            bytes += answer_bytes(pool, series.labels) + samples + histogram_bytes;
        }
        pool.check()?;
        memory.at_least(bytes)?;
        let windows = sorted(windows, |a, b| pool.compare(a.labels, b.labels))?;
        let (mut answer, mut windows) = (Vec::with_capacity(windows.len()), windows.into_iter().peekable());
        while let Some(PointSeries { labels, samples, .. }) = windows.next() {
            spend(LABELS_WORK)?;
            let mut series =
                Series { labels: pool.labels(labels), floats: Vec::new(), histograms: Vec::new() };
            series.add(samples)?;
            let mut is_joined = false;
            // Before their names were dropped, these were different series.
            while let Some(same) = windows.next_if(|next| next.labels == labels) {
                series.add(same.samples)?;
                is_joined = true;
            }
            if is_joined {
                series.sort()?;
            }
            answer.push(series);
        }
        Ok(Value::Matrix(answer))
    }
}

impl Series {
    fn add(&mut self, samples: Samples) -> Result<(), Error> {
        let Samples { times, values, histogram_times, histograms, .. } = samples;
        spend(times.len() * 2)?;
        self.floats.extend(times.iter().copied().zip(values));
        self.histograms.extend(histogram_times.into_iter().zip(histograms));
        Ok(())
    }

    /// Sorts the samples of joined series by time; fails if two have the same time.
    fn sort(&mut self) -> Result<(), Error> {
        spend((self.floats.len() + self.histograms.len()) * 2)?;
        self.floats.sort_by_key(|(time, _)| *time);
        self.histograms.sort_by_key(|(time, _)| *time);
        let is_twice = self.floats.windows(2).any(|pair| pair[0].0 == pair[1].0)
            || self.histograms.windows(2).any(|pair| pair[0].0 == pair[1].0)
            || have_common_time(&self.floats, &self.histograms);
        if is_twice { Err(same_labels()) } else { Ok(()) }
    }
}

/// Whether a float and a histogram have the same time; both lists are sorted.
fn have_common_time(floats: &[(i64, f64)], histograms: &[(i64, Arc<FloatHistogram>)]) -> bool {
    let mut rest = floats.iter().map(|(time, _)| *time).peekable();
    histograms.iter().any(|(time, _)| {
        while rest.next_if(|float| float < time).is_some() {}
        rest.peek() == Some(time)
    })
}

/// The work of writing the labels of a series of an answer.
const LABELS_WORK: usize = 512;

/// The bytes of a series of an answer, without its samples.
fn answer_bytes(pool: &LabelPool, labels: LabelsId) -> u64 {
    (size_of::<Series>() + pool.set(labels).len() * LABEL_BYTES + pool.text_bytes(labels)) as u64
}

/// The bytes of a label, without its texts.
const LABEL_BYTES: usize = 48;

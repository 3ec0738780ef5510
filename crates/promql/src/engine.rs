//! A query from its text to its answer: the asynchronous shell around the operators.
//!
//! Operators compute over batches that are there. When they need the next batch of a selector, the shell
//! waits for it, hands it over, and lets them go on, on the CPU pool, while it fetches the batch after that.

use std::sync::Arc;

use sandur_model::{FloatHistogram, Labels};
use sandur_query::{Error, QueryContext};

use crate::ast::{Expr, Type};
use crate::column::{Column, Grid};
use crate::data::{Samples, SeriesBatch, SeriesSet, SeriesSource};
use crate::ops::range_call::PointSeries;
use crate::ops::relabel::merge;
use crate::plan::{Plan, Times, plan};
use crate::run::{Gathered, LeafId, Options, Run};

/// What is asked.
#[derive(Clone, Debug)]
pub struct Request {
    /// The query.
    pub query: String,
    /// When.
    pub times: Times,
    /// How it is evaluated.
    pub options: Options,
}

/// A sample of an answer.
#[derive(Clone, Debug, PartialEq)]
pub enum Point {
    /// A number.
    Float(f64),
    /// A histogram.
    Histogram(Arc<FloatHistogram>),
}

/// A series of an answer.
#[derive(Clone, Debug, PartialEq)]
pub struct Series {
    /// Its labels.
    pub labels: Labels,
    /// Times and numbers.
    pub floats: Vec<(i64, f64)>,
    /// Times and histograms.
    pub histograms: Vec<(i64, Arc<FloatHistogram>)>,
}

/// What a query answers.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// A number.
    Scalar(f64),
    /// A text.
    String(String),
    /// Series at an instant.
    Vector(Vec<(Labels, Point)>),
    /// Series over time, sorted by labels.
    Matrix(Vec<Series>),
}

/// An answer with what people should know about it.
#[derive(Clone, Debug)]
pub struct Answer {
    /// What was answered.
    pub value: Value,
    /// Warnings, with their places in the query.
    pub warnings: Vec<String>,
    /// Infos, with their places in the query.
    pub infos: Vec<String>,
    /// Samples that were looked at.
    pub samples: u64,
}

/// Answers a query.
pub async fn query(
    source: &dyn SeriesSource,
    context: &QueryContext,
    request: &Request,
) -> Result<Answer, Error> {
    let text = request.query.clone();
    let expr = context.compute(move || Ok(crate::parser::parse(&text)?)).await?;
    query_parsed(source, context, request, &expr).await
}

/// Answers a query that was read already.
pub async fn query_parsed(
    source: &dyn SeriesSource,
    context: &QueryContext,
    request: &Request,
    expr: &Expr,
) -> Result<Answer, Error> {
    let kind = expr.value_type();
    check_range(kind, request.times)?;
    let (expr, times, options) = (expr.clone(), request.times, request.options);
    let mut state = context
        .compute(move || {
            let mut run = Run::new(options);
            let plan = plan(&expr, times, &mut run)?;
            let (gathered, windows) = (Gathered::default(), Vec::new());
            Ok(Box::new(State { run, plan, gathered, windows, kind, times }))
        })
        .await?;
    let mut sets: Vec<Option<Box<dyn SeriesSet + '_>>> = Vec::new();
    let text: Arc<str> = request.query.as_str().into();
    let mut needed = None;
    loop {
        let text = Arc::clone(&text);
        let compute = context.compute(move || {
            let mut state = state;
            let outcome = state.advance(&text)?;
            Ok((state, outcome))
        });
        // The batch that comes next is fetched meanwhile.
        let (computed, ahead) = match needed.and_then(|LeafId(n)| sets.get_mut(n)?.as_mut()) {
            Some(set) => {
                let (computed, batch) = futures_util::future::join(compute, set.next()).await;
                (computed, Some(batch))
            }
            None => (compute.await, None),
        };
        let (next, outcome) = computed?;
        state = next;
        if let (Some(LeafId(n)), Some(batch)) = (needed, ahead) {
            state.receive(LeafId(n), batch?);
            if state.run.leaves[n].is_done {
                sets[n] = None;
                needed = None;
            }
        }
        let leaf = match outcome {
            Outcome::Done(answer) => return Ok(answer),
            Outcome::Need(leaf) => leaf,
        };
        let LeafId(n) = leaf;
        if sets.len() <= n {
            sets.resize_with(n + 1, || None);
        }
        let at = &state.run.leaves[n];
        if !at.inbox.is_empty() || at.is_done {
            needed = (!at.is_done).then_some(leaf);
            continue;
        }
        if sets[n].is_none() {
            sets[n] = Some(source.select(context, at.query.clone()).await?);
        }
        if let Some(set) = &mut sets[n] {
            let batch = set.next().await?;
            needed = batch.is_some().then_some(leaf);
            state.receive(leaf, batch);
        }
    }
}

/// A range query answers series with a sample at each step.
fn check_range(kind: Type, times: Times) -> Result<(), Error> {
    if times.step == 0 || matches!(kind, Type::Vector | Type::Scalar) {
        return Ok(());
    }
    let kind = kind.documented();
    Err(Error::Invalid(format!(
        "invalid expression type \"{kind}\" for range query, must be Scalar or instant Vector"
    )))
}

/// What came of computing until something is needed.
enum Outcome {
    Need(LeafId),
    Done(Answer),
}

struct State {
    run: Run,
    plan: Plan,
    gathered: Gathered,
    windows: Vec<PointSeries>,
    kind: Type,
    times: Times,
}

impl State {
    fn receive(&mut self, LeafId(n): LeafId, batch: Option<SeriesBatch>) {
        let leaf = &mut self.run.leaves[n];
        match batch {
            Some(batch) => leaf.inbox.push_back(batch),
            None => leaf.is_done = true,
        }
    }

    fn advance(&mut self, text: &str) -> Result<Outcome, Error> {
        let value = match &mut self.plan {
            Plan::Text(text) => Value::String(std::mem::take(text)),
            Plan::Series(operator) => {
                if let Some(leaf) = self.gathered.gather(operator, &mut self.run)? {
                    return Ok(Outcome::Need(leaf));
                }
                self.series()?
            }
            Plan::Windows(windows) => {
                loop {
                    match windows.pull(&mut self.run)? {
                        Err(leaf) => return Ok(Outcome::Need(leaf)),
                        Ok(None) => break,
                        Ok(Some(series)) => self.windows.extend(series),
                    }
                }
                self.points()
            }
        };
        let (warnings, infos) = self.run.notes.texts(&self.run.pool, text);
        let samples = self.run.samples_read;
        Ok(Outcome::Done(Answer { value, warnings, infos, samples }))
    }

    /// Drops names, merges what is the same then, and makes the answer.
    fn series(&mut self) -> Result<Value, Error> {
        let grid = self.times.grid();
        let mut columns = std::mem::take(&mut self.gathered.columns);
        let is_range = self.times.step > 0;
        if self.kind == Type::Scalar && !is_range {
            let value = columns.first().map_or(f64::NAN, |column| column.values[0]);
            return Ok(Value::Scalar(value));
        }
        let pool = &mut self.run.pool;
        columns.retain(Column::has_any);
        for column in columns.iter_mut().filter(|column| column.drop_name) {
            column.labels = pool.nameless(column.labels);
        }
        pool.check()?;
        let mut columns = merge(columns)?;
        // The answer has a time beside each sample.
        let samples: usize = columns.iter().map(Column::count).sum();
        self.run.keep(samples as u64 * 16)?;
        let pool = &self.run.pool;
        if !is_range {
            let sample = |column: &Column| match column.histogram(0) {
                Some(histogram) => Point::Histogram(Arc::clone(histogram)),
                None => Point::Float(column.values[0]),
            };
            let vector = columns.iter().map(|column| (pool.labels(column.labels), sample(column)));
            return Ok(Value::Vector(vector.collect()));
        }
        columns.sort_by(|a, b| pool.compare(a.labels, b.labels));
        let series = columns.iter().map(|column| series_of(pool.labels(column.labels), column, &grid));
        Ok(Value::Matrix(series.collect()))
    }

    fn points(&mut self) -> Value {
        let pool = &mut self.run.pool;
        for series in self.windows.iter_mut().filter(|series| series.drop_name) {
            series.labels = pool.nameless(series.labels);
        }
        self.windows.sort_by(|a, b| pool.compare(a.labels, b.labels));
        let windows = std::mem::take(&mut self.windows);
        let series = windows.into_iter().map(|series| {
            let Samples { times, values, histogram_times, histograms, .. } = series.samples;
            Series {
                labels: pool.labels(series.labels),
                floats: times.into_iter().zip(values).collect(),
                histograms: histogram_times.into_iter().zip(histograms).collect(),
            }
        });
        Value::Matrix(series.collect())
    }
}

fn series_of(labels: Labels, column: &Column, grid: &Grid) -> Series {
    let (mut floats, mut histograms) = (Vec::with_capacity(column.count()), Vec::new());
    for step in column.steps() {
        let time = grid.time(step);
        match column.histogram(step) {
            Some(histogram) => histograms.push((time, Arc::clone(histogram))),
            None => floats.push((time, column.values[step])),
        }
    }
    Series { labels, floats, histograms }
}

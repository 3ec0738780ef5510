//! Data in memory: what rules read and write when the rules of a file are tested.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use sandur_base::BoxFuture;
use sandur_graphite::{StoredOptions, StoredSeries, last_values};
use sandur_logql::{Kind, Request};
use sandur_memory::MemoryBudget;
use sandur_model::{Labels, Limits, Matcher, SampleBatch, TenantId};
use sandur_promql::{Options, Times};
use sandur_query::{Direction, MemoryRow, MemorySeries, MemorySource, QueryContext, QueryResult, Samples};
use sandur_runtime::Env;

use crate::data::{Data, Instant, LastSample, Number, ReadSeries, Vector, last_samples_of, read_of};
use crate::error::EvaluationError;
use crate::served::{samples_of_graphite, vector_of};
use crate::spec::{Expression, Language};

/// The memory of all queries.
const MEMORY: u64 = 1 << 30;

/// Series and lines in memory.
pub struct MemoryData {
    env: Env,
    series: Mutex<MemorySeries>,
    lines: Mutex<Vec<MemoryRow>>,
    budget: MemoryBudget,
    /// Fails the next queries or writes; for tests.
    failing: Mutex<Option<EvaluationError>>,
}

impl MemoryData {
    /// No data.
    pub fn new(env: Env) -> Self {
        let budget = MemoryBudget::root("rules in memory", MEMORY);
        Self { env, series: Mutex::default(), lines: Mutex::default(), budget, failing: Mutex::default() }
    }

    /// The same data with less memory.
    pub fn with_memory(self, bytes: u64) -> Self {
        Self { budget: MemoryBudget::root("rules in memory", bytes), ..self }
    }

    /// The budget of its queries.
    pub fn budget(&self) -> &MemoryBudget {
        &self.budget
    }

    /// Lets all queries and writes fail with this error, or succeed again.
    pub fn fail(&self, error: Option<EvaluationError>) {
        *self.failing.lock().unwrap_or_else(PoisonError::into_inner) = error;
    }

    /// The series.
    pub fn series(&self) -> MutexGuard<'_, MemorySeries> {
        self.series.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a sample.
    pub fn add(&self, labels: &Labels, at_ms: i64, number: Number) {
        self.series().edit(labels, |samples| insert(samples, at_ms, number));
    }

    /// Adds a line.
    pub fn add_line(&self, row: MemoryRow) {
        self.lines.lock().unwrap_or_else(PoisonError::into_inner).push(row);
    }

    fn check(&self) -> Result<(), EvaluationError> {
        match &*self.failing.lock().unwrap_or_else(PoisonError::into_inner) {
            Some(error) => Err(error.clone()),
            None => Ok(()),
        }
    }

    /// Evaluates PromQL.
    pub async fn promql(&self, text: &str, at: Instant) -> Result<sandur_promql::Answer, EvaluationError> {
        let times = Times { start: at.ms(), end: at.ms(), step: 0 };
        let request = sandur_promql::Request { query: text.to_owned(), times, options: Options::default() };
        let context = self.context(Duration::from_secs(600));
        let source = self.snapshot();
        Ok(sandur_promql::query(&source, &context, &request).await?)
    }

    /// A copy that shares the samples, so that no lock is held while a query waits.
    fn snapshot(&self) -> MemorySeries {
        self.series().clone()
    }

    async fn graphite(
        &self,
        target: &str,
        (window, at): (Duration, Instant),
    ) -> Result<Vector, EvaluationError> {
        let context = self.context(Duration::from_secs(600));
        let source = self.snapshot();
        let window = i64::try_from(window.as_secs()).unwrap_or(i64::MAX);
        let options = StoredOptions { lookback: window, ..StoredOptions::default() };
        let series = StoredSeries::new(&source, Arc::default(), options);
        let values = last_values(&series, &context, target, (window, at.seconds())).await;
        let values = values.map_err(|error| EvaluationError::Query(error.to_string()))?;
        Ok(Vector { samples: samples_of_graphite(&values), held: None })
    }

    async fn logql(&self, text: &str, at: Instant) -> Result<Vector, EvaluationError> {
        let kind = Kind::Instant { time_ns: at.ns() };
        let direction = Direction::Backward;
        let request = Request { query: text.to_owned(), kind, limit: 1, direction, interval_ns: 0 };
        let context = self.context(Duration::from_secs(600));
        let rows = self.lines.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let source = MemorySource::new(rows);
        let result = sandur_logql::query(&source, &context, &Limits::default(), request).await?;
        let samples = match result {
            QueryResult::Vector(series) => {
                let labels = |pairs: &[(Box<str>, Box<str>)]| {
                    Labels::from_pairs(pairs.iter().map(|(n, v)| (&**n, &**v)))
                };
                let first = |one: &sandur_query::Series| one.samples.first().map(|sample| sample.value);
                let of = |one: &sandur_query::Series| Some((labels(&one.labels), Number::Float(first(one)?)));
                series.iter().filter_map(of).collect()
            }
            QueryResult::Scalar(sample) => vec![(Labels::default(), Number::Float(sample.value))],
            QueryResult::Streams(_) | QueryResult::Matrix(_) => return Err(EvaluationError::NotVector),
        };
        Ok(Vector { samples, held: None })
    }
}

/// Inserts a sample at its time; a sample that is there already stays.
fn insert(samples: &mut Samples, at_ms: i64, number: Number) {
    match number {
        Number::Float(value) => {
            let at = samples.times.partition_point(|time| *time < at_ms);
            if samples.times.get(at) == Some(&at_ms) {
                return;
            }
            if at == samples.times.len() {
                samples.times.push(at_ms);
            } else {
                let mut times = samples.times.to_vec();
                times.insert(at, at_ms);
                samples.times = times.into();
            }
            samples.values.insert(at, value);
        }
        Number::Histogram(histogram) => {
            let at = samples.histogram_times.partition_point(|time| *time < at_ms);
            if samples.histogram_times.get(at) != Some(&at_ms) {
                samples.histogram_times.insert(at, at_ms);
                samples.histograms.insert(at, histogram);
            }
        }
    }
}

impl Data for MemoryData {
    fn context(&self, timeout: Duration) -> QueryContext {
        QueryContext::new(self.env.clone(), TenantId::default_tenant(), self.budget.clone(), timeout)
    }

    fn query<'a>(
        &'a self,
        expression: Expression<'a>,
        at: Instant,
        _timeout: Duration,
    ) -> BoxFuture<'a, Result<Vector, EvaluationError>> {
        Box::pin(async move {
            self.check()?;
            let Expression { language, text, window } = expression;
            match language {
                Language::Promql => vector_of(self.promql(text, at).await?),
                Language::Logql => self.logql(text, at).await,
                Language::Graphite => self.graphite(text, (window, at)).await,
            }
        })
    }

    fn store(&self, batch: SampleBatch) -> BoxFuture<'_, Result<(), EvaluationError>> {
        let stored = self.check().map(|()| {
            for series in &batch.series {
                let labels = series.labels.shared();
                for (at_ms, value) in batch.samples_of(series) {
                    self.add(labels, at_ms, Number::Float(value));
                }
                for sample in batch.histograms_of(series) {
                    self.add(labels, sample.timestamp, Number::Histogram(sample.histogram.clone()));
                }
            }
        });
        Box::pin(std::future::ready(stored))
    }

    fn last_samples<'a>(
        &'a self,
        matchers: Vec<Matcher>,
        first: Instant,
        last: Instant,
        timeout: Duration,
    ) -> BoxFuture<'a, Result<Vec<LastSample>, EvaluationError>> {
        Box::pin(async move {
            self.check()?;
            let (context, source) = (self.context(timeout), self.snapshot());
            Ok(last_samples_of(&source, &context, matchers, (first, last)).await?)
        })
    }

    fn read<'a>(
        &'a self,
        matchers: Vec<Matcher>,
        times: (Instant, Instant),
        timeout: Duration,
        each: ReadSeries<'a>,
    ) -> BoxFuture<'a, Result<(), EvaluationError>> {
        Box::pin(async move {
            self.check()?;
            let (context, source) = (self.context(timeout), self.snapshot());
            Ok(read_of(&source, &context, matchers, times, each).await?)
        })
    }

    fn batch(&self) -> SampleBatch {
        SampleBatch::new(TenantId::default_tenant())
    }
}

//! The data that rules read and write, as a trait: the services of a server, or series in memory when the
//! rules of a file are tested.

use std::time::Duration;

use sandur_base::{BoxFuture, Id};
use sandur_model::{FloatHistogram, Labels, MILLISECOND_NS, Matcher, SampleBatch};
use sandur_promql::Point;
use sandur_query::{Error, QueryContext, SampleSelection, SampleSource, Samples};
use serde::{Deserialize, Serialize};

use crate::error::EvaluationError;
use crate::spec::Expression;

/// A time in nanoseconds since the epoch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Instant(i64);

impl Instant {
    /// A time in nanoseconds since the epoch.
    pub fn of_ns(ns: i64) -> Self {
        Self(ns)
    }

    /// A time in seconds since the epoch.
    pub fn of_seconds(seconds: i64) -> Self {
        Self(seconds.saturating_mul(1_000_000_000))
    }

    /// Nanoseconds since the epoch.
    pub fn ns(self) -> i64 {
        self.0
    }

    /// Milliseconds since the epoch, rounded down.
    pub fn ms(self) -> i64 {
        self.0.div_euclid(MILLISECOND_NS)
    }

    /// Seconds since the epoch, rounded down.
    pub fn seconds(self) -> i64 {
        self.0.div_euclid(1_000_000_000)
    }

    /// A later time.
    pub fn plus(self, duration: Duration) -> Self {
        Self(self.0.saturating_add(ns_of(duration)))
    }

    /// An earlier time.
    pub fn minus(self, duration: Duration) -> Self {
        Self(self.0.saturating_sub(ns_of(duration)))
    }

    /// The time since an earlier time; zero if that is later.
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_nanos(u64::try_from(self.0.saturating_sub(earlier.0)).unwrap_or(0))
    }
}

/// A duration in nanoseconds.
pub fn ns_of(duration: Duration) -> i64 {
    i64::try_from(duration.as_nanos()).unwrap_or(i64::MAX)
}

/// A value of a series.
#[derive(Clone, Debug, PartialEq)]
pub enum Number {
    /// A float.
    Float(f64),
    /// A histogram.
    Histogram(std::sync::Arc<FloatHistogram>),
}

impl Number {
    /// The float; 0 for a histogram, as in Prometheus's alerts.
    pub fn number(&self) -> f64 {
        match self {
            Self::Float(value) => *value,
            Self::Histogram(_) => 0.0,
        }
    }
}

impl From<Point> for Number {
    fn from(point: Point) -> Self {
        match point {
            Point::Float(value) => Self::Float(value),
            Point::Histogram(histogram) => Self::Histogram(histogram),
        }
    }
}

/// The answer of an expression at one time.
pub struct Vector {
    /// The series.
    pub samples: Vec<(Labels, Number)>,
    /// The memory of the answer, which is released when this is dropped.
    pub held: Option<Box<dyn Send>>,
}

/// The last sample of a series.
#[derive(Clone, Debug, PartialEq)]
pub struct LastSample {
    /// The labels.
    pub labels: Labels,
    /// The time of the sample, milliseconds.
    pub at_ms: i64,
    /// Its value, which may be a stale marker.
    pub value: f64,
}

/// Takes a series with its samples. An error ends the read.
pub type ReadSeries<'a> = &'a mut (dyn FnMut(Labels, &Samples) -> Result<(), Error> + Send);

/// The data of one tenant.
pub trait Data: Send + Sync {
    /// A context for the work of one evaluation.
    fn context(&self, timeout: Duration) -> QueryContext;

    /// Evaluates an expression. An answer that may be incomplete is an error.
    fn query<'a>(
        &'a self,
        expression: Expression<'a>,
        at: Instant,
        timeout: Duration,
    ) -> BoxFuture<'a, Result<Vector, EvaluationError>>;

    /// Stores samples. Returns when they are durable and queries see them.
    fn store(&self, batch: SampleBatch) -> BoxFuture<'_, Result<(), EvaluationError>>;

    /// Stores samples under this incarnation of the process, or fails.
    fn store_under(
        &self,
        batch: SampleBatch,
        _incarnation: Id,
    ) -> BoxFuture<'_, Result<(), EvaluationError>> {
        self.store(batch)
    }

    /// The last float sample from `first` to `last` of each matching series.
    fn last_samples<'a>(
        &'a self,
        matchers: Vec<Matcher>,
        first: Instant,
        last: Instant,
        timeout: Duration,
    ) -> BoxFuture<'a, Result<Vec<LastSample>, EvaluationError>>;

    /// Reads the samples of matching series between two times, both inclusive. Samples outside may be there
    /// too. Everything is seen that any process stored before the call; if that is not possible, it fails.
    fn read<'a>(
        &'a self,
        matchers: Vec<Matcher>,
        times: (Instant, Instant),
        timeout: Duration,
        each: ReadSeries<'a>,
    ) -> BoxFuture<'a, Result<(), EvaluationError>>;

    /// A batch without samples.
    fn batch(&self) -> SampleBatch;
}

/// The most series whose last samples are read.
const LAST_SAMPLES_MAX: usize = 1_000_000;

/// The last samples of the matching series of a source.
pub async fn last_samples_of(
    source: &dyn SampleSource,
    context: &QueryContext,
    matchers: Vec<Matcher>,
    (first, last): (Instant, Instant),
) -> Result<Vec<LastSample>, Error> {
    let (first_ms, last_ms) = (first.ms(), last.ms());
    let mut scan = source.select(context, SampleSelection::all(matchers, first_ms, last_ms)).await?;
    let mut held = context.budget().reserve(0)?;
    let mut found = Vec::new();
    while let Some(batch) = scan.next().await? {
        for (series, samples) in batch.samples.iter().enumerate() {
            let end = samples.times.partition_point(|time| *time <= last_ms);
            let Some(at) = end.checked_sub(1).filter(|at| samples.times[*at] >= first_ms) else { continue };
            let labels = Labels::from_pairs(batch.pairs(series));
            held.grow(bytes_of(&labels))?;
            if found.len() >= LAST_SAMPLES_MAX {
                return Err(Error::Limit(format!("more than {LAST_SAMPLES_MAX} series of alerts")));
            }
            found.push(LastSample { labels, at_ms: samples.times[at], value: samples.values[at] });
        }
    }
    Ok(found)
}

/// Reads the samples of the matching series of a source.
pub async fn read_of(
    source: &dyn SampleSource,
    context: &QueryContext,
    matchers: Vec<Matcher>,
    (first, last): (Instant, Instant),
    each: ReadSeries<'_>,
) -> Result<(), Error> {
    let selection = SampleSelection::all(matchers, first.ms(), last.ms());
    let mut scan = source.select(context, selection).await?;
    while let Some(batch) = scan.next().await? {
        for (series, samples) in batch.samples.iter().enumerate() {
            each(Labels::from_pairs(batch.pairs(series)), samples)?;
        }
    }
    Ok(())
}

/// Estimated bytes of kept labels.
pub fn bytes_of(labels: &Labels) -> u64 {
    labels.text_bytes() as u64 + labels.len() as u64 * 16 + 64
}

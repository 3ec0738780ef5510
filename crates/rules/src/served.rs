//! The data of rules in a server: the services of queries and writes, for one tenant.
//!
//! **Invariant.** An answer with a warning of the source (a part is missing, or the view of the store is too
//! old) is an error: a rule concludes nothing from it.

use std::time::Duration;

use sandur_base::{BoxFuture, Id};
use sandur_graphite::LastValue;
use sandur_logql::{Kind, Request};
use sandur_model::{Labels, Matcher, SampleBatch, TenantId};
use sandur_promql::{Times, Value};
use sandur_query::{Direction, QueryContext, QueryResult};
use sandur_service::graphite::{GraphiteQuery, GraphiteRequest};
use sandur_service::logql::LogqlQuery;
use sandur_service::promql::{PromqlQuery, PromqlRequest, Rows};
use sandur_service::{Caller, Cost, Failure, Queries, Writes};

use crate::data::{
    Data, Instant, LastSample, Number, ReadSeries, Vector, bytes_of, last_samples_of, read_of,
};
use crate::error::EvaluationError;
use crate::restore::FOR_STATE;
use crate::spec::{Expression, Language};

/// Why a sample is refused whose series has another value for its time.
const ANOTHER_VALUE: &str = "new_value_for_timestamp";

/// Whether the series has the state of an alert.
fn is_of_alert(labels: &Labels) -> bool {
    matches!(labels.get("__name__"), Some("ALERTS" | FOR_STATE))
}

/// The services, for one tenant.
pub struct Served {
    queries: Queries,
    writes: Writes,
    tenant: TenantId,
}

impl Served {
    /// The data of a tenant.
    pub fn new(queries: Queries, writes: Writes, tenant: TenantId) -> Self {
        Self { queries, writes, tenant }
    }

    async fn promql(&self, text: &str, at: Instant, timeout: Duration) -> Result<Vector, EvaluationError> {
        let caller = Caller::internal(self.tenant.clone(), "rules");
        let request = PromqlRequest {
            query: text.to_owned(),
            times: Times { start: at.ms(), end: at.ms(), step: 0 },
            lookback_ms: None,
            points_max: 1,
            limit: None,
            timeout: Some(timeout),
        };
        let query = PromqlQuery::begin(&self.queries, &caller, request);
        let kept = query.context.kept_warnings();
        let (evaluated, _) = query.finish().await.map_err(|failure| failed(failure, timeout))?;
        complete(&kept.all())?;
        match evaluated.rows {
            Rows::Evaluated(answer) => vector_of(answer),
            Rows::Joined(_) => Err(EvaluationError::NotVector),
        }
    }

    async fn logql(&self, text: &str, at: Instant, timeout: Duration) -> Result<Vector, EvaluationError> {
        let caller = Caller::internal(self.tenant.clone(), "rules");
        let request = Request {
            query: text.to_owned(),
            kind: Kind::Instant { time_ns: at.ns() },
            limit: 1,
            direction: Direction::Backward,
            interval_ns: 0,
        };
        let query = LogqlQuery::begin(&self.queries, &caller, request, false).await;
        let query = query.map_err(|failure| failed(failure, timeout))?;
        let (kept, budget) = (query.context.kept_warnings(), query.context.budget().clone());
        let finished: Option<Result<(QueryResult, Cost), Failure>> =
            self.queries.env().timeout(timeout, query.finish()).await;
        let finished = finished.ok_or(EvaluationError::Timeout(timeout))?;
        let (result, _) = finished.map_err(|failure| failed(failure, timeout))?;
        complete(&kept.all())?;
        let mut held = budget.reserve(0)?;
        let samples = match result {
            QueryResult::Vector(series) => {
                let mut samples = Vec::with_capacity(series.len());
                for one in series {
                    let labels =
                        Labels::from_pairs(one.labels.iter().map(|(name, value)| (&**name, &**value)));
                    held.grow(bytes_of(&labels))?;
                    samples.extend(one.samples.first().map(|sample| (labels, Number::Float(sample.value))));
                }
                samples
            }
            QueryResult::Scalar(sample) => vec![(Labels::default(), Number::Float(sample.value))],
            QueryResult::Streams(_) | QueryResult::Matrix(_) => return Err(EvaluationError::NotVector),
        };
        Ok(Vector { samples, held: Some(Box::new(held)) })
    }

    async fn graphite(
        &self,
        target: &str,
        (window, at): (Duration, Instant),
        timeout: Duration,
    ) -> Result<Vector, EvaluationError> {
        let caller = Caller::internal(self.tenant.clone(), "rules");
        let times = (at.minus(window).seconds(), at.seconds());
        let request = GraphiteRequest { kind: "rule", text: target.to_owned(), times: Some(times) };
        let query = GraphiteQuery::begin_within(&self.queries, &caller, request, Some(timeout));
        let kept = query.context.kept_warnings();
        let last = query.last_values(window).await.map_err(|error| match error.kind() {
            sandur_base::ErrorKind::Timeout => EvaluationError::Timeout(timeout),
            _ => EvaluationError::Query(error.to_string()),
        });
        let (values, held) = last?;
        complete(&kept.all())?;
        Ok(Vector { samples: samples_of_graphite(&values), held: Some(Box::new(held)) })
    }

    async fn store_batch(&self, batch: SampleBatch, under: Option<Id>) -> Result<(), EvaluationError> {
        let write = |text: String| EvaluationError::Write(text);
        let are_alerts = batch.series.iter().all(|series| is_of_alert(&series.labels));
        let stored = self.writes.store_made_under(batch, under).await;
        let refused = stored.map_err(|failure| write(failure.message))?.refused;
        // Rules with the same name and labels write the same series of alerts, of which one stays.
        let may_be_left_out = |reason: &str| are_alerts && reason == ANOTHER_VALUE;
        match refused.by_reason().all(|(reason, ..)| may_be_left_out(reason.name())) {
            true => Ok(()),
            false => Err(write(refused.text().unwrap_or_default())),
        }
    }
}

/// The labels of a series of Graphite: its tags, with the shown name as `name`.
pub fn graphite_labels<'a>(shown: &'a str, tags: impl Iterator<Item = (&'a str, &'a str)>) -> Labels {
    let others = tags.filter(|(name, _)| *name != "name");
    Labels::from_pairs(others.chain(std::iter::once(("name", shown))))
}

/// The samples of an answer of Graphite.
pub fn samples_of_graphite(values: &[LastValue]) -> Vec<(Labels, Number)> {
    let sample =
        |last: &LastValue| (graphite_labels(&last.name, last.tags.iter()), Number::Float(last.value));
    values.iter().map(sample).collect()
}

/// The vector of an answer of PromQL.
pub fn vector_of(answer: sandur_promql::Answer) -> Result<Vector, EvaluationError> {
    let samples = match answer.value {
        Value::Vector(all) => all.into_iter().map(|(labels, point)| (labels, point.into())).collect(),
        Value::Scalar(value) => vec![(Labels::default(), Number::Float(value))],
        Value::String(_) | Value::Matrix(_) => return Err(EvaluationError::NotVector),
    };
    Ok(Vector { samples, held: Some(Box::new(answer.memory)) })
}

fn failed(failure: Failure, timeout: Duration) -> EvaluationError {
    match failure.kind {
        sandur_base::ErrorKind::Timeout => EvaluationError::Timeout(timeout),
        _ => failure.into(),
    }
}

fn complete(warnings: &[String]) -> Result<(), EvaluationError> {
    match warnings {
        [] => Ok(()),
        warnings => Err(EvaluationError::Incomplete(warnings.join("; "))),
    }
}

impl Data for Served {
    fn context(&self, timeout: Duration) -> QueryContext {
        self.queries.samples_context(&self.tenant, Some(timeout))
    }

    fn query<'a>(
        &'a self,
        expression: Expression<'a>,
        at: Instant,
        timeout: Duration,
    ) -> BoxFuture<'a, Result<Vector, EvaluationError>> {
        let Expression { language, text, window } = expression;
        match language {
            Language::Promql => Box::pin(self.promql(text, at, timeout)),
            Language::Logql => Box::pin(self.logql(text, at, timeout)),
            Language::Graphite => Box::pin(self.graphite(text, (window, at), timeout)),
        }
    }

    fn store(&self, batch: SampleBatch) -> BoxFuture<'_, Result<(), EvaluationError>> {
        Box::pin(self.store_batch(batch, None))
    }

    fn store_under(&self, batch: SampleBatch, incarnation: Id) -> BoxFuture<'_, Result<(), EvaluationError>> {
        Box::pin(self.store_batch(batch, Some(incarnation)))
    }

    fn last_samples<'a>(
        &'a self,
        matchers: Vec<Matcher>,
        first: Instant,
        last: Instant,
        timeout: Duration,
    ) -> BoxFuture<'a, Result<Vec<LastSample>, EvaluationError>> {
        Box::pin(async move {
            let context = self.context(timeout);
            let source = self.queries.samples();
            let read = last_samples_of(&source, &context, matchers, (first, last));
            let found = context.in_time(read).await.and_then(|found| found)?;
            complete(&context.warnings())?;
            Ok(found)
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
            let context = self.context(timeout);
            context.require_view(Duration::ZERO);
            let source = self.queries.samples();
            let read = read_of(&source, &context, matchers, times, each);
            context.in_time(read).await.and_then(|read| read)?;
            complete(&context.warnings())
        })
    }

    fn batch(&self) -> SampleBatch {
        SampleBatch::new(self.tenant.clone())
    }
}

//! A rule with its state, and its evaluation.
//!
//! **Invariants.** A failed query, an incomplete answer or an exceeded limit changes no state and writes
//! nothing. Memory of what is kept between evaluations is reserved before it is kept.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use sandur_logql::template::Template;
use sandur_memory::Reservation;
use sandur_model::{Labels, MatchOp, Matcher, StreamId};
use sandur_query::QueryContext;

use crate::alert::{Alert, Alerts, Found, State, Terms, bytes_of_pairs};
use crate::data::{Data, Instant, Number, Vector, bytes_of};
use crate::error::EvaluationError;
use crate::external::External;
use crate::output::{self, Output, Written};
use crate::restore::{FOR_STATE, Tolerance, restore};
use crate::spec::{RuleKind, RuleSpec};
use crate::template::AlertData;
use crate::template::expand::{Job, Surroundings, expand};
use crate::template::{is_constant, parse};

const NAME: &str = "__name__";
const ALERT_NAME: &str = "alertname";
/// Bytes of a series that is remembered until it ends, without its labels.
const SERIES_BYTES: u64 = 64;
/// Vectors up to this length are processed without the CPU pool.
const LITTLE: usize = 64;

/// What all rules of a server have in common.
#[derive(Clone)]
pub struct Common {
    /// The data of the tenant.
    pub data: Arc<dyn Data>,
    /// External labels and URL.
    pub external: Arc<External>,
    /// The most series of a rule.
    pub series_max: usize,
    /// The longest evaluation of one rule.
    pub timeout: Duration,
    /// Restoring after a restart.
    pub tolerance: Tolerance,
}

/// The times and the limit of an evaluation.
#[derive(Clone, Copy, Debug)]
pub struct Occasion {
    /// The time of the evaluation.
    pub at: Instant,
    /// How long before that time the expression looks.
    pub offset: Duration,
    /// `limit` of the group; 0: none.
    pub limit: usize,
}

/// What is known of a rule that another process evaluated.
#[derive(Default)]
pub struct RuleEnds {
    /// The series of the last evaluation.
    pub written: Written,
    /// The series that have a sample of the evaluation that is repeated.
    pub stored: HashSet<StreamId>,
    /// The alerts; `None` if they are not known exactly.
    pub alerts: Option<Alerts>,
}

/// A rule with its state.
pub struct Rule {
    /// The specification.
    pub spec: RuleSpec,
    /// The alerts; empty for a recording rule.
    pub alerts: Alerts,
    /// The series that were written at the last evaluation.
    pub written: Written,
    /// Whether the alerts of before the start are restored, or need not be.
    pub is_restored: bool,
    /// Whether it has the state of a rule that was evaluated before it.
    pub is_continued: bool,
    /// The series that have a sample of this time, in milliseconds, from the process before.
    stored: Option<(i64, HashSet<StreamId>)>,
    /// The number of evaluations that succeeded.
    pub successes: u64,
    /// Why the last evaluation failed; `None` if it succeeded, or there was none.
    pub last_error: Option<String>,
    /// When the rule was evaluated last.
    pub last_at: Option<Instant>,
    /// How long that took.
    pub took: Duration,
    labels: Vec<Text>,
    annotations: Vec<Text>,
    held: Reservation,
}

/// The name of a label or annotation, and its template.
struct Text {
    name: String,
    text: String,
    /// `None` if the text has no action.
    template: Option<Arc<Template>>,
}

fn texts(alert: &str, pairs: &[(String, String)]) -> Vec<Text> {
    let one = |(name, text): &(String, String)| Text {
        name: name.clone(),
        text: text.clone(),
        // The file was refused if it has a template that does not parse.
        template: if is_constant(text) { None } else { parse(alert, text).ok().map(Arc::new) },
    };
    pairs.iter().map(one).collect()
}

impl Rule {
    /// A rule without state, which keeps its state in memory of `held`.
    pub fn new(spec: RuleSpec, held: Reservation, is_restored: bool) -> Self {
        let (labels, annotations) = match &spec.kind {
            RuleKind::Recording => (Vec::new(), Vec::new()),
            RuleKind::Alerting { annotations, .. } => {
                (texts(&spec.name, &spec.labels), texts(&spec.name, annotations))
            }
        };
        Self {
            spec,
            alerts: Alerts::default(),
            written: Written::new(),
            is_restored,
            is_continued: false,
            stored: None,
            successes: 0,
            last_error: None,
            last_at: None,
            took: Duration::ZERO,
            labels,
            annotations,
            held,
        }
    }

    /// Continues the state of a rule that is no longer evaluated.
    pub fn continue_from(&mut self, former: Self) {
        self.is_continued = true;
        self.alerts = former.alerts;
        self.written = former.written;
        (self.is_restored, self.successes) = (former.is_restored, former.successes);
        (self.last_error, self.last_at, self.took) = (former.last_error, former.last_at, former.took);
        self.held = former.held;
    }

    /// Takes the state that another process had when it evaluated the rule last. Samples of the evaluation
    /// that is repeated have the time `at`.
    pub fn take_over(&mut self, found: RuleEnds, at: Instant) -> Result<(), EvaluationError> {
        let RuleEnds { written, stored, alerts } = found;
        self.is_restored = !self.spec.is_alerting() || alerts.is_some();
        (self.written, self.alerts) = (written, alerts.unwrap_or_default());
        self.stored = Some((at.ms(), stored));
        self.account(0)
    }

    /// Whether it has the state that another process had, and was not evaluated since.
    pub fn has_taken_over(&self) -> bool {
        self.stored.is_some()
    }

    /// Evaluates the rule and stores its series. Alerts change even if their series cannot be stored.
    pub async fn evaluate(&mut self, common: &Common, occasion: Occasion) -> Result<(), EvaluationError> {
        let context = common.data.context(common.timeout);
        let seen = occasion.at.minus(occasion.offset);
        let work = async {
            let vector = common.data.query(self.spec.expression(), seen, common.timeout).await?;
            if vector.samples.len() > common.series_max {
                let (limit, found) = (common.series_max, vector.samples.len());
                return Err(EvaluationError::TooManySeries { limit, found });
            }
            match self.spec.kind {
                RuleKind::Recording => self.record(&context, vector, occasion).await,
                RuleKind::Alerting { hold, keep_firing, .. } => {
                    let terms = Terms { hold, keep_firing, limit: occasion.limit };
                    self.alert((common, &context), vector, terms, occasion.at).await
                }
            }
        };
        let output = context.in_time(work).await.unwrap_or(Err(EvaluationError::Timeout(common.timeout)))?;
        // Of the evaluation that the process before began, some series are stored already.
        let (of, none) = (&self.stored, HashSet::new());
        let there = of.as_ref().filter(|(at, _)| *at == seen.ms()).map_or(&none, |(_, there)| there);
        let stored = output::store(&*common.data, output, seen, &mut self.written, there).await;
        if stored.is_ok() {
            self.stored = None;
        }
        self.account(0)?;
        stored
    }

    /// Reserves memory for the state that is kept, with `more` bytes for what is added next.
    fn account(&mut self, more: u64) -> Result<(), EvaluationError> {
        let series: u64 = self.written.values().map(|labels| SERIES_BYTES + bytes_of(labels)).sum();
        Ok(self.held.resize(series + self.alerts.bytes() + more)?)
    }

    async fn record(
        &mut self,
        context: &QueryContext,
        vector: Vector,
        occasion: Occasion,
    ) -> Result<Output, EvaluationError> {
        let (limit, found) = (occasion.limit, vector.samples.len());
        if limit > 0 && found > limit {
            return Err(EvaluationError::Limit { limit, found, what: "series" });
        }
        let (name, added) = (self.spec.name.clone(), self.spec.labels.clone());
        let is_little = vector.samples.len() <= LITTLE;
        let Vector { samples, held } = vector;
        let named = move || {
            let set = std::iter::once((NAME, &*name)).chain(added.iter().map(|(n, v)| (&**n, &**v)));
            let set: Vec<(&str, &str)> = set.collect();
            let output = samples.into_iter();
            Ok(output.map(|(labels, number)| (Arc::new(with(&labels, &set)), number)).collect::<Output>())
        };
        let output = context.compute_sized(is_little, named).await?;
        check_distinct("rule", output.iter().map(|(labels, _)| labels))?;
        self.account(bytes_of_output(&output))?;
        drop(held);
        Ok(output)
    }

    async fn alert(
        &mut self,
        (common, context): (&Common, &QueryContext),
        vector: Vector,
        terms: Terms,
        at: Instant,
    ) -> Result<Output, EvaluationError> {
        let (found, _held) = self.found((common, context), vector, at).await?;
        check_distinct("alert", found.iter().map(|found| &found.labels))?;
        // Each alert has two series.
        let each =
            |one: &Found| 4 * bytes_of(&one.labels) + bytes_of_pairs(&one.annotations) + 4 * SERIES_BYTES;
        self.account(found.iter().map(each).sum())?;
        self.alerts.update(terms, found, at)?;
        Ok(if self.is_restored { self.series() } else { Vec::new() })
    }

    /// The alerts of an answer, with expanded labels and annotations.
    async fn found(
        &self,
        (common, context): (&Common, &QueryContext),
        vector: Vector,
        at: Instant,
    ) -> Result<(Vec<Found>, Reservation), EvaluationError> {
        let mut jobs = Vec::new();
        let templates = || self.labels.iter().chain(&self.annotations);
        if templates().any(|text| text.template.is_some()) {
            for (labels, number) in &vector.samples {
                let data = Arc::new(AlertData::new(labels, number.number(), &common.external));
                for template in templates().filter_map(|text| text.template.as_ref()) {
                    jobs.push(Job { template: Arc::clone(template), data: Arc::clone(&data) });
                }
            }
        }
        let (data, external, expression) = (&*common.data, &common.external, self.spec.expression());
        let surroundings = Surroundings { data, external, at, expression, alert: &self.spec.name };
        let (expanded, held) = expand(context, &surroundings, jobs).await?;
        let mut expanded = expanded.into_iter();
        let mut next = |texts: &[Text]| -> Vec<(String, String)> {
            let mut of = |text: &Text| match &text.template {
                None => text.text.clone(),
                Some(_) => expanded.next().unwrap_or_default(),
            };
            texts.iter().map(|text| (text.name.clone(), of(text))).collect()
        };
        let mut found = Vec::with_capacity(vector.samples.len());
        for (labels, number) in &vector.samples {
            let mut set: Vec<(&str, &str)> = vec![(NAME, "")];
            let of_labels = next(&self.labels);
            set.extend(of_labels.iter().map(|(name, value)| (&**name, &**value)));
            set.push((ALERT_NAME, &self.spec.name));
            let mut annotations = next(&self.annotations);
            annotations.sort();
            found.push(Found {
                labels: Arc::new(with(labels, &set)),
                annotations: Arc::new(annotations),
                value: number.number(),
            });
        }
        Ok((found, held))
    }

    /// The series of the alerts that are pending or firing.
    fn series(&self) -> Output {
        let own: Vec<(&str, &str)> = self.spec.labels.iter().map(|(n, v)| (&**n, &**v)).collect();
        let own = with(&Labels::default(), &own);
        let series_of = |alert: &Alert, name: &str, state: Option<State>, value: f64| {
            let mut set: Vec<(&str, &str)> = alert.labels.iter().collect();
            set.extend([(NAME, name), (ALERT_NAME, &self.spec.name)]);
            set.extend(state.map(|state| ("alertstate", state.name())));
            (Arc::new(with(&own, &set)), Number::Float(value))
        };
        let active = self.alerts.iter().filter(|alert| alert.state != State::Inactive);
        let two = |alert: &Alert| {
            let since = alert.active_at.seconds() as f64;
            [series_of(alert, "ALERTS", Some(alert.state), 1.0), series_of(alert, FOR_STATE, None, since)]
        };
        active.flat_map(two).collect()
    }

    /// Restores the alerts of before the start, after the second evaluation. If that fails, it is tried
    /// again after the next one.
    pub async fn restore(&mut self, common: &Common, now: Instant) -> Result<(), EvaluationError> {
        let RuleKind::Alerting { hold, .. } = self.spec.kind else { return Ok(()) };
        let Tolerance { outage, grace } = common.tolerance;
        if self.is_restored {
            return Ok(());
        }
        if self.alerts.iter().next().is_some() {
            let equal = |name: &str, value: &str| {
                Matcher::new(name, MatchOp::Equal, value)
                    .map_err(|error| EvaluationError::Query(error.to_string()))
            };
            let matchers = vec![equal(NAME, FOR_STATE)?, equal(ALERT_NAME, &self.spec.name)?];
            let first = now.minus(outage);
            let stored = common.data.last_samples(matchers, first, now, common.timeout).await?;
            restore(&mut self.alerts, hold, grace, &stored, now);
        }
        self.is_restored = true;
        Ok(())
    }
}

/// The labels with these set; an empty value removes a label, and later pairs take precedence.
fn with(labels: &Labels, set: &[(&str, &str)]) -> Labels {
    Labels::from_pairs(labels.iter().chain(set.iter().copied()))
}

fn check_distinct<'a>(
    of: &'static str,
    all: impl Iterator<Item = &'a Arc<Labels>>,
) -> Result<(), EvaluationError> {
    let mut seen = HashSet::new();
    for labels in all {
        if !seen.insert(labels.stream_id()) {
            return Err(EvaluationError::SameLabels { of, labels: labels.to_string() });
        }
    }
    Ok(())
}

fn bytes_of_output(output: &Output) -> u64 {
    output.iter().map(|(labels, _)| SERIES_BYTES + bytes_of(labels)).sum()
}

//! Evaluates a case with our groups, over data in memory, with a simulated clock.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use sandur_base::BoxFuture;
use sandur_memory::MemoryBudget;
use sandur_model::{Labels, TenantId};
use sandur_rules::alert::Alert;
use sandur_rules::data::{Data, Instant, Number};
use sandur_rules::file::{ReadOptions, read};
use sandur_rules::memory_data::MemoryData;
use sandur_rules::{
    Common, EVALUATIONS_MAX, External, Group, Grouping, Message, Notifier, NotifierParts, Outcome as Posted,
    Parts, Post, RuleMetrics, Tolerance,
};
use sandur_runtime::{Env, Shutdown};
use serde_json::Value;

use crate::case::{Case, Event, Sample, Series, Texts, bits};
use crate::outcome::{self, Outcome, Sent, Step};

/// The longest evaluation of a rule.
const TIMEOUT: Duration = Duration::from_secs(60);
/// The memory of the states of rules.
const STATE_BYTES: u64 = 256 << 20;
/// The time in which alerts are sent after an evaluation.
const SENDING: Duration = Duration::from_millis(5);
const MILLISECOND_NS: i64 = 1_000_000;

/// Keeps the alerts that are sent.
#[derive(Default)]
struct Outbox(Mutex<Vec<Value>>);

impl Post for Outbox {
    fn post<'a>(&'a self, message: Message<'a>, _: &'a TenantId, _: Duration) -> BoxFuture<'a, Posted> {
        if let Message::Alerts { body, .. } = message
            && let Ok(Value::Array(alerts)) = serde_json::from_slice(&body)
        {
            self.0.lock().unwrap_or_else(PoisonError::into_inner).extend(alerts);
        }
        Box::pin(std::future::ready(Ok(())))
    }
}

/// The parts that outlive the processes of a case.
struct World<'a> {
    case: &'a Case,
    env: Env,
    data: Arc<MemoryData>,
    outbox: Arc<Outbox>,
}

/// Evaluates a case.
pub fn evaluate(case: &Case) -> Result<Outcome> {
    let first = case.evaluations().first().map_or(0, |(at_ms, _)| *at_ms);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build()?;
    runtime.block_on(async {
        let env = Env::simulated(1, (first - 1_000) * MILLISECOND_NS);
        let data = Arc::new(MemoryData::new(env.clone()));
        let world = World { case, env, data, outbox: Arc::default() };
        world.run().await
    })
}

impl World<'_> {
    async fn run(&self) -> Result<Outcome> {
        let mut given = BTreeSet::new();
        for series in &self.case.series {
            let labels = labels_of(&series.labels);
            for sample in &series.samples {
                self.data.add(&labels, sample.0, Number::Float(sample.value()));
            }
            given.insert(series.labels.clone());
        }
        let mut group: Option<Group> = None;
        let mut outcome = Outcome::default();
        for event in &self.case.events {
            match (event, group.as_mut()) {
                (Event::Restart { version }, _) => group = Some(self.group(*version, self.parts(), false)?),
                (Event::Reload { version }, Some(_)) => {
                    let former = group.take().map(|group| group.rules).unwrap_or_default();
                    let mut next = self.group(*version, self.parts(), true)?;
                    let left = next.adopt(former);
                    next.add_orphans(left.into_iter().flat_map(|rule| rule.written).collect());
                    group = Some(next);
                }
                (Event::Evaluate { at_ms }, Some(group)) => {
                    outcome.steps.push(self.step(group, *at_ms).await?);
                }
                (_, None) => bail!("the first event is no restart"),
            }
        }
        outcome.series = self.written(&given);
        Ok(outcome)
    }

    fn parts(&self) -> Parts {
        let external = External { labels: self.case.external_labels.clone(), url: self.case.url.clone() };
        let (external, metrics) = (Arc::new(external), RuleMetrics::default());
        let notifier = Notifier::new(NotifierParts {
            env: self.env.clone(),
            alertmanagers: vec!["http://am.invalid".to_owned()],
            receivers: Vec::new(),
            grouping: Grouping::default(),
            external: Arc::clone(&external),
            silences: None,
            post: Arc::<Outbox>::clone(&self.outbox),
            metrics: metrics.clone(),
        });
        let data: Arc<dyn Data> = Arc::<MemoryData>::clone(&self.data);
        let tolerance =
            Tolerance { outage: milliseconds(self.case.outage_ms), grace: milliseconds(self.case.grace_ms) };
        Parts {
            env: self.env.clone(),
            tenant: TenantId::default_tenant(),
            are_stored: false,
            common: Common { data, external, series_max: usize::MAX, timeout: TIMEOUT, tolerance },
            notifier,
            resend_delay: milliseconds(self.case.resend_ms),
            memory: MemoryBudget::root("state of rules", STATE_BYTES),
            metrics,
            turns: Arc::new(tokio::sync::Semaphore::new(EVALUATIONS_MAX)),
        }
    }

    fn group(&self, version: usize, parts: Parts, is_restored: bool) -> Result<Group> {
        let text = self.case.versions[version].yaml();
        let groups = read(&text, &"case.yml".into(), ReadOptions::default());
        let groups = groups.with_context(|| format!("our reader refuses\n{text}"))?;
        let spec = groups.into_iter().next().context("no group")?;
        Ok(Group::new(spec, parts, is_restored))
    }

    async fn step(&self, group: &mut Group, at_ms: i64) -> Result<Step> {
        let at = Instant::of_ns(at_ms * MILLISECOND_NS);
        self.env.sleep(at.since(Instant::of_ns(self.env.now_ns()))).await;
        group.evaluate(at, &Shutdown::default().signal()).await;
        self.env.sleep(SENDING).await;
        let sent = std::mem::take(&mut *self.outbox.0.lock().unwrap_or_else(PoisonError::into_inner));
        let external: Vec<&String> = self.case.external_labels.iter().map(|(name, _)| name).collect();
        let sent = sent.iter().map(|alert| sent_of(alert, &external)).collect::<Result<_>>()?;
        let rules = group.rules.iter().map(|rule| outcome::Rule {
            error: rule.last_error.clone().unwrap_or_default(),
            alerts: rule.alerts.iter().map(state_of).collect(),
        });
        Ok(Step { rules: rules.collect(), sent })
    }

    /// The series that were not given.
    fn written(&self, given: &BTreeSet<Texts>) -> Vec<Series> {
        let series = self.data.series();
        let all = series.iter().map(|(labels, samples)| {
            let labels: Texts = labels.iter().map(|(n, v)| (n.to_owned(), v.to_owned())).collect();
            let samples = samples.times.iter().zip(&*samples.values);
            Series { labels, samples: samples.map(|(at_ms, value)| Sample::new(*at_ms, *value)).collect() }
        });
        all.filter(|series| !given.contains(&series.labels)).collect()
    }
}

fn milliseconds(ms: i64) -> Duration {
    Duration::from_millis(ms.unsigned_abs())
}

fn labels_of(texts: &Texts) -> Labels {
    Labels::from_pairs(texts.iter().map(|(name, value)| (&**name, &**value)))
}

fn state_of(alert: &Alert) -> outcome::Alert {
    let time = |at: Option<Instant>| at.map_or(0, Instant::ns);
    outcome::Alert {
        labels: alert.labels.iter().map(|(n, v)| (n.to_owned(), v.to_owned())).collect(),
        annotations: alert.annotations.iter().cloned().collect(),
        state: alert.state.name().to_owned(),
        value: bits(alert.value),
        active_at: alert.active_at.ns(),
        fired_at: time(alert.fired_at),
        resolved_at: time(alert.resolved_at),
        keep_firing_since: time(alert.keep_firing_since),
        last_sent_at: time(alert.last_sent_at),
        valid_until: time(alert.valid_until),
    }
}

/// An alert of a request, without external labels.
fn sent_of(alert: &Value, external: &[&String]) -> Result<Sent> {
    let texts = |key: &str| -> Result<Texts> { Ok(serde_json::from_value(alert[key].clone())?) };
    let time = |key: &str| -> Result<i64> {
        let text = alert[key].as_str().unwrap_or_default();
        let at: jiff::Timestamp = text.parse().with_context(|| format!("{key} of an alert: '{text}'"))?;
        Ok(i64::try_from(at.as_nanosecond())?)
    };
    let mut labels = texts("labels")?;
    labels.retain(|name, _| !external.contains(&name));
    Ok(Sent {
        labels,
        annotations: texts("annotations")?,
        starts_at: time("startsAt")?,
        ends_at: time("endsAt")?,
        url: alert["generatorURL"].as_str().unwrap_or_default().to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::{Place, compare};
    use crate::draw;

    #[test]
    fn a_case_is_valid_and_has_the_same_outcome_each_time() {
        let mut fired = 0;
        for number in 0..8 {
            let case = draw::case(3, number, 12);
            let (first, second) = (evaluate(&case).unwrap(), evaluate(&case).unwrap());
            assert_eq!(compare(&case, &first, &second), []);
            assert_eq!(first.steps.len(), case.steps());
            fired += first.steps.iter().map(|step| step.sent.len()).sum::<usize>();
        }
        assert!(fired > 0);
    }

    #[test]
    fn differences_are_found() {
        let case = draw::case(3, 1, 12);
        let ours = evaluate(&case).unwrap();
        let mut other = ours.clone();
        other.series[0].samples[0].1 = bits(f64::NAN);
        let found = compare(&case, &other, &ours);
        assert!(found.iter().map(|one| &one.place).eq([&Place::Sample]), "{found:?}");
    }
}

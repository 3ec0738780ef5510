//! The states of the alerts of one rule, as in Prometheus.
//!
//! | state | the series is present | the series is absent |
//! |---|---|---|
//! | none | pending; firing at once if `for` is zero | |
//! | pending | firing after `for` | removed |
//! | firing | firing; pending again if `for` is longer now | firing during `keep_firing_for`, then inactive |
//! | inactive | a new alert | removed after [`RESOLVED_KEPT`] |
//!
//! **Invariants.** Everything here depends on its arguments only: times are those of evaluations. An update
//! that exceeds a limit changes nothing.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use sandur_model::{Labels, StreamId};

use crate::data::{Instant, bytes_of};
use crate::error::EvaluationError;
use crate::spec::Pairs;

/// How long an inactive alert is kept, so that its end is sent several times.
pub const RESOLVED_KEPT: Duration = Duration::from_secs(15 * 60);
/// Bytes of an alert without its labels and annotations.
const ALERT_BYTES: u64 = 256;

/// The state of an alert.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum State {
    /// It fired, and its series ended.
    Inactive,
    /// Its series is present, for less than `for`.
    Pending,
    /// It fires.
    Firing,
}

impl State {
    /// The name in series and answers.
    pub fn name(self) -> &'static str {
        match self {
            Self::Inactive => "inactive",
            Self::Pending => "pending",
            Self::Firing => "firing",
        }
    }
}

/// An alert.
#[derive(Clone, Debug, PartialEq)]
pub struct Alert {
    /// Its labels, with `alertname`.
    pub labels: Arc<Labels>,
    /// Its annotations, sorted by name; they may be empty.
    pub annotations: Arc<Pairs>,
    /// The value of the series at its last evaluation.
    pub value: f64,
    /// Its state.
    pub state: State,
    /// When it became pending.
    pub active_at: Instant,
    /// When it fired.
    pub fired_at: Option<Instant>,
    /// When it became inactive.
    pub resolved_at: Option<Instant>,
    /// When its series ended, while `keep_firing_for` lets it fire.
    pub keep_firing_since: Option<Instant>,
    /// When it was sent last.
    pub last_sent_at: Option<Instant>,
    /// Until when receivers may regard it as firing.
    pub valid_until: Option<Instant>,
}

/// A series of the answer, as an alert.
#[derive(Clone, Debug)]
pub struct Found {
    /// The labels, with `alertname`.
    pub labels: Arc<Labels>,
    /// The annotations.
    pub annotations: Arc<Pairs>,
    /// The value.
    pub value: f64,
}

/// Bytes of a pair without its texts.
const PAIR_BYTES: u64 = 48;

/// The bytes of annotations.
pub fn bytes_of_pairs(pairs: &Pairs) -> u64 {
    pairs.iter().map(|(name, value)| PAIR_BYTES + (name.len() + value.len()) as u64).sum()
}

/// The durations and limits of a rule.
#[derive(Clone, Copy, Debug, Default)]
pub struct Terms {
    /// `for`.
    pub hold: Duration,
    /// `keep_firing_for`.
    pub keep_firing: Duration,
    /// `limit` of the group; 0: none.
    pub limit: usize,
}

/// How long others may need to notice that an alert is sent no more.
#[derive(Clone, Copy, Debug)]
pub struct Resend {
    /// The least time between two notifications about one alert.
    pub delay: Duration,
    /// The interval of the group.
    pub interval: Duration,
}

/// The alerts of a rule by their labels.
#[derive(Clone, Debug, Default)]
pub struct Alerts {
    active: BTreeMap<StreamId, Alert>,
    /// Alerts that ended and began anew before their end was sent.
    ended: BTreeMap<StreamId, Alert>,
}

impl Alerts {
    /// These alerts, each with other labels.
    pub fn of(alerts: impl Iterator<Item = Alert>) -> Self {
        let active = alerts.map(|alert| (alert.labels.stream_id(), alert)).collect();
        Self { active, ended: BTreeMap::new() }
    }

    /// All alerts, for changing when they fired.
    pub fn all_mut(&mut self) -> impl Iterator<Item = &mut Alert> {
        self.active.values_mut()
    }

    /// Applies the answer of an evaluation: each series has other labels.
    pub fn update(&mut self, terms: Terms, found: Vec<Found>, at: Instant) -> Result<(), EvaluationError> {
        let found: BTreeMap<StreamId, Found> =
            found.into_iter().map(|one| (one.labels.stream_id(), one)).collect();
        self.check_limit(terms, &found, at)?;
        self.active.retain(|id, alert| found.contains_key(id) || !alert.is_over(at));
        for (id, alert) in &mut self.active {
            if !found.contains_key(id) {
                alert.end(terms, at);
            }
        }
        for (id, one) in found {
            match self.active.get_mut(&id).filter(|alert| alert.state != State::Inactive) {
                Some(alert) => {
                    (alert.value, alert.annotations) = (one.value, one.annotations);
                    alert.keep_firing_since = None;
                    alert.hold(terms.hold, at);
                }
                None => {
                    let mut alert = Alert::new(one, at);
                    alert.hold(terms.hold, at);
                    let before = self.active.insert(id, alert);
                    self.ended.extend(before.filter(Alert::has_unsent_end).map(|before| (id, before)));
                }
            }
        }
        Ok(())
    }

    fn check_limit(
        &self,
        terms: Terms,
        found: &BTreeMap<StreamId, Found>,
        at: Instant,
    ) -> Result<(), EvaluationError> {
        let absent = self.active.iter().filter(|(id, _)| !found.contains_key(id));
        let kept = absent.filter(|(_, alert)| alert.keeps_firing(terms, at)).count();
        let all = found.len() + kept;
        match terms.limit > 0 && all > terms.limit {
            true => Err(EvaluationError::Limit { limit: terms.limit, found: all, what: "alerts" }),
            false => Ok(()),
        }
    }

    /// The ids of the labels of all alerts, also inactive ones.
    pub fn ids(&self) -> impl Iterator<Item = StreamId> {
        self.active.keys().copied()
    }

    /// All alerts, also inactive ones.
    pub fn iter(&self) -> impl Iterator<Item = &Alert> {
        self.active.values()
    }

    /// All alerts that are pending or firing, for changing when they became so.
    pub fn active_mut(&mut self) -> impl Iterator<Item = &mut Alert> {
        self.active.values_mut().filter(|alert| alert.state != State::Inactive)
    }

    /// The alerts to send now. They are marked as sent.
    pub fn to_send(&mut self, resend: Resend, at: Instant) -> Vec<Alert> {
        let ended = std::mem::take(&mut self.ended).into_values();
        let due = self.active.values_mut().filter(|alert| alert.needs_sending(resend.delay, at));
        let due = due.map(|alert| {
            alert.last_sent_at = Some(at);
            // Two evaluations and two notifications may fail before receivers regard it as resolved.
            let longest = resend.delay.max(resend.interval);
            alert.valid_until = Some(at.plus(longest.saturating_mul(4)));
            alert.clone()
        });
        ended.chain(due).collect()
    }

    /// The bytes that the alerts use.
    pub fn bytes(&self) -> u64 {
        self.active.values().chain(self.ended.values()).map(Alert::bytes).sum()
    }
}

impl Alert {
    fn new(found: Found, at: Instant) -> Self {
        Self {
            labels: found.labels,
            annotations: found.annotations,
            value: found.value,
            state: State::Pending,
            active_at: at,
            fired_at: None,
            resolved_at: None,
            keep_firing_since: None,
            last_sent_at: None,
            valid_until: None,
        }
    }

    /// The bytes that the alert uses.
    fn bytes(&self) -> u64 {
        ALERT_BYTES + bytes_of(&self.labels) + bytes_of_pairs(&self.annotations)
    }

    /// Applies `for`. A firing alert is active for less than that if it was restored, or if `for` became
    /// longer.
    fn hold(&mut self, hold: Duration, at: Instant) {
        // A restored alert may have become active after this time.
        let is_held = self.active_at > at || at.since(self.active_at) < hold;
        match self.state {
            State::Pending if !is_held => (self.state, self.fired_at) = (State::Firing, Some(at)),
            State::Firing if is_held => {
                self.state = State::Pending;
                (self.fired_at, self.last_sent_at, self.keep_firing_since) = (None, None, None);
            }
            State::Pending | State::Firing | State::Inactive => {}
        }
    }

    fn keeps_firing(&self, terms: Terms, at: Instant) -> bool {
        let since = self.keep_firing_since.unwrap_or(at);
        self.state == State::Firing && !terms.keep_firing.is_zero() && at.since(since) < terms.keep_firing
    }

    /// The series is absent.
    fn end(&mut self, terms: Terms, at: Instant) {
        match self.state {
            State::Firing if self.keeps_firing(terms, at) => {
                self.keep_firing_since.get_or_insert(at);
                self.hold(terms.hold, at);
            }
            State::Firing => (self.state, self.resolved_at) = (State::Inactive, Some(at)),
            // `is_over` removed it before.
            State::Pending | State::Inactive => {}
        }
    }

    /// Whether an alert without a series is removed.
    fn is_over(&self, at: Instant) -> bool {
        match self.state {
            State::Pending => true,
            State::Firing => false,
            State::Inactive => self.resolved_at.is_none_or(|resolved| at.since(resolved) > RESOLVED_KEPT),
        }
    }

    /// Whether it ended and receivers were not told.
    fn has_unsent_end(&self) -> bool {
        self.resolved_at.is_some_and(|end| self.last_sent_at.is_none_or(|sent| end > sent))
    }

    fn needs_sending(&self, delay: Duration, at: Instant) -> bool {
        match (self.state, self.last_sent_at) {
            (State::Pending, _) => false,
            (_, None) => true,
            (_, Some(sent)) => self.has_unsent_end() || at > sent.plus(delay),
        }
    }
}

#[cfg(test)]
#[path = "alert_tests.rs"]
mod tests;

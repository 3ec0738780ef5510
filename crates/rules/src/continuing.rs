//! Continues a group that another process evaluated until now, from the series that its rules wrote.
//!
//! The last samples of the series of a group say until when the group was evaluated, which series a rule
//! wrote last, and which alerts were pending, fired, or ended lately. The next evaluation is that last one:
//! the former process may have ended in the middle of it. What it has stored then is not written again.
//!
//! **Invariants.** Everything that the former process wrote is seen, or nothing is continued: its term has
//! ended, and the reads require all rows that were stored before them. So no sample of a later time exists,
//! and none is replaced. A series that several rules of the group may have written belongs to none of them:
//! such alerts are restored as after a restart, and such series get no stale marker.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use sandur_memory::{MemoryBudget, Reservation};
use sandur_model::{Labels, MatchOp, Matcher, StreamId, is_stale};
use sandur_query::{Error, Samples};

use crate::alert::{Alert, Alerts, RESOLVED_KEPT, State};
use crate::catch_up::CATCH_UP_MAX;
use crate::data::{Data, Instant, bytes_of};
use crate::error::EvaluationError;
use crate::restore::FOR_STATE;
use crate::rule::{Rule, RuleEnds};
use crate::schedule::Schedule;
use crate::spec::{GroupSpec, RuleKind, RuleSpec};
use crate::template::is_constant;
use crate::writers::Writers;

/// A group whose series say nothing is evaluated from this long ago on: longer than it takes until another
/// process takes a group over.
pub const TAKE_OVER_MAX: Duration = Duration::from_secs(120);
/// How long no process may have been running since the last evaluation. Expressions see older samples, so
/// such a gap resolves nothing; clocks may be apart by less.
const UNSTORED_MAX: Duration = Duration::from_secs(30);
/// How far the clock of the former process may be ahead.
const CLOCKS_APART_MAX: Duration = Duration::from_secs(300);
/// The most names that are read at once.
const NAMES_PER_READ: usize = 100;

const NAME: &str = "__name__";
const ALERTS: &str = "ALERTS";
const ALERT_NAME: &str = "alertname";
const ALERT_STATE: &str = "alertstate";

/// Where a group continues.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Resume {
    /// The time of the next evaluation.
    pub at: Instant,
    /// How many evaluations before it are missed.
    pub missed: u64,
}

/// A group that is to be continued.
pub struct Continuing<'a> {
    /// Its specification.
    pub spec: &'a GroupSpec,
    /// The same rules by what they write.
    pub writers: Writers<'a>,
    /// Its schedule.
    pub schedule: Schedule,
    /// The data.
    pub data: &'a dyn Data,
    /// Memory of what rules keep.
    pub memory: &'a MemoryBudget,
    /// The longest read.
    pub timeout: Duration,
    /// How old the series may be.
    pub outage: Duration,
    /// The time of the clock.
    pub now: Instant,
    /// Since when a process has been running that could store data.
    pub since: Instant,
}

/// A series of the group, and its last samples.
struct End {
    labels: Labels,
    /// The evaluation of its last sample.
    at: Instant,
    /// Whether that is a stale marker.
    is_stale: bool,
    /// The last float that is no stale marker.
    value: Option<f64>,
}

impl Continuing<'_> {
    /// Gives the rules their states. Returns where the group continues; `None` if no process was running for
    /// longer than [`UNSTORED_MAX`] in the meantime: then the rules start as after a restart.
    pub async fn restore(&self, rules: &mut [Rule]) -> Result<Option<Resume>, EvaluationError> {
        let mut held = self.memory.empty();
        let mut ends = self.recorded(&mut held).await?;
        ends.extend(self.alerts(&mut held).await?);
        let Some(resume) = self.resume(&ends) else { return Ok(None) };
        let mut of_rules: Vec<Vec<End>> = self.spec.rules.iter().map(|_| Vec::new()).collect();
        let mut shared: HashSet<usize> = HashSet::new();
        for end in ends {
            let owners = self.writers.of_series(&end.labels);
            match owners[..] {
                [rule] => of_rules[rule].push(end),
                _ => shared.extend(owners),
            }
        }
        let mut found: Vec<RuleEnds> = Vec::new();
        for (number, ends) in of_rules.iter().enumerate() {
            found.push(self.of_rule(&self.spec.rules[number], ends, resume, shared.contains(&number)));
        }
        self.find_fired(&mut found).await;
        for (rule, found) in rules.iter_mut().zip(found) {
            rule.take_over(found, resume.at.minus(self.spec.query_offset))?;
        }
        Ok(Some(resume))
    }

    /// The evaluation that wrote a sample; `None` if no evaluation of this group has that time.
    fn evaluation(&self, at_ms: i64) -> Option<Instant> {
        let last_ns = at_ms.saturating_mul(1_000_000).saturating_add(999_999);
        let at = self.schedule.before(Instant::of_ns(last_ns).plus(self.spec.query_offset));
        (at.minus(self.spec.query_offset).ms() == at_ms).then_some(at)
    }

    /// Where the group continues.
    fn resume(&self, ends: &[End]) -> Option<Resume> {
        let newest = ends.iter().map(|end| end.at).max();
        let is_open = ends.iter().any(|end| !end.is_stale && Some(end.at) == newest);
        let default = self.schedule.before(self.now.minus(TAKE_OVER_MAX));
        // Series that have ended say only that the group was evaluated then.
        let from = newest.filter(|newest| is_open || *newest >= default).unwrap_or(default);
        if self.since > from.plus(UNSTORED_MAX) {
            return None;
        }
        let interval = self.spec.interval;
        let oldest = self.schedule.before(self.now).minus(interval.saturating_mul(CATCH_UP_MAX as u32));
        let missed = oldest.since(from).as_nanos() / interval.as_nanos().max(1);
        let missed = u64::try_from(missed).unwrap_or(u64::MAX);
        if from > self.now {
            // The clock of the former process is ahead: this evaluation and its time are over.
            return Some(Resume { at: from.plus(interval), missed: 0 });
        }
        Some(Resume { at: from.max(oldest), missed })
    }

    fn of_rule(&self, spec: &RuleSpec, ends: &[End], resume: Resume, is_shared: bool) -> RuleEnds {
        let last = ends.iter().map(|end| end.at).max();
        let is_open = |end: &&End| !end.is_stale && Some(end.at) == last;
        let mut found = RuleEnds::default();
        for end in ends.iter().filter(is_open) {
            found.written.insert(end.labels.stream_id(), Arc::new(end.labels.clone()));
        }
        let repeated = ends.iter().filter(|end| end.at == resume.at);
        found.stored = repeated.map(|end| end.labels.stream_id()).collect();
        if spec.is_alerting() && !is_shared {
            found.alerts = Some(self.alerts_of(spec, ends, last));
        }
        found
    }

    /// The alerts of a rule at its last evaluation.
    fn alerts_of(&self, spec: &RuleSpec, ends: &[End], last: Option<Instant>) -> Alerts {
        let named = |name: &'static str| ends.iter().filter(move |end| end.labels.get(NAME) == Some(name));
        let of_alert = |end: &End| own_labels(spec, &end.labels);
        let since: HashMap<StreamId, &End> =
            named(FOR_STATE).map(|end| (of_alert(end).stream_id(), end)).collect();
        let mut alerts: BTreeMap<StreamId, Alert> = BTreeMap::new();
        for end in named(ALERTS) {
            let labels = of_alert(end);
            let id = labels.stream_id();
            let Some(active_at) = since.get(&id).and_then(|end| end.value) else { continue };
            let state = match (end.labels.get(ALERT_STATE), end.is_stale) {
                (Some("firing"), true) if self.now.since(end.at) <= RESOLVED_KEPT => State::Inactive,
                (Some("firing"), false) if Some(end.at) == last => State::Firing,
                (Some("pending"), false) if Some(end.at) == last => State::Pending,
                _ => continue,
            };
            // A firing alert may have been pending before, and an inactive one may be active again.
            if alerts.get(&id).is_some_and(|known| known.state > state) {
                continue;
            }
            let active_at = self.active_at(active_at);
            let alert = Alert {
                labels: Arc::new(labels),
                annotations: Arc::default(),
                value: end.value.unwrap_or(f64::NAN),
                state,
                active_at,
                fired_at: (state != State::Pending).then(|| self.fired_at_least(spec, active_at)),
                resolved_at: (state == State::Inactive).then_some(end.at),
                keep_firing_since: None,
                last_sent_at: None,
                valid_until: None,
            };
            alerts.insert(id, alert);
        }
        Alerts::of(alerts.into_values())
    }

    /// The evaluation in the second that `ALERTS_FOR_STATE` has as its value.
    fn active_at(&self, seconds: f64) -> Instant {
        let second = Instant::of_seconds(seconds as i64);
        let last = Duration::from_nanos(999_999_999);
        let evaluation = self.schedule.before(second.plus(last));
        if evaluation.seconds() == second.seconds() { evaluation } else { second }
    }

    /// When an alert fired, unless evaluations failed or were missed then.
    fn fired_at_least(&self, spec: &RuleSpec, active_at: Instant) -> Instant {
        let RuleKind::Alerting { hold, .. } = spec.kind else { return active_at };
        let earliest = active_at.plus(hold);
        let before = self.schedule.before(earliest);
        if before == earliest { before } else { before.plus(self.spec.interval) }
    }

    /// Finds when alerts fired: the first sample of their series since they became active. If that cannot be
    /// read, the time follows from `for`.
    async fn find_fired(&self, found: &mut [RuleEnds]) {
        let mut wanted: HashMap<StreamId, (usize, Instant)> = HashMap::new();
        let mut names: Vec<&str> = Vec::new();
        for (number, of) in found.iter().enumerate() {
            let spec = &self.spec.rules[number];
            let is_at_once = matches!(spec.kind, RuleKind::Alerting { hold: Duration::ZERO, .. });
            let fired = of.alerts.iter().flat_map(Alerts::iter).filter(|alert| alert.fired_at.is_some());
            for alert in fired.filter(|_| !is_at_once) {
                wanted.insert(alert.labels.stream_id(), (number, alert.active_at));
                names.push(&spec.name);
            }
        }
        let Some(first) = wanted.values().map(|(_, active_at)| *active_at).min() else { return };
        names.dedup();
        let (offset, last) = (self.spec.query_offset, self.now.plus(CLOCKS_APART_MAX));
        let mut fired: HashMap<StreamId, Instant> = HashMap::new();
        let mut each = |labels: Labels, samples: &Samples| -> Result<(), Error> {
            for number in self.writers.of_series(&labels) {
                let id = own_labels(&self.spec.rules[number], &labels).stream_id();
                let Some((_, active_at)) = wanted.get(&id).filter(|(of, _)| *of == number) else { continue };
                let begin_ms = active_at.minus(offset).ms();
                let from = samples.times.partition_point(|time| *time < begin_ms);
                let values = samples.times[from..].iter().zip(&samples.values[from..]);
                let at = values.into_iter().find(|(_, value)| !is_stale(**value)).map(|(time, _)| *time);
                fired.extend(at.and_then(|at| self.evaluation(at)).map(|at| (id, at)));
            }
            Ok(())
        };
        for names in names.chunks(NAMES_PER_READ) {
            let read = async {
                let state = matcher(ALERT_STATE, &["firing"])?;
                let matchers = vec![matcher(NAME, &[ALERTS])?, matcher(ALERT_NAME, names)?, state];
                self.data.read(matchers, (first.minus(offset), last), self.timeout, &mut each).await
            };
            if let Err(error) = read.await {
                let group = &self.spec.name;
                tracing::warn!(group, %error, "since when alerts fire is not known exactly");
            }
        }
        let alerts = found.iter_mut().filter_map(|of| of.alerts.as_mut()).flat_map(Alerts::all_mut);
        for alert in alerts.filter(|alert| alert.fired_at.is_some()) {
            if let Some(at) = fired.get(&alert.labels.stream_id()) {
                alert.fired_at = Some(*at);
            }
        }
    }

    /// The last samples of the series of recording rules.
    async fn recorded(&self, held: &mut Reservation) -> Result<Vec<End>, EvaluationError> {
        let mut names: Vec<&str> =
            self.spec.rules.iter().filter(|rule| !rule.is_alerting()).map(|rule| &*rule.name).collect();
        names.sort_unstable();
        names.dedup();
        let mut ends = Vec::new();
        for names in names.chunks(NAMES_PER_READ) {
            self.read_ends(vec![matcher(NAME, names)?], held, &mut ends).await?;
        }
        Ok(ends)
    }

    /// The last samples of the series of alerts.
    async fn alerts(&self, held: &mut Reservation) -> Result<Vec<End>, EvaluationError> {
        let mut names: Vec<&str> =
            self.spec.rules.iter().filter(|rule| rule.is_alerting()).map(|rule| &*rule.name).collect();
        names.sort_unstable();
        names.dedup();
        let mut ends = Vec::new();
        for names in names.chunks(NAMES_PER_READ) {
            let matchers = vec![matcher(NAME, &[ALERTS, FOR_STATE])?, matcher(ALERT_NAME, names)?];
            self.read_ends(matchers, held, &mut ends).await?;
        }
        Ok(ends)
    }

    /// Adds the ends of the series that evaluations of this group may have written.
    async fn read_ends(
        &self,
        matchers: Vec<Matcher>,
        held: &mut Reservation,
        ends: &mut Vec<End>,
    ) -> Result<(), EvaluationError> {
        let looked = self.outage.max(RESOLVED_KEPT).max(TAKE_OVER_MAX);
        let times = (self.now.minus(looked), self.now.plus(CLOCKS_APART_MAX));
        let mut each = |labels: Labels, samples: &Samples| -> Result<(), Error> {
            let last_ms = times.1.ms();
            let floats = samples.times.partition_point(|time| *time <= last_ms);
            let histograms = samples.histogram_times.partition_point(|time| *time <= last_ms);
            let of_floats = floats.checked_sub(1).map(|n| (samples.times[n], is_stale(samples.values[n])));
            let of_histograms = histograms.checked_sub(1).map(|n| (samples.histogram_times[n], false));
            let Some((at_ms, is_stale_marker)) = of_floats.max(of_histograms) else { return Ok(()) };
            let Some(at) = self.evaluation(at_ms) else { return Ok(()) };
            if self.writers.of_series(&labels).is_empty() || at_ms < times.0.ms() {
                return Ok(());
            }
            held.grow(bytes_of(&labels))?;
            let value = samples.values[..floats].iter().rev().find(|value| !is_stale(**value)).copied();
            ends.push(End { labels, at, is_stale: is_stale_marker, value });
            Ok(())
        };
        self.data.read(matchers, times, self.timeout, &mut each).await
    }
}

/// The labels of an alert, from those of one of its series.
fn own_labels(spec: &RuleSpec, labels: &Labels) -> Labels {
    // The text of a template is the value of a label that the alert does not have.
    let is_added = |name: &str, value: &str| {
        name == NAME
            || name == ALERT_STATE
            || spec.labels.iter().any(|(n, text)| n == name && text == value && !is_constant(text))
    };
    Labels::from_pairs(labels.iter().filter(|(name, value)| !is_added(name, value)))
}

/// A matcher of one of these values.
fn matcher(label: &str, values: &[&str]) -> Result<Matcher, EvaluationError> {
    let made = match values {
        [value] => Matcher::new(label, MatchOp::Equal, *value),
        values => Matcher::new(label, MatchOp::Regex, &*alternatives(values)),
    };
    made.map_err(|error| EvaluationError::Query(error.to_string()))
}

/// A regular expression of these texts.
fn alternatives(texts: &[&str]) -> String {
    let mut all = String::new();
    for (n, text) in texts.iter().enumerate() {
        if n > 0 {
            all.push('|');
        }
        for c in text.chars() {
            if c.is_ascii_punctuation() && !matches!(c, '_' | ':') {
                all.push('\\');
            }
            all.push(c);
        }
    }
    all
}

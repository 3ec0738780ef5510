//! Finds the differences between two outcomes of a case.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use crate::case::{Case, Sample, Texts, value_of};
use crate::draw::STALE_BITS;
use crate::outcome::{Alert, Outcome, Rule, Sent, Step};

/// The most differences of a case that are looked at.
const MOST: usize = 20_000;

/// Where a difference is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// The case could not be evaluated.
    Case,
    /// Whether the evaluation of a rule failed.
    Health,
    /// Whether an alert exists, or a part of its state.
    Alert(&'static str),
    /// Whether an alert was sent, or a part of it.
    Sent(&'static str),
    /// A sample of a series that a rule wrote.
    Sample,
}

/// A difference.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// Where it is.
    pub place: Place,
    /// The number of the evaluation.
    pub step: usize,
    /// The name of the rule.
    pub rule: String,
    /// The series, or the labels of the alert.
    pub labels: Texts,
    /// What Prometheus has.
    pub theirs: String,
    /// What we have.
    pub ours: String,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { place, step, rule, labels, theirs, ours } = self;
        writeln!(f, "{place:?} of '{rule}' at evaluation {step}, {labels:?}")?;
        write!(f, "  Prometheus: {theirs}\n  we:         {ours}")
    }
}

/// The counts of what was compared.
#[derive(Clone, Copy, Debug, Default)]
pub struct Compared {
    /// Evaluations of groups.
    pub steps: usize,
    /// Evaluations of rules.
    pub evaluations: usize,
    /// Those that failed.
    pub failures: usize,
    /// States of alerts.
    pub alerts: usize,
    /// Alerts that were sent.
    pub sent: usize,
    /// Samples.
    pub samples: usize,
}

impl Compared {
    /// What was compared in a case.
    pub fn of(theirs: &Outcome) -> Self {
        let rules = || theirs.steps.iter().flat_map(|step| &step.rules);
        Self {
            steps: theirs.steps.len(),
            evaluations: rules().count(),
            failures: rules().filter(|rule| !rule.error.is_empty()).count(),
            alerts: rules().map(|rule| rule.alerts.len()).sum(),
            sent: theirs.steps.iter().map(|step| step.sent.len()).sum(),
            samples: theirs.series.iter().map(|series| series.samples.len()).sum(),
        }
    }

    /// Adds the counts of another case.
    pub fn add(&mut self, other: Self) {
        self.steps += other.steps;
        self.evaluations += other.evaluations;
        self.failures += other.failures;
        self.alerts += other.alerts;
        self.sent += other.sent;
        self.samples += other.samples;
    }
}

/// The differences, in the order of their evaluations.
pub fn compare(case: &Case, theirs: &Outcome, ours: &Outcome) -> Vec<Difference> {
    let mut found = Vec::new();
    if theirs.failure != ours.failure || theirs.steps.len() != ours.steps.len() {
        let text = |one: &Outcome| format!("{} evaluations, '{}'", one.steps.len(), one.failure);
        let (theirs, ours) = (text(theirs), text(ours));
        let (rule, labels) = (String::new(), Texts::new());
        return vec![Difference { place: Place::Case, step: 0, rule, labels, theirs, ours }];
    }
    let evaluations = case.evaluations();
    for (step, (_, version)) in evaluations.iter().enumerate() {
        let rules = &case.versions[*version].rules;
        let (theirs, ours) = (&theirs.steps[step], &ours.steps[step]);
        for (number, rule) in rules.iter().enumerate() {
            let (theirs, ours) = (theirs.rules.get(number), ours.rules.get(number));
            if let (Some(theirs), Some(ours)) = (theirs, ours) {
                compare_rules((step, &rule.name), theirs, ours, &mut found);
            }
        }
        compare_sent(step, theirs, ours, &mut found);
    }
    compare_series(case, theirs, ours, &mut found);
    found.sort_by_key(|one| one.step);
    found.truncate(MOST);
    found
}

fn compare_rules((step, name): (usize, &str), theirs: &Rule, ours: &Rule, found: &mut Vec<Difference>) {
    let difference = |place, labels: &Texts, theirs: String, ours: String| {
        let (rule, labels) = (name.to_owned(), labels.clone());
        Difference { place, step, rule, labels, theirs, ours }
    };
    if theirs.error.is_empty() != ours.error.is_empty() {
        let (theirs, ours) = (theirs.error.clone(), ours.error.clone());
        found.push(difference(Place::Health, &Texts::new(), theirs, ours));
    }
    fn by_labels(rule: &Rule) -> BTreeMap<&Texts, &Alert> {
        rule.alerts.iter().map(|alert| (&alert.labels, alert)).collect()
    }
    let (theirs, ours) = (by_labels(theirs), by_labels(ours));
    for (labels, alert) in &ours {
        if !theirs.contains_key(labels) {
            found.push(difference(Place::Alert("alert"), labels, "none".to_owned(), format!("{alert:?}")));
        }
    }
    for (labels, theirs) in &theirs {
        let Some(ours) = ours.get(labels) else {
            found.push(difference(Place::Alert("alert"), labels, format!("{theirs:?}"), "none".to_owned()));
            continue;
        };
        // No one sees since when an alert was active that ended.
        let is_over = theirs.state == "inactive" && ours.state == "inactive";
        for (field, theirs, ours) in fields(theirs, ours) {
            if theirs != ours && !(is_over && field == "active_at") {
                found.push(difference(Place::Alert(field), labels, theirs, ours));
            }
        }
    }
}

/// The parts of the states of two alerts.
fn fields(theirs: &Alert, ours: &Alert) -> [(&'static str, String, String); 9] {
    let value = |alert: &Alert| shown(&alert.value);
    [
        ("state", theirs.state.clone(), ours.state.clone()),
        ("value", value(theirs), value(ours)),
        ("annotations", format!("{:?}", theirs.annotations), format!("{:?}", ours.annotations)),
        ("active_at", theirs.active_at.to_string(), ours.active_at.to_string()),
        ("fired_at", theirs.fired_at.to_string(), ours.fired_at.to_string()),
        ("resolved_at", theirs.resolved_at.to_string(), ours.resolved_at.to_string()),
        ("keep_firing_since", theirs.keep_firing_since.to_string(), ours.keep_firing_since.to_string()),
        ("last_sent_at", theirs.last_sent_at.to_string(), ours.last_sent_at.to_string()),
        ("valid_until", theirs.valid_until.to_string(), ours.valid_until.to_string()),
    ]
}

/// A float with its bits. All NaN are the same, except stale markers.
fn shown(bits: &str) -> String {
    let value = value_of(bits);
    match value.to_bits() {
        STALE_BITS => "stale".to_owned(),
        _ if value.is_nan() => "NaN".to_owned(),
        bits => format!("{value} ({bits:x})"),
    }
}

fn compare_sent(step: usize, theirs: &Step, ours: &Step, found: &mut Vec<Difference>) {
    // Several rules may send alerts with equal labels.
    fn by_labels(step: &Step) -> BTreeMap<&Texts, Vec<&Sent>> {
        let mut all: BTreeMap<&Texts, Vec<&Sent>> = BTreeMap::new();
        for sent in &step.sent {
            all.entry(&sent.labels).or_default().push(sent);
        }
        all.values_mut().for_each(|same| same.sort_by_key(|sent| (&sent.url, sent.starts_at)));
        all
    }
    let (theirs, ours) = (by_labels(theirs), by_labels(ours));
    let all: BTreeSet<&Texts> = theirs.keys().chain(ours.keys()).copied().collect();
    for labels in all {
        let mut add = |field, theirs: String, ours: String| {
            let rule = labels.get("alertname").cloned().unwrap_or_default();
            let place = Place::Sent(field);
            found.push(Difference { place, step, rule, labels: labels.clone(), theirs, ours });
        };
        let (theirs, ours) = (theirs.get(labels), ours.get(labels));
        let (theirs, ours) = (theirs.map_or(&[][..], |all| all), ours.map_or(&[][..], |all| all));
        if theirs.len() != ours.len() {
            add("alert", format!("{theirs:?}"), format!("{ours:?}"));
            continue;
        }
        for (theirs, ours) in theirs.iter().zip(ours) {
            let text = |sent: &Sent| [format!("{:?}", sent.annotations), sent.url.clone()];
            let times = |sent: &Sent| [sent.starts_at.to_string(), sent.ends_at.to_string()];
            let names = ["annotations", "url", "starts_at", "ends_at"];
            let theirs = text(theirs).into_iter().chain(times(theirs));
            let ours = text(ours).into_iter().chain(times(ours));
            for ((field, theirs), ours) in names.into_iter().zip(theirs).zip(ours) {
                if theirs != ours {
                    add(field, theirs, ours);
                }
            }
        }
    }
}

fn compare_series(case: &Case, theirs: &Outcome, ours: &Outcome, found: &mut Vec<Difference>) {
    let evaluations = case.evaluations();
    fn by_labels(outcome: &Outcome) -> BTreeMap<&Texts, BTreeMap<i64, &Sample>> {
        fn times(samples: &[Sample]) -> BTreeMap<i64, &Sample> {
            samples.iter().map(|sample| (sample.0, sample)).collect()
        }
        outcome.series.iter().map(|series| (&series.labels, times(&series.samples))).collect()
    }
    let (theirs, ours) = (by_labels(theirs), by_labels(ours));
    let none = BTreeMap::new();
    let all: BTreeSet<&Texts> = theirs.keys().chain(ours.keys()).copied().collect();
    for labels in all {
        let (theirs, ours) = (theirs.get(labels).unwrap_or(&none), ours.get(labels).unwrap_or(&none));
        let times: BTreeSet<i64> = theirs.keys().chain(ours.keys()).copied().collect();
        for at_ms in times {
            let text = |samples: &BTreeMap<i64, &Sample>| {
                samples.get(&at_ms).map_or("no sample".to_owned(), |sample| shown(&sample.1))
            };
            let (theirs, ours) = (text(theirs), text(ours));
            if theirs != ours {
                let name = labels.get("__name__").map_or("", String::as_str);
                let key = if name.starts_with("ALERTS") { "alertname" } else { "__name__" };
                let rule = labels.get(key).cloned().unwrap_or_default();
                let step = evaluations
                    .iter()
                    .position(|(at, version)| at - case.versions[*version].offset_ms == at_ms);
                let (labels, step) = (labels.clone(), step.unwrap_or_default());
                found.push(Difference { place: Place::Sample, step, rule, labels, theirs, ours });
            }
        }
    }
}

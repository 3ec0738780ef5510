//! The intended differences, each with its reason.
//!
//! A rule checks the case, both outcomes and the difference, and explains as little as possible. The table
//! in `docs/reference/rules-differences.md` is generated from this one.

use std::collections::BTreeSet;

use crate::case::{Case, Event, Group, Rule};
use crate::compare::{Difference, Place};
use crate::outcome::Outcome;

/// A case with its outcomes.
pub struct Both<'a> {
    /// The case.
    pub case: &'a Case,
    /// The outcome with the code of Prometheus.
    pub theirs: &'a Outcome,
    /// Our outcome.
    pub ours: &'a Outcome,
}

/// An explained difference.
pub struct Explained {
    /// A short name, printed in reports.
    pub id: &'static str,
    /// What differs.
    pub what: &'static str,
    /// The reason of the difference.
    pub reason: &'static str,
    /// Whether the rule explains a difference.
    pub explains: fn(&Both<'_>, &Difference) -> bool,
}

/// Every rule.
pub const RULES: &[Explained] = &[
    Explained {
        id: "limit-of-alerts",
        what: "alerts of a rule that has once had more alerts than the `limit` of its group, and rules that \
               read them",
        reason: "Prometheus forgets all alerts of the rule, so that they are never resolved and start anew; \
                 in Sandur a failed evaluation changes no alert",
        explains: |both, difference| {
            let forgot = both.failed(difference.step, |_, error| {
                error.starts_with("exceeded limit") && error.ends_with("alerts")
            });
            both.concerns(difference, &forgot)
        },
    },
    Explained {
        id: "sent-after-failure",
        what: "when alerts of a rule are sent whose evaluation failed",
        reason: "Sandur sends firing alerts after a failed evaluation, too, so that receivers do not regard \
                 them as resolved; Prometheus does not",
        explains: |both, difference| {
            let is_of_sending = match difference.place {
                Place::Sent(field) => field != "url",
                Place::Alert(field) => matches!(field, "last_sent_at" | "valid_until"),
                _ => false,
            };
            is_of_sending && both.failed(difference.step, |_, _| true).contains(&difference.rule)
        },
    },
    Explained {
        id: "link",
        what: "how the link of an alert (`generatorURL`) writes the expression",
        reason: "Sandur writes it as the file does, Prometheus formats it",
        explains: |_, difference| difference.place == Place::Sent("url"),
    },
    Explained {
        id: "sent-once",
        what: "alerts with equal labels that several rules send at the same time",
        reason: "Sandur's queue has one entry per alert and sends the last one, Prometheus sends all",
        explains: |both, difference| {
            let count = |outcome: &Outcome| {
                let sent = outcome.steps.get(difference.step).map(|step| &step.sent);
                sent.into_iter().flatten().filter(|sent| sent.labels == difference.labels).count()
            };
            matches!(difference.place, Place::Sent(_)) && count(both.theirs) > 1 && count(both.ours) == 1
        },
    },
    Explained {
        id: "written-twice",
        what: "whether the evaluation of a rule failed whose series another rule writes at the same time \
               with another value",
        reason: "the first sample stays, as in Prometheus; Prometheus counts the second one as a failure",
        explains: |_, difference| difference.place == Place::Health && is_of_storage(&difference.theirs),
    },
    Explained {
        id: "last-digits",
        what: "the last digit of averages; where it shows in labels of `count_values` and in templates, also \
               series, alerts and texts",
        reason: "Prometheus rounds after each addition, Sandur's sums are exact",
        explains: |both, difference| {
            let rules = || both.case.versions.iter().flat_map(|version| &version.rules);
            let averages = rules().filter(|rule| rule.expr.contains("avg")).map(|rule| rule.name.clone());
            let readers = both.with_readers(&averages.collect());
            let shows_digits = |rule: &&Rule| {
                let mut texts = rule.labels.iter().chain(&rule.annotations).map(|(_, text)| text);
                readers.contains(&rule.name)
                    && (rule.expr.contains("count_values") || texts.any(|text| text.contains("{{")))
            };
            readers.contains(&difference.rule)
                && (are_close(difference) || rules().any(|rule| shows_digits(&rule)))
        },
    },
    Explained {
        id: "sign-of-zero",
        what: "whether the greatest or least value of several series is 0 or -0, if they have both",
        reason: "0 and -0 are equal, and Prometheus takes the first one in the order of its storage",
        explains: |both, difference| {
            let rules = both.case.versions.iter().flat_map(|version| &version.rules);
            let chooses = |rule: &&Rule| ["max", "min"].iter().any(|name| rule.expr.contains(name));
            let choosing = rules.filter(chooses).map(|rule| rule.name.clone()).collect();
            let is_zero = |text: &str| value_in(text) == Some(0.0);
            is_zero(&difference.theirs) && is_zero(&difference.ours) && both.concerns(difference, &choosing)
        },
    },
    Explained {
        id: "restored-after-failure",
        what: "alerts of a rule whose first or second evaluation after a start failed, and rules that read \
               them",
        reason: "Sandur restores alerts after the second evaluation of the rule that succeeded, Prometheus \
                 after the second one of the group",
        explains: |both, difference| {
            let starts = both.starts();
            let failed = both.failed(difference.step, |step, _| {
                starts.iter().any(|start| step == *start || step == start + 1)
            });
            both.concerns(difference, &failed)
        },
    },
];

impl Both<'_> {
    /// The name of the rule that explains a difference.
    pub fn explain(&self, difference: &Difference) -> Option<&'static str> {
        RULES.iter().find(|rule| (rule.explains)(self, difference)).map(|rule| rule.id)
    }

    /// The names of rules of which an evaluation up to `last` failed as `is` says.
    fn failed(&self, last: usize, is: impl Fn(usize, &str) -> bool) -> BTreeSet<String> {
        let mut names = BTreeSet::new();
        let evaluations = self.case.evaluations();
        let steps = evaluations.iter().zip(&self.theirs.steps).enumerate().take(last + 1);
        for (step, ((_, version), theirs)) in steps {
            let rules = &self.case.versions[*version].rules;
            for (rule, state) in rules.iter().zip(&theirs.rules) {
                let has_failed = !state.error.is_empty() && !is_of_storage(&state.error);
                if has_failed && is(step, &state.error) {
                    names.insert(rule.name.clone());
                }
            }
        }
        names
    }

    /// The numbers of the first evaluations after restarts.
    fn starts(&self) -> Vec<usize> {
        let (mut step, mut starts) = (0, Vec::new());
        for event in &self.case.events {
            match event {
                Event::Restart { .. } => starts.push(step),
                Event::Evaluate { .. } => step += 1,
                Event::Reload { .. } => {}
            }
        }
        starts
    }

    /// Whether the difference concerns a rule with one of these names, or one that reads what it writes.
    fn concerns(&self, difference: &Difference, names: &BTreeSet<String>) -> bool {
        self.with_readers(names).contains(&difference.rule)
    }

    /// These names, and those of all rules that read what rules with these names write.
    fn with_readers(&self, names: &BTreeSet<String>) -> BTreeSet<String> {
        let mut all = names.clone();
        loop {
            let before = all.len();
            for version in &self.case.versions {
                add_readers(version, &mut all);
            }
            if all.len() == before {
                return all;
            }
        }
    }
}

/// Whether an error says that a sample was not stored because there is another one.
fn is_of_storage(error: &str) -> bool {
    error.starts_with("duplicate sample for timestamp")
}

/// The number at the beginning of a text.
fn value_in(text: &str) -> Option<f64> {
    text.split(' ').next()?.parse().ok()
}

/// Whether two values differ in their last digits only.
fn are_close(difference: &Difference) -> bool {
    let pair = value_in(&difference.theirs).zip(value_in(&difference.ours));
    pair.is_some_and(|(theirs, ours)| (theirs - ours).abs() <= theirs.abs() * 1e-14)
}

/// Adds the names of rules that read what rules with these names write.
fn add_readers(group: &Group, names: &mut BTreeSet<String>) {
    let is_alert = |name: &String| group.rules.iter().any(|rule| rule.is_alerting && rule.name == *name);
    let reads_alerts = names.iter().any(is_alert);
    for rule in &group.rules {
        let texts = rule.labels.iter().chain(&rule.annotations).map(|(_, text)| text);
        for text in std::iter::once(&rule.expr).chain(texts) {
            let reads = (reads_alerts && text.contains("ALERTS"))
                || names.iter().any(|name| text.contains(name.as_str()));
            if reads {
                names.insert(rule.name.clone());
                break;
            }
        }
    }
}

/// The rules as a table in Markdown.
pub fn table() -> String {
    let mut text = "| rule | what differs | why |\n|---|---|---|\n".to_owned();
    for rule in RULES {
        text.push_str(&format!("| `{}` | {} | {} |\n", rule.id, rule.what, rule.reason));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_committed_page_lists_every_rule() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/reference/rules-differences.md");
        let page = std::fs::read_to_string(path).unwrap();
        let remedy = "stale: replace the table by the output of `cargo run -p sandur-rules-differential -- \
                      --rules`";
        assert!(page.contains(&table()), "{remedy}");
    }
}

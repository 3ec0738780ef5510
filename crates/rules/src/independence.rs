//! Which rules of a group can be evaluated side by side.
//!
//! A rule has to wait for an earlier one if it may read what that one writes, if that one may read what it
//! writes, or if both write the same metric. All others are independent: a write waits until it is durable,
//! and the writes of rules that are evaluated side by side wait together.
//!
//! **Invariant.** The results are those of an evaluation one after the other.

use std::collections::HashMap;

use sandur_model::MatchOp;
use sandur_promql::Expr;

use crate::restore::FOR_STATE;
use crate::spec::{Language, RuleKind, RuleSpec};

/// The metrics that a rule reads.
enum Reads {
    /// Any metric.
    Any,
    /// Only these.
    Only(Vec<String>),
}

/// The rules by their numbers, in waves: those of a wave are independent of each other.
pub fn waves(rules: &[RuleSpec]) -> Vec<Vec<usize>> {
    let mut waves: Vec<Vec<usize>> = Vec::new();
    let mut seen = Seen::default();
    for (number, rule) in rules.iter().enumerate() {
        let (reads, writes) = (reads(rule), writes(rule));
        let wave = seen.first_free(rule, &reads, &writes);
        seen.note(rule, reads, writes, wave);
        if waves.len() <= wave {
            waves.resize_with(wave + 1, Vec::new);
        }
        waves[wave].push(number);
    }
    waves
}

/// The first waves in which a rule may be that reads or writes the same as earlier rules.
#[derive(Default)]
struct Seen {
    after_writers: HashMap<String, usize>,
    after_readers: HashMap<String, usize>,
    after_recorders: HashMap<String, usize>,
    after_any_writer: usize,
    after_readers_of_any: usize,
}

impl Seen {
    fn first_free(&self, rule: &RuleSpec, reads: &Reads, writes: &[&str]) -> usize {
        let of = |waves: &HashMap<String, usize>, name: &str| waves.get(name).copied().unwrap_or(0);
        let mut wave = self.after_readers_of_any;
        match reads {
            Reads::Any => wave = wave.max(self.after_any_writer),
            Reads::Only(names) => {
                let all = names.iter().map(|name| of(&self.after_writers, name));
                wave = all.fold(wave, usize::max);
            }
        }
        if !rule.is_alerting() {
            wave = wave.max(of(&self.after_recorders, &rule.name));
        }
        writes.iter().map(|name| of(&self.after_readers, name)).fold(wave, usize::max)
    }

    fn note(&mut self, rule: &RuleSpec, reads: Reads, writes: Vec<&str>, wave: usize) {
        let later = |waves: &mut HashMap<String, usize>, name: &str| {
            let slot = waves.entry(name.to_owned()).or_default();
            *slot = (*slot).max(wave + 1);
        };
        writes.iter().for_each(|name| later(&mut self.after_writers, name));
        self.after_any_writer = self.after_any_writer.max(wave + 1);
        if !rule.is_alerting() {
            later(&mut self.after_recorders, &rule.name);
        }
        match reads {
            Reads::Any => self.after_readers_of_any = self.after_readers_of_any.max(wave + 1),
            Reads::Only(names) => names.iter().for_each(|name| later(&mut self.after_readers, name)),
        }
    }
}

fn writes(rule: &RuleSpec) -> Vec<&str> {
    match rule.kind {
        RuleKind::Recording => vec![&rule.name],
        RuleKind::Alerting { .. } => vec!["ALERTS", FOR_STATE],
    }
}

fn reads(rule: &RuleSpec) -> Reads {
    if let RuleKind::Alerting { annotations, .. } = &rule.kind {
        // A template may query anything.
        if rule.labels.iter().chain(annotations).any(|(_, text)| has_query(text)) {
            return Reads::Any;
        }
    }
    match rule.language {
        // Rules write no lines.
        Language::Logql => Reads::Only(Vec::new()),
        // Tags of Graphite also select series of other protocols.
        Language::Graphite => Reads::Any,
        Language::Promql => match sandur_promql::parse(&rule.expr) {
            Ok(expr) => names_in(&expr, &rule.expr),
            Err(_) => Reads::Any,
        },
    }
}

/// The metrics that an expression reads.
fn names_in(expr: &Expr, text: &str) -> Reads {
    // The function `info` reads metrics that it does not name.
    if calls_info(text) {
        return Reads::Any;
    }
    let mut names = Vec::new();
    for selector in expr.selectors() {
        let is_name =
            |matcher: &&sandur_model::Matcher| matcher.name() == "__name__" && matcher.op() == MatchOp::Equal;
        match selector.matchers.iter().find(is_name) {
            Some(matcher) => names.push(matcher.value().to_owned()),
            None => return Reads::Any,
        }
    }
    Reads::Only(names)
}

/// Whether an action of a template may run a query.
fn has_query(template: &str) -> bool {
    let mut actions = template.split("{{").skip(1);
    actions.any(|action| action.split("}}").next().unwrap_or_default().contains("query"))
}

/// Whether an expression may call the function `info`.
fn calls_info(text: &str) -> bool {
    let is_part_of_name = |c: char| c.is_alphanumeric() || matches!(c, '_' | ':');
    let lower = text.to_ascii_lowercase();
    let mut found = lower.match_indices("info");
    found.any(|(at, word)| {
        let after = lower[at + word.len()..].trim_start();
        !lower[..at].ends_with(is_part_of_name) && !after.starts_with(is_part_of_name)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::file::{ReadOptions, read};

    /// The names of the rules of each wave.
    fn shown(rules: &[&str]) -> String {
        let lines: String = rules.iter().map(|rule| format!("  - {{{rule}}}\n")).collect();
        let text = format!("groups:\n- name: g\n  rules:\n{lines}");
        let groups = read(&text, &"f".into(), ReadOptions::default()).unwrap();
        let rules = &groups[0].rules;
        let wave = |wave: &Vec<usize>| wave.iter().map(|n| rules[*n].name.as_str()).collect::<String>();
        waves(rules).iter().map(wave).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn rules_wait_only_for_what_they_read_or_overwrite() {
        for (rules, waves) in [
            (&["record: a, expr: x", "record: b, expr: x", "record: c, expr: y"][..], "abc"),
            (&["record: a, expr: x", "record: b, expr: a", "record: c, expr: sum(b) + x"], "a b c"),
            (
                &["record: a, expr: x", "record: b, expr: y", "record: c, expr: a * b", "record: d, expr: x"],
                "abd c",
            ),
            // `a` reads what `b` wrote at the evaluation before.
            (&["record: a, expr: b", "record: b, expr: x"], "a b"),
            (&["record: a, expr: x", "record: a, expr: y"], "a a"),
            (&["record: a, expr: x", "record: b, expr: '{job=\"j\"}'", "record: c, expr: x"], "a b c"),
            (&["record: a, expr: x", "record: b, expr: '{__name__=~\"a.*\"}'"], "a b"),
            (&["record: a, expr: x", "record: b, expr: info(x)"], "a b"),
            (&["record: a, expr: x", "record: b, expr: node_info + x"], "ab"),
            (&["record: a, expr: x", "alert: b, expr: y, annotations: {s: 'query {{ $value }}'}"], "ab"),
            (&["alert: a, expr: x", "alert: b, expr: y", "record: c, expr: ALERTS"], "ab c"),
            (&["record: a, expr: x", "alert: b, expr: y, annotations: {s: '{{ query \"a\" }}'}"], "a b"),
            (
                &[
                    "record: a, expr: x",
                    "record: b, language: logql, expr: 'count_over_time({app=\"a\"}[1m])'",
                    "alert: c, expr: b > a",
                ],
                "ab c",
            ),
        ] {
            assert_eq!(shown(rules), waves, "{rules:?}");
        }
        assert_eq!(shown(&[]), "");
    }
}

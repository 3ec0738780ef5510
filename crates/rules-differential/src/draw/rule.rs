//! Draws rules, and changes of a group.

use super::expression::{self, Sources};
use super::series::Metric;
use super::template;
use crate::case::{Group, Rule};
use crate::random::Random;

const RECORDED: &[&str] = &["job:load:sum", "instance:rate5m", "level:max", "a:b", "all:total"];
const ALERTS: &[&str] = &["HighLoad", "Down", "Slow", "Queue is long", "Errors"];
const NAMES: &[&str] = &["severity", "team", "level", "job", "instance", "alertstate", "code"];

/// A rule that reads metrics and the rules before it.
pub fn draw(random: &mut Random, interval_s: i64, metrics: &[Metric], before: &[Rule]) -> Rule {
    let sources = Sources { metrics, rules: before };
    let depth = 1 + random.below(3);
    let is_alerting = random.chance(50);
    let expr = expression::complete(random, &sources, depth);
    if !is_alerting {
        let name = name(random, RECORDED, before);
        let labels = if random.chance(35) { labels(random, false) } else { Vec::new() };
        let (hold_s, keep_firing_s, annotations) = (0, 0, Vec::new());
        return Rule { name, is_alerting, expr, hold_s, keep_firing_s, labels, annotations };
    }
    let expr = match random.below(3) {
        0 if !expr.starts_with(['1', 't', 's']) => format!("({expr}) > {}", random.pick(&["0", "2", "5"])),
        _ => expr,
    };
    let labels = if random.chance(60) { labels(random, true) } else { Vec::new() };
    let mut annotations = Vec::new();
    for name in ["summary", "description"] {
        if random.chance(40) {
            annotations.push((name.to_owned(), template::of_annotation(random)));
        }
    }
    let (hold_s, keep_firing_s) = (hold(random, interval_s), keep_firing(random, interval_s));
    Rule { name: name(random, ALERTS, before), is_alerting, expr, hold_s, keep_firing_s, labels, annotations }
}

/// A name that another rule rarely has.
fn name(random: &mut Random, from: &[&str], before: &[Rule]) -> String {
    let name = random.pick(from).to_owned();
    if before.iter().any(|rule| rule.name == name) && random.chance(85) {
        return format!("{name}{}", before.len());
    }
    name
}

fn hold(random: &mut Random, interval_s: i64) -> i64 {
    match random.below(5) {
        0 | 1 => 0,
        2 | 3 => interval_s * random.between(1, 6),
        _ => random.pick(&[300, 600, 900, 1_800]),
    }
}

fn keep_firing(random: &mut Random, interval_s: i64) -> i64 {
    match random.below(3) {
        0 => interval_s * random.between(1, 6) + random.between(0, 5),
        _ => 0,
    }
}

/// Labels of a rule or a group.
pub fn labels(random: &mut Random, is_alerting: bool) -> Vec<(String, String)> {
    let mut labels: Vec<(String, String)> = Vec::new();
    for _ in 0..1 + random.below(2) {
        let name = random.pick(NAMES).to_owned();
        if labels.iter().any(|(other, _)| *other == name) {
            continue;
        }
        let value = if is_alerting { template::of_label(random) } else { template::plain(random) };
        labels.push((name, value));
    }
    labels
}

/// Changes a group as its author would.
pub fn change(random: &mut Random, group: &mut Group, metrics: &[Metric]) {
    for _ in 0..1 + random.below(2) {
        let count = group.rules.len();
        let at = random.below(count);
        match random.below(8) {
            0 if count > 1 => {
                group.rules.remove(at);
            }
            1 => {
                let rule = draw(random, group.interval_s, metrics, &group.rules);
                group.rules.push(rule);
            }
            2 if count > 0 => group.rules.swap(0, at),
            3 if count > 0 => group.rules[at].labels.reverse(),
            4 if count > 0 => group.rules[at].labels = labels(random, false),
            5 => group.limit = random.pick(&[0, 0, 2, 5]),
            _ if count > 0 => change_rule(random, &mut group.rules[at], group.interval_s, metrics),
            _ => {}
        }
    }
}

fn change_rule(random: &mut Random, rule: &mut Rule, interval_s: i64, metrics: &[Metric]) {
    if rule.is_alerting && random.chance(60) {
        rule.hold_s = hold(random, interval_s);
        rule.keep_firing_s = keep_firing(random, interval_s);
    } else {
        rule.expr = expression::complete(random, &Sources { metrics, rules: &[] }, 2);
    }
}

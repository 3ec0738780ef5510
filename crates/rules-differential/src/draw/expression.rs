//! Draws expressions of rules.
//!
//! Functions whose last digits differ between Go and the C library are left out: the differential tests of
//! PromQL compare them.

use super::series::{Metric, values_of};
use crate::case::Rule;
use crate::random::Random;

/// What an expression may read.
pub struct Sources<'a> {
    /// The metrics of the case.
    pub metrics: &'a [Metric],
    /// The rules before it.
    pub rules: &'a [Rule],
}

const RANGES: [&str; 4] = ["1m", "3m", "5m", "10m"];
const OPERATORS: [&str; 6] = [">", ">", "<", ">=", "==", "!="];

/// A number as a threshold.
fn number(random: &mut Random) -> String {
    random.pick(&["0", "1", "2.5", "4", "6", "8", "-1"]).to_owned()
}

/// A complete expression of a rule, which may also be a scalar.
pub fn complete(random: &mut Random, sources: &Sources<'_>, depth: usize) -> String {
    match random.chance(3) {
        true => random.pick(&["1", "time()", "scalar(up)"]).to_owned(),
        false => vector(random, sources, depth),
    }
}

/// An expression that is a vector.
fn vector(random: &mut Random, sources: &Sources<'_>, depth: usize) -> String {
    if depth == 0 {
        return leaf(random, sources);
    }
    match random.below(16) {
        0..=2 => leaf(random, sources),
        3 => aggregation(random, sources, depth),
        4 => {
            let (inner, operator) = (vector(random, sources, depth - 1), random.pick(&OPERATORS));
            format!("({inner}) {operator} {}", number(random))
        }
        5 => {
            let (inner, operator) = (vector(random, sources, depth - 1), random.pick(&OPERATORS));
            format!("({inner}) {operator} bool {}", number(random))
        }
        6 => {
            let inner = vector(random, sources, depth - 1);
            format!("({inner}) {} {}", random.pick(&["*", "+", "-", "/"]), number(random))
        }
        7 => matched(random, sources, depth),
        8 => {
            let (a, b) = (vector(random, sources, depth - 1), vector(random, sources, depth - 1));
            let on = random.pick(&["", " on(job)", " on(job, instance)", " ignoring(code)"]);
            format!("({a}) {}{on} ({b})", random.pick(&["and", "or", "unless"]))
        }
        9 => format!("absent({})", selector(random, sources)),
        10 => {
            let inner = vector(random, sources, depth - 1);
            format!("{}({inner})", random.pick(&["abs", "ceil", "floor", "sgn", "-", "timestamp", "sort"]))
        }
        11 => {
            let inner = vector(random, sources, depth - 1);
            format!("clamp({inner}, 0, {})", random.pick(&["3", "5"]))
        }
        12 => {
            let inner = vector(random, sources, depth - 1);
            let target = random.pick(&["kind", "job", "instance", "alertname"]);
            format!(r#"label_replace({inner}, "{target}", "x-$1", "instance", "(.).*")"#)
        }
        13 => {
            let inner = vector(random, sources, depth - 1);
            format!("max_over_time(({inner})[{}:1m])", random.pick(&RANGES))
        }
        14 => random.pick(&["vector(1)", "vector(time())", "vector(0) > 0"]).to_owned(),
        _ => over_time(random, sources),
    }
}

fn leaf(random: &mut Random, sources: &Sources<'_>) -> String {
    match random.below(10) {
        0..=5 => selector(random, sources),
        _ => over_time(random, sources),
    }
}

fn over_time(random: &mut Random, sources: &Sources<'_>) -> String {
    let counters: Vec<&Metric> = sources.metrics.iter().filter(|metric| metric.is_counter).collect();
    let range = random.pick(&RANGES);
    if !counters.is_empty() && random.chance(50) {
        let metric = random.pick(&counters);
        let function = random.pick(&["rate", "increase", "irate", "resets", "changes"]);
        return format!("{function}({}[{range}])", with_matchers(random, metric.name, metric.labels));
    }
    let function = random.pick(&[
        "max_over_time",
        "min_over_time",
        "sum_over_time",
        "avg_over_time",
        "count_over_time",
        "last_over_time",
        "present_over_time",
        "absent_over_time",
        "changes",
        "delta",
    ]);
    format!("{function}({}[{range}])", plain_selector(random, sources))
}

/// A selector, sometimes with an offset.
fn selector(random: &mut Random, sources: &Sources<'_>) -> String {
    let selector = plain_selector(random, sources);
    match random.below(14) {
        0 => format!("{selector} offset {}", random.pick(&["1m", "5m"])),
        1 => format!("{selector} @ end()"),
        _ => selector,
    }
}

fn plain_selector(random: &mut Random, sources: &Sources<'_>) -> String {
    let is_of_rule = !sources.rules.is_empty() && random.chance(45);
    if is_of_rule {
        let rule = &sources.rules[random.below(sources.rules.len())];
        if !rule.is_alerting {
            return with_matchers(random, &rule.name, &["job", "instance", "level"]);
        }
        let name = &rule.name;
        return match random.below(4) {
            0 => format!(r#"ALERTS_FOR_STATE{{alertname="{name}"}}"#),
            1 => format!(r#"ALERTS{{alertname="{name}",alertstate="firing"}}"#),
            2 => r#"ALERTS{alertstate="pending"}"#.to_owned(),
            _ => format!(r#"ALERTS{{alertname="{name}"}}"#),
        };
    }
    let metric = random.pick(sources.metrics);
    with_matchers(random, metric.name, metric.labels)
}

fn with_matchers(random: &mut Random, name: &str, labels: &[&str]) -> String {
    if random.chance(60) {
        return name.to_owned();
    }
    let label = random.pick(labels);
    let value = random.pick(values_of(label));
    let operator = random.pick(&["=", "!=", "=~", "!~"]);
    format!(r#"{name}{{{label}{operator}"{value}"}}"#)
}

fn aggregation(random: &mut Random, sources: &Sources<'_>, depth: usize) -> String {
    let inner = vector(random, sources, depth - 1);
    let function = random.pick(&["sum", "sum", "max", "min", "count", "avg", "group"]);
    let by = match random.below(6) {
        0 => String::new(),
        1 => " without (instance)".to_owned(),
        2 => " without (code, instance)".to_owned(),
        3 => " by (instance)".to_owned(),
        _ => " by (job)".to_owned(),
    };
    match random.below(8) {
        0 => format!("quantile{by} (0.5, {inner})"),
        1 => format!(r#"count_values{by} ("v", {inner})"#),
        _ => format!("{function}{by} ({inner})"),
    }
}

/// An operator between vectors, which may fail because series match several others.
fn matched(random: &mut Random, sources: &Sources<'_>, depth: usize) -> String {
    let (a, b) = (vector(random, sources, depth - 1), vector(random, sources, depth - 1));
    let operator = random.pick(&["+", "-", "*", "/", ">", "<="]);
    match random.below(6) {
        0 => format!("({a}) {operator} on(job) group_left max by (job) ({b})"),
        1 => format!("({a}) {operator} ignoring(code) ({b})"),
        2 => format!("({a}) {operator} on(job, instance) ({b})"),
        3 => format!("sum by (job) ({a}) {operator} sum by (job) ({b})"),
        _ => format!("({a}) {operator} ({b})"),
    }
}

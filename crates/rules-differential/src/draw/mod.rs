//! Draws random cases.

mod events;
mod expression;
mod rule;
mod series;
mod template;

use crate::case::{Case, Group};
use crate::random::Random;
pub use series::STALE_BITS;

/// The first possible time of an evaluation: milliseconds since the epoch.
const START_MS: i64 = 1_700_000_000_000;
/// The time before the first evaluation from which on series have samples.
const BEFORE_MS: i64 = 15 * 60_000;

/// The case with this number. Its number of evaluations is `steps` on average.
pub fn case(seed: u64, number: u64, steps: usize) -> Case {
    let mut random = Random::of(seed, number);
    let random = &mut random;
    let interval_s = random.pick(&[15, 30, 30, 60, 60, 60, 120, 300]);
    let first_ms = START_MS + random.between(0, 59_999);
    let metrics = series::metrics(random);
    let versions = versions(random, interval_s, &metrics);
    let steps = random.between(steps as i64 / 2, steps as i64 + steps as i64 / 2).max(1);
    let events = events::draw(random, versions.len(), (first_ms, interval_s), steps);
    let case = Case {
        series: Vec::new(),
        versions,
        events,
        outage_ms: random.pick(&[0, 600_000, 3_600_000, 3_600_000]),
        grace_ms: random.pick(&[0, 60_000, 300_000, 600_000]),
        resend_ms: random.pick(&[10_000, 60_000, 60_000, 300_000]),
        external_labels: vec![("replica_of".to_owned(), "r1".to_owned())],
        url: random.pick(&["http://sandur.invalid:9090", "http://sandur.invalid/prom"]).to_owned(),
    };
    let last_ms = case.evaluations().last().map_or(first_ms, |(at_ms, _)| *at_ms);
    let series = series::draw(random, &metrics, (first_ms - BEFORE_MS, last_ms), interval_s);
    Case { series, ..case }
}

/// The versions of the group: most cases have one.
fn versions(random: &mut Random, interval_s: i64, metrics: &[series::Metric]) -> Vec<Group> {
    let offset_ms = match random.below(4) {
        0 => random.pick(&[500, 10_000, 60_000, 61_234]),
        _ => 0,
    };
    let labels = if random.chance(25) { rule::labels(random, false) } else { Vec::new() };
    let limit = if random.chance(12) { 1 + random.below(6) } else { 0 };
    let count = 2 + random.below(6);
    let mut rules = Vec::new();
    for _ in 0..count {
        let rule = rule::draw(random, interval_s, metrics, &rules);
        rules.push(rule);
    }
    let mut versions = vec![Group { interval_s, limit, offset_ms, labels, rules }];
    if random.chance(35) {
        for _ in 0..1 + random.below(2) {
            let mut next = versions[versions.len() - 1].clone();
            rule::change(random, &mut next, metrics);
            versions.push(next);
        }
    }
    versions
}

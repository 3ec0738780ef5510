//! Evaluates groups at times of the past: which alerts would have fired, and what would have been recorded.
//!
//! **Life of a replay.** [`Replay::new`] makes the groups and counts their evaluations. [`Replay::run`]
//! evaluates them at the times of their schedules and reports what happens to alerts, and failures, as they
//! happen. Where samples are stored, if at all, is up to the [`Data`] of the groups.
//!
//! **Invariants.** The evaluations of all groups are in the order of their times, and groups with the same
//! time are in their order. Rules have no state before the first evaluation. Nothing is sent. An evaluation
//! that fails changes no state, as in a server. The number of evaluations is bounded.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;
use std::time::Duration;

use sandur_runtime::{Env, ShutdownSignal};

use crate::alert::{Alert, State};
use crate::data::{Data, Instant};
use crate::external::External;
use crate::group::{Group, Parts};
use crate::schedule::Schedule;
use crate::spec::{GroupSpec, RuleSpec};

/// The most evaluations of rules.
pub const RULE_EVALUATIONS_MAX: u64 = 10_000_000;

/// Why a replay cannot begin.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReplayError {
    /// There is too much to evaluate.
    #[error(
        "the range has {found} evaluations of rules, and a replay may have {RULE_EVALUATIONS_MAX}; choose a \
         shorter range, or replay fewer rules at a time"
    )]
    TooMany {
        /// The number of evaluations.
        found: u64,
    },
    /// The range has no time at which a group would have been evaluated.
    #[error("no group is evaluated between these times; choose a longer range")]
    Nothing,
}

/// What happened at an evaluation.
#[derive(Debug)]
pub enum Happened<'a> {
    /// An alert began to fire.
    Fired(&'a Alert),
    /// An alert that fired ended.
    Resolved(&'a Alert),
    /// The evaluation of the rule failed with this error; the one before did not.
    Failed(&'a str),
}

/// Something that happened.
#[derive(Debug)]
pub struct Occurrence<'a> {
    /// The time of the evaluation.
    pub at: Instant,
    /// The group.
    pub group: &'a GroupSpec,
    /// The rule.
    pub rule: &'a RuleSpec,
    /// What happened.
    pub what: Happened<'a>,
}

/// What a replay did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Evaluations of rules.
    pub evaluations: u64,
    /// Evaluations of rules that failed.
    pub failed: u64,
    /// How often alerts began to fire.
    pub fired: u64,
    /// The alerts that fire at the end.
    pub firing: u64,
}

/// Groups that are evaluated in a range of the past.
pub struct Replay {
    groups: Vec<(Schedule, Group)>,
    /// The time of the next evaluation of each group.
    next: BinaryHeap<Reverse<(Instant, usize)>>,
    to: Instant,
    evaluations: u64,
    /// The time of the last evaluation that began.
    reached: Instant,
}

impl Replay {
    /// Evaluations of `specs` from `from` to before `to`. `limits` are the longest evaluation of a rule and
    /// the most series of one.
    pub fn new(
        env: &Env,
        specs: Vec<GroupSpec>,
        data: Arc<dyn Data>,
        (from, to): (Instant, Instant),
        limits: (Duration, usize),
    ) -> Result<Self, ReplayError> {
        let parts = Parts::unsent(env, data, External::default(), limits);
        let mut replay =
            Self { groups: Vec::new(), next: BinaryHeap::new(), to, evaluations: 0, reached: from };
        for spec in specs {
            let schedule = Schedule::new(&spec.file, &spec.name, spec.interval);
            let first = schedule.first(Instant::of_ns(from.ns().saturating_sub(1)));
            if first >= to || spec.rules.is_empty() {
                continue;
            }
            let steps = (to.since(first).as_nanos() - 1) / spec.interval.as_nanos().max(1) + 1;
            let steps = u64::try_from(steps).unwrap_or(u64::MAX);
            replay.evaluations =
                replay.evaluations.saturating_add(steps.saturating_mul(spec.rules.len() as u64));
            replay.next.push(Reverse((first, replay.groups.len())));
            replay.groups.push((schedule, Group::new(spec, parts.clone(), true)));
        }
        match replay.evaluations {
            0 => Err(ReplayError::Nothing),
            found if found > RULE_EVALUATIONS_MAX => Err(ReplayError::TooMany { found }),
            _ => Ok(replay),
        }
    }

    /// The number of evaluations of rules.
    pub fn evaluations(&self) -> u64 {
        self.evaluations
    }

    /// The time of the last evaluation. If the replay was stopped, it may have failed for this reason.
    pub fn reached(&self) -> Instant {
        self.reached
    }

    /// Evaluates until the end of the range, or until it is to stop. `each` gets what happens, and after
    /// each evaluation of a group the number of evaluations of rules so far.
    pub async fn run(
        &mut self,
        stop: &ShutdownSignal,
        mut each: impl FnMut(Occurrence<'_>),
        mut progress: impl FnMut(u64),
    ) -> Tally {
        let mut tally = Tally::default();
        while let Some(Reverse((at, number))) = self.next.pop() {
            let Some((_, group)) = self.groups.get_mut(number).filter(|_| !stop.is_triggered()) else {
                break;
            };
            self.reached = at;
            let failed_before: Vec<Option<String>> =
                group.rules.iter().map(|rule| rule.last_error.clone()).collect();
            group.evaluate(at, stop).await;
            report(group, at, (&failed_before, &mut tally), &mut each);
            progress(tally.evaluations);
            let next = at.plus(group.spec.interval);
            if next < self.to {
                self.next.push(Reverse((next, number)));
            }
        }
        let rules = self.groups.iter().flat_map(|(_, group)| &group.rules);
        let alerts = rules.flat_map(|rule| rule.alerts.iter());
        tally.firing = alerts.filter(|alert| alert.state == State::Firing).count() as u64;
        tally
    }
}

fn report(
    group: &Group,
    at: Instant,
    (failed_before, tally): (&[Option<String>], &mut Tally),
    each: &mut impl FnMut(Occurrence<'_>),
) {
    for (rule, before) in group.rules.iter().zip(failed_before) {
        let mut told = |what| each(Occurrence { at, group: &group.spec, rule: &rule.spec, what });
        tally.evaluations += 1;
        if let Some(error) = &rule.last_error {
            tally.failed += 1;
            if before.as_ref() != Some(error) {
                told(Happened::Failed(error));
            }
            continue;
        }
        for alert in rule.alerts.iter() {
            if alert.fired_at == Some(at) && alert.state == State::Firing {
                tally.fired += 1;
                told(Happened::Fired(alert));
            }
            if alert.resolved_at == Some(at) {
                told(Happened::Resolved(alert));
            }
        }
    }
}

#[cfg(test)]
mod tests;

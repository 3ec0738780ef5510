//! Runs a group on its schedule, within a term if owners are recorded.
//!
//! **Invariants.** A group whose term is lost ends. While it is not sure that the term goes on, nothing is
//! evaluated; it is made up later. Evaluations that are made up send nothing for a while: the next one that
//! is on time sends what is due.

use std::time::Duration;

use sandur_runtime::{Backoff, ShutdownSignal};

use crate::catch_up::CATCH_UP_MAX;
use crate::continuing::{Continuing, Resume};
use crate::data::Instant;
use crate::error::EvaluationError;
use crate::group::{Group, now};
use crate::ownership::{PAUSE, Standing};
use crate::rule::Rule;
use crate::schedule::{Next, Schedule};
use crate::writers::Writers;

/// The pauses before another attempt to continue a group.
const PAUSES: Backoff = Backoff::new(PAUSE, Duration::from_secs(10));

/// How a group begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Start {
    /// With the next evaluation.
    Next,
    /// Where another process ended, if one has been running since this time.
    Continued(Instant),
}

impl Group {
    /// Evaluates the group on its schedule until it is stopped or its term is lost. Returns the group with
    /// its state.
    pub async fn run(mut self, start: Start, stop: ShutdownSignal) -> Self {
        let env = self.parts.env.clone();
        let schedule = Schedule::new(&self.spec.file, &self.spec.name, self.spec.interval);
        let Some(mut at) = self.begin(start, schedule, &stop).await else { return self };
        loop {
            let wait = at.since(now(&env));
            if env.timeout(wait, stop.triggered()).await.is_some() || !self.is_owner(&stop).await {
                return self;
            }
            let late = now(&env).since(at);
            self.parts.metrics.lateness.observe(late.as_secs_f64());
            self.late = late;
            // A stop ends the evaluation between two waves of rules.
            self.is_made_up = late >= self.spec.interval;
            self.making_up_since = match self.is_made_up {
                true => self.making_up_since.or(Some(env.monotonic())),
                false => None,
            };
            self.evaluate(at, &stop).await;
            at = self.next(schedule, at);
        }
    }

    /// The time of the first evaluation; `None` if the group ends before.
    async fn begin(&mut self, start: Start, schedule: Schedule, stop: &ShutdownSignal) -> Option<Instant> {
        let env = self.parts.env.clone();
        let Start::Continued(since) = start else { return Some(schedule.first(now(&env))) };
        let (mut pauses, mut is_first) = (PAUSES.pauses(), true);
        // What is older than the evaluations that can be made up is missed anyway.
        let most = self.spec.interval.saturating_mul(CATCH_UP_MAX as u32);
        let until = env.monotonic().saturating_add(most);
        loop {
            if !self.is_owner(stop).await {
                return None;
            }
            let error = match self.restore_from(since, schedule).await {
                Ok(Some(Resume { at, missed })) => {
                    self.note_missed(missed);
                    return Some(at);
                }
                Ok(None) => break,
                Err(error) => error,
            };
            let (file, group) = (&*self.spec.file, &self.spec.name);
            if env.monotonic() >= until {
                let text = "a group could not be continued; its alerts start as after a restart";
                tracing::error!(file, group, %error, "{text}");
                break;
            }
            if is_first {
                tracing::warn!(file, group, %error, "a group cannot be continued yet; trying again");
            }
            is_first = false;
            if env.timeout(pauses.after_failure(), stop.triggered()).await.is_some() {
                return None;
            }
        }
        self.forget();
        Some(schedule.first(now(&env)))
    }

    /// Gives the rules the states that another process left.
    async fn restore_from(
        &mut self,
        since: Instant,
        schedule: Schedule,
    ) -> Result<Option<Resume>, EvaluationError> {
        let continuing = Continuing {
            spec: &self.spec,
            writers: Writers::of(self.spec.rules.iter().enumerate()),
            schedule,
            data: &*self.parts.common.data,
            memory: &self.parts.memory,
            timeout: self.parts.common.timeout,
            outage: self.parts.common.tolerance.outage,
            now: now(&self.parts.env),
            since,
        };
        continuing.restore(&mut self.rules).await
    }

    /// Forgets what rules took over before an attempt to continue the group failed.
    fn forget(&mut self) {
        let memory = &self.parts.memory;
        for rule in self.rules.iter_mut().filter(|rule| rule.has_taken_over()) {
            *rule = Rule::new(rule.spec.clone(), memory.empty(), false);
        }
    }

    /// Waits until it is sure whether the term goes on. Returns whether it does.
    async fn is_owner(&self, stop: &ShutdownSignal) -> bool {
        let Some(term) = &self.term else { return true };
        loop {
            match term.confirm().await {
                Standing::Held => return true,
                Standing::Lost => return false,
                Standing::Unsure => {}
            }
            if self.parts.env.timeout(PAUSE, stop.triggered()).await.is_some() {
                return false;
            }
        }
    }

    /// The time of the evaluation after the one at `at`.
    fn next(&mut self, schedule: Schedule, at: Instant) -> Instant {
        let Next { at: on_time, missed: waiting } = schedule.next(at, now(&self.parts.env));
        let left_out = self.pace.after(self.took, self.spec.interval, waiting);
        if left_out > 0 {
            self.note_missed(left_out);
        }
        on_time.minus(self.spec.interval.saturating_mul(u32::try_from(waiting - left_out).unwrap_or(0)))
    }

    fn note_missed(&mut self, missed: u64) {
        if missed == 0 {
            return;
        }
        self.missed += missed;
        self.parts.metrics.missed.inc_by(missed);
        let (file, group) = (&*self.spec.file, &self.spec.name);
        tracing::warn!(file, group, missed, "evaluations were left out, because the group is late");
    }
}

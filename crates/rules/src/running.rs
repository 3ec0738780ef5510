//! Runs a group on its schedule, within a term if owners are recorded.
//!
//! **Invariants.** A group whose term is lost ends. While it is not sure that the term goes on, nothing is
//! evaluated; it is made up later. Evaluations that are made up send nothing for a while: the next one that
//! is on time sends what is due.

use std::time::Duration;

use sandur_runtime::ShutdownSignal;

use crate::continuing::{Continuing, Resume};
use crate::data::Instant;
use crate::group::{Group, now};
use crate::ownership::Standing;
use crate::schedule::{Next, Schedule};
use crate::writers::Writers;

/// The pause before another look at an unsure term, or before another attempt to continue a group.
const PAUSE: Duration = Duration::from_secs(1);
/// How often a group tries to continue before it starts as after a restart.
const ATTEMPTS_MAX: u32 = 20;

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
        for attempt in 0..ATTEMPTS_MAX {
            if !self.is_owner(stop).await {
                return None;
            }
            let continuing = Continuing {
                spec: &self.spec,
                writers: Writers::of(self.spec.rules.iter().enumerate()),
                schedule,
                data: &*self.parts.common.data,
                memory: &self.parts.memory,
                timeout: self.parts.common.timeout,
                outage: self.parts.common.tolerance.outage,
                now: now(&env),
                since,
            };
            match continuing.restore(&mut self.rules).await {
                Ok(Some(Resume { at, missed })) => {
                    self.note_missed(missed);
                    return Some(at);
                }
                Ok(None) => return Some(schedule.first(now(&env))),
                Err(error) => {
                    let (file, group) = (&*self.spec.file, &self.spec.name);
                    if attempt == 0 {
                        tracing::warn!(file, group, %error, "a group cannot be continued yet; trying again");
                    }
                }
            }
            if env.timeout(PAUSE, stop.triggered()).await.is_some() {
                return None;
            }
        }
        let (file, group) = (&*self.spec.file, &self.spec.name);
        tracing::error!(file, group, "a group could not be continued; its alerts start as after a restart");
        Some(schedule.first(now(&env)))
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

//! Decides when a WAL segment of a bucket is cut: a trade-off between latency, throughput and cost.
//!
//! Each segment is one request, and a bucket bills requests. A budget of requests refills at a fixed
//! rate up to a burst; each segment spends one. Within the budget no push waits for others that do not come:
//!
//! * **Idle**: nothing is in flight, so a push is written at once. Clients that wait for their answers
//!   before they push again tend to return together. The segment therefore waits for as many pushes as
//!   the segment before it held or as came while that was being written: for [`Pace::PATIENCE`] while
//!   the budget is full, and longer the more of it is spent, since each shared segment saves a request.
//! * **In flight**: pushes gather until the previous segment is durable.
//! * **Busy**: when pushes come while a segment is in flight, or follow each other closely while the
//!   budget shrinks, their senders may be independent of our answers. Then a longer wait gathers more
//!   pushes and saves the budget for clients that a wait would slow down. A trial decides: a segment
//!   gathers until no push has come for a while. If pushes came late in that time, each segment gathers
//!   for a full window, until all pushes came at its beginning twice in a row: then the senders wait for
//!   our answers, and gathering longer is useless. The next trial comes after a pause, which doubles
//!   each time.
//! * **Spent**: the segment waits for the next request of the budget.
//!
//! No push waits for others longer than the linger, whatever the budget says. The store therefore gets
//! at most the budget's rate, or one segment per linger where that is more, plus full segments.
//!
//! This module has no clock and does no I/O: callers pass times in and get the time of the next cut.

use std::time::Duration;

use sandur_runtime::{Backoff, Pauses};

/// The budget and the longest wait.
#[derive(Clone, Copy, Debug)]
pub(super) struct PaceOptions {
    /// Requests per second by which the budget refills.
    pub(super) per_second: f64,
    /// The most requests that the budget holds.
    pub(super) burst: f64,
    /// The longest time that a push waits for others.
    pub(super) linger: Duration,
}

/// Decides when the gathered pushes are written.
pub(super) struct Pace {
    options: PaceOptions,
    /// How long a busy segment gathers: the time between two requests at the budget's rate, at most the
    /// linger.
    window: Duration,
    tokens: f64,
    filled_at: Duration,
    /// The number of pushes gathered now, when the first of them came, and when the last came.
    pushes: usize,
    since: Duration,
    latest: Duration,
    /// The number of pushes that are expected to come together.
    company: usize,
    /// When the last segment was cut.
    cut_at: Option<Duration>,
    /// When a segment was last cut or became durable.
    worked_at: Duration,
    busy: Option<Busy>,
    trial: Trial,
}

/// The state of gathering for a full window.
#[derive(Clone, Copy, Default)]
struct Busy {
    /// Consecutive windows without a late push.
    in_vain: u32,
    /// Whether a window had a late push. Until then gathering is a trial.
    is_proven: bool,
}

/// When the next trial of gathering for a window may start.
struct Trial {
    not_before: Duration,
    pauses: Pauses,
}

impl Trial {
    const BACKOFF: Backoff = Backoff::new(Duration::from_secs(2), Duration::from_secs(60));
    const DUE: Self = Self { not_before: Duration::ZERO, pauses: Self::BACKOFF.pauses() };
}

impl Pace {
    /// The shortest time for which an idle WAL waits for the clients that shared the previous segment.
    pub(super) const PATIENCE: Duration = Duration::from_millis(15);
    /// Share of the budget below which segments that follow each other closely count as busy.
    const KEPT_SHARE: f64 = 0.95;
    /// A trial ends when no push came for this share of its window: it would delay pushes for nothing.
    const QUIET_SHARE: f64 = 0.4;
    /// Consecutive windows without a late push after which gathering ends.
    const IN_VAIN_MAX: u32 = 2;

    pub(super) fn new(options: PaceOptions, now: Duration) -> Self {
        let spacing = Duration::try_from_secs_f64(1.0 / options.per_second).unwrap_or(options.linger);
        Self {
            options,
            window: spacing.min(options.linger),
            tokens: options.burst,
            filled_at: now,
            pushes: 0,
            since: now,
            latest: now,
            company: 1,
            cut_at: None,
            worked_at: now,
            busy: None,
            trial: Trial::DUE,
        }
    }

    /// Notes that pushes were gathered.
    pub(super) fn gathered(&mut self, now: Duration, pushes: usize) {
        if self.pushes == 0 {
            self.since = now;
            // After a pause longer than the linger, what was learned about the load is out of date.
            if now.saturating_sub(self.worked_at) > self.options.linger {
                (self.busy, self.company, self.trial) = (None, 1, Trial::DUE);
            }
            self.refill(now);
            let follows = self.cut_at.is_some_and(|cut| now.saturating_sub(cut) < self.window);
            // A sender that pushes right after an answer waits for our answers.
            let on_its_own = now.saturating_sub(self.worked_at) > Self::PATIENCE;
            if follows && on_its_own && self.saved() < Self::KEPT_SHARE {
                self.try_gathering(now);
            }
        }
        (self.pushes, self.latest) = (self.pushes + pushes, now);
    }

    /// Returns when the gathered pushes must be written, if nothing happens before.
    pub(super) fn due(&mut self, now: Duration, in_flight: usize) -> Duration {
        let latest = self.since + self.options.linger;
        let token = self.token_at(now);
        if in_flight > 0 {
            return latest;
        }
        let wanted = match self.busy {
            Some(Busy { is_proven: false, .. }) => {
                (self.latest + self.window.mul_f64(Self::QUIET_SHARE)).min(self.since + self.window)
            }
            Some(_) => self.since + self.window,
            None if self.pushes >= self.company => self.since,
            None => self.since + self.patience(),
        };
        wanted.max(token).min(latest)
    }

    /// Notes that the gathered pushes are being written; `full` when they fill a segment.
    pub(super) fn cut(&mut self, now: Duration, full: bool) {
        self.refill(now);
        self.tokens = (self.tokens - 1.0).max(0.0);
        if let Some(busy) = &mut self.busy {
            let late = self.latest.saturating_sub(self.since) > self.window / 5;
            busy.in_vain = if full || late { 0 } else { busy.in_vain + 1 };
            busy.is_proven |= busy.in_vain == 0;
            if busy.in_vain == 0 {
                self.trial.pauses.reset();
            } else if !busy.is_proven || busy.in_vain >= Self::IN_VAIN_MAX {
                self.busy = None;
                self.trial.not_before = now + self.trial.pauses.after_failure();
            }
        }
        (self.company, self.pushes, self.worked_at, self.cut_at) = (self.pushes, 0, now, Some(now));
    }

    /// Notes that the gathered pushes were refused.
    pub(super) fn given_up(&mut self) {
        self.pushes = 0;
    }

    /// Notes that nothing is in flight any more.
    pub(super) fn landed(&mut self, now: Duration) {
        self.worked_at = now;
        if self.pushes == 0 {
            return;
        }
        self.company += self.pushes;
        self.try_gathering(now);
    }

    fn try_gathering(&mut self, now: Duration) {
        if self.busy.is_none() && now >= self.trial.not_before {
            self.busy = Some(Busy::default());
        }
    }

    /// How long an idle WAL waits for the expected pushes.
    fn patience(&self) -> Duration {
        let more = self.window.saturating_sub(Self::PATIENCE);
        Self::PATIENCE + more.mul_f64((1.0 - self.saved()).clamp(0.0, 1.0))
    }

    /// The share of the budget that is not spent.
    fn saved(&self) -> f64 {
        if self.options.burst > 0.0 { self.tokens / self.options.burst } else { 0.0 }
    }

    /// Returns when the budget has a request, as far as is known now.
    fn token_at(&mut self, now: Duration) -> Duration {
        self.refill(now);
        if self.tokens >= 1.0 {
            return now;
        }
        let missing = (1.0 - self.tokens) / self.options.per_second;
        // The rate is zero: then the linger bounds the wait.
        Duration::try_from_secs_f64(missing).map_or(Duration::MAX, |wait| now.saturating_add(wait))
    }

    fn refill(&mut self, now: Duration) {
        let gained = now.saturating_sub(self.filled_at).as_secs_f64() * self.options.per_second;
        self.tokens = (self.tokens + gained).min(self.options.burst);
        self.filled_at = now;
    }
}

#[cfg(test)]
#[path = "pace_tests.rs"]
mod tests;

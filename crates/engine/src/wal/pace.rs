//! When a WAL segment of a bucket is cut: latency, throughput and dollars as one choice.
//!
//! Each segment is one request, and requests are what a bucket bills. A budget of them refills at a rate up
//! to a burst; a segment takes one. Within the budget no push waits for others that do not come:
//!
//! * **Idle**: nothing is in flight, so a push is written at once. Clients that wait for their answers before
//!   they push again come back together: those who shared a segment, or came while it was being written,
//!   are waited for: [`Pace::PATIENCE`] while the budget is full, longer the more of it is spent, since each
//!   segment that they share saves a request.
//! * **In flight**: pushes gather until the segment before them is durable.
//! * **Busy**: when pushes come while a segment is in flight, or follow each other closely while the budget
//!   falls, their senders may not wait for each other, and then a longer wait gathers more of them: the
//!   budget is kept for those whom a wait would slow down. It is tried: a segment gathers until no push came
//!   for a while. When pushes came late in that time, each segment gathers for a whole window, until all
//!   pushes came at its beginning twice in a row: then their senders wait for us, and waiting for them is in
//!   vain. The next trial is not before a pause, which doubles each time.
//! * **Spent**: the next request of the budget is waited for.
//!
//! No push waits for company longer than the linger, whatever the budget says: the store gets at most the
//! budget's rate, or one segment per linger where that is more, and what full segments take.
//!
//! No clock and no I/O: times come in, a moment comes out.

use std::time::Duration;

use sandur_base::{Backoff, Pauses};

/// The budget and the bounds of a wait.
#[derive(Clone, Copy, Debug)]
pub(super) struct PaceOptions {
    /// Requests per second that the budget gains.
    pub(super) per_second: f64,
    /// Requests that the budget holds at most.
    pub(super) burst: f64,
    /// Longest wait for company.
    pub(super) linger: Duration,
}

/// Decides when the gathered pushes are on their way.
pub(super) struct Pace {
    options: PaceOptions,
    /// Time of a segment that gathers for as long as the budget asks for in the long run.
    window: Duration,
    tokens: f64,
    filled_at: Duration,
    /// Pushes gathered now, when the first of them came, and the last.
    pushes: usize,
    since: Duration,
    latest: Duration,
    /// Pushes that are expected to come together.
    company: usize,
    /// When the last segment was cut.
    cut_at: Option<Duration>,
    /// When the WAL last had something to do.
    worked_at: Duration,
    busy: Option<Busy>,
    trial: Trial,
}

/// Gathering for a whole window.
#[derive(Clone, Copy, Default)]
struct Busy {
    /// Windows in a row without a late push.
    in_vain: u32,
    /// Whether there was a window with one; until then it is a trial.
    is_proven: bool,
}

/// When gathering for a window may be tried.
struct Trial {
    not_before: Duration,
    pauses: Pauses,
}

impl Trial {
    const BACKOFF: Backoff = Backoff::new(Duration::from_secs(2), Duration::from_secs(60));
    const DUE: Self = Self { not_before: Duration::ZERO, pauses: Self::BACKOFF.pauses() };
}

impl Pace {
    /// How long those who shared the segment before are waited for at least when nothing is in flight.
    pub(super) const PATIENCE: Duration = Duration::from_millis(15);
    /// Share of the budget below which segments that follow each other closely count as busy.
    const KEPT_SHARE: f64 = 0.95;
    /// A trial ends when no push came for this share of its window: it delays pushes in vain.
    const QUIET_SHARE: f64 = 0.4;
    /// Windows in vain after which gathering is given up.
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

    /// Some pushes were gathered.
    pub(super) fn gathered(&mut self, now: Duration, pushes: usize) {
        if self.pushes == 0 {
            self.since = now;
            // A pause ends what was learned about the load before it.
            if now.saturating_sub(self.worked_at) > self.options.linger {
                (self.busy, self.company, self.trial) = (None, 1, Trial::DUE);
            }
            self.refill(now);
            let follows = self.cut_at.is_some_and(|cut| now.saturating_sub(cut) < self.window);
            // Who pushes right after an answer waits for us.
            let on_its_own = now.saturating_sub(self.worked_at) > Self::PATIENCE;
            if follows && on_its_own && self.saved() < Self::KEPT_SHARE {
                self.try_gathering(now);
            }
        }
        (self.pushes, self.latest) = (self.pushes + pushes, now);
    }

    /// When the gathered pushes must be on their way, if nothing happens before.
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

    /// The gathered pushes are on their way; `full` when they are because they fill a segment.
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

    /// The gathered pushes are refused.
    pub(super) fn given_up(&mut self) {
        self.pushes = 0;
    }

    /// Nothing is in flight any more.
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

    /// How long company is waited for.
    fn patience(&self) -> Duration {
        let more = self.window.saturating_sub(Self::PATIENCE);
        Self::PATIENCE + more.mul_f64((1.0 - self.saved()).clamp(0.0, 1.0))
    }

    /// The share of the budget that is not spent.
    fn saved(&self) -> f64 {
        if self.options.burst > 0.0 { self.tokens / self.options.burst } else { 0.0 }
    }

    /// When the budget has a request, as far as can be told now.
    fn token_at(&mut self, now: Duration) -> Duration {
        self.refill(now);
        if self.tokens >= 1.0 {
            return now;
        }
        let missing = (1.0 - self.tokens) / self.options.per_second;
        // No rate at all: then the linger bounds the wait.
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

//! Why a WAL refuses pushes: for pushes that arrive and for pushes that wait.
//!
//! **Stalled.** Frames are acknowledged in order, so nothing is acknowledged until the first frame that
//! is being written is durable. When that takes longer than a working store needs, pushes are refused at
//! once, because clients would only wait until their timeout. The frames that are being written serve as
//! probes: the writer keeps trying, and the first frame that becomes durable ends the refusals.
//!
//! **Paused.** The device reported that it accepts no writes now. Pushes are refused until a trial,
//! which succeeds when a frame becomes durable or when a new file can be created.
//!
//! This module has no task and no timer: callers pass times in, and the state is computed when it is read.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use sandur_base::units::KIB;

use crate::error::Error;

/// The shortest deadline of a frame, however small it is.
const PATIENCE_MIN: Duration = Duration::from_secs(9);
/// The slowest acceptable transfer, the same as in the store's client: 2 s for each MiB of a frame.
const BYTES_PER_SECOND_MIN: u64 = 512 * KIB;
/// How long a heartbeat may take: longer than a request that hangs (3 s) and its retry. With the 10 s
/// between two heartbeats, a store that accepts no writes is detected within 15 s.
const HEARTBEAT_PATIENCE: Duration = Duration::from_secs(4);

/// The state of one WAL.
#[derive(Default)]
pub(crate) struct Status(Mutex<State>);

#[derive(Default)]
struct State {
    /// Set once and never cleared: poisoned or fenced.
    ended: Option<Error>,
    /// The device accepts no writes. The first push at or after this monotonic time is a trial.
    paused: Option<(Error, Duration)>,
    /// Frames that are being written, by sequence number.
    frames: BTreeMap<u64, Frame>,
    /// When a frame last became durable.
    durable_at: Option<Duration>,
    /// The latest failure to write the current frame.
    trouble: Option<String>,
}

/// A frame that is being written.
#[derive(Clone, Copy)]
struct Frame {
    began: Duration,
    /// The monotonic time by which it should be durable.
    due: Duration,
}

/// A time in which nothing is acknowledged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stall {
    /// When it began, by the monotonic clock.
    pub(crate) since: Duration,
    /// Whether frames are being written. Their success will show that the stall is over.
    pub(crate) is_probed: bool,
}

impl Status {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes that a frame of this size is being written, and how long a small frame may take.
    pub(crate) fn begun(&self, (sequence, bytes): (u64, u64), now: Duration, patience: Duration) {
        let transfer = Duration::from_millis(bytes.saturating_mul(1_000) / BYTES_PER_SECOND_MIN);
        let due = now.saturating_add(patience.max(PATIENCE_MIN)).saturating_add(transfer);
        self.state().frames.insert(sequence, Frame { began: now, due });
    }

    /// Notes that a frame is durable, so the device accepts writes.
    pub(crate) fn durable(&self, sequence: u64, now: Duration) {
        let mut state = self.state();
        state.frames.remove(&sequence);
        (state.durable_at, state.trouble, state.paused) = (Some(now), None, None);
    }

    /// Notes that the writer gave a frame up.
    pub(crate) fn given_up(&self, sequence: u64) {
        self.state().frames.remove(&sequence);
    }

    /// Notes that a trial without rows succeeded: the device accepts writes again.
    pub(crate) fn resume(&self) {
        self.state().paused = None;
    }

    /// Fails when pushes that wait for the WAL must be refused at the monotonic time `now`.
    pub(crate) fn check(&self, now: Duration) -> Result<(), Error> {
        self.admits(now, None)
    }

    /// Fails when a push at the monotonic time `now` must be refused at once. `unwritten_since` is the
    /// time since which heartbeats fail.
    pub(crate) fn admits(&self, now: Duration, unwritten_since: Option<Duration>) -> Result<(), Error> {
        let state = self.state();
        state.check_ended()?;
        match &state.paused {
            Some((error, until)) if now < *until => return Err(error.clone()),
            _ => {}
        }
        // While no frame is being written, this push is the probe.
        match state.stall(now, unwritten_since).filter(|stall| stall.is_probed) {
            Some(stall) => Err(state.stalled(stall, now, false)),
            None => Ok(()),
        }
    }

    /// Fails while nothing can be acknowledged, as far as is known at the monotonic time `now`.
    pub(crate) fn acknowledges(&self, now: Duration, unwritten_since: Option<Duration>) -> Result<(), Error> {
        let state = self.state();
        state.check_ended()?;
        if let Some((error, _)) = &state.paused {
            return Err(error.clone());
        }
        match state.stall(now, unwritten_since) {
            Some(stall) => Err(state.stalled(stall, now, false)),
            None => Ok(()),
        }
    }

    /// Fails when a push that is under way should wait no longer.
    pub(crate) fn check_waiting(&self, now: Duration) -> Result<(), Error> {
        let state = self.state();
        match state.stall(now, None) {
            Some(stall) => Err(state.stalled(stall, now, true)),
            None => Ok(()),
        }
    }

    /// Returns the earliest time at which [`Self::check_waiting`] may fail, whatever frames begin from
    /// now on.
    pub(crate) fn next_look(&self, now: Duration) -> Duration {
        let next = now.saturating_add(PATIENCE_MIN);
        self.state().frames.values().next().map_or(next, |first| first.due.min(next))
    }

    /// Notes that a trial without rows failed. The next one is at the monotonic time `until`.
    pub(crate) fn put_off_trial(&self, until: Duration) {
        if let Some((_, due)) = &mut self.state().paused {
            *due = until;
        }
    }

    /// Returns when the device must be tried without a push, if it accepts no writes.
    pub(crate) fn trial_due(&self) -> Option<Duration> {
        self.state().paused.as_ref().map(|(_, until)| *until)
    }

    /// Refuses all pushes from now on.
    pub(crate) fn end(&self, error: Error) {
        self.state().ended.get_or_insert(error);
    }

    /// Returns why nothing is acknowledged any more; [`Error::ShuttingDown`] if there is no failure.
    pub(crate) fn end_reason(&self) -> Error {
        let state = self.state();
        let paused = state.paused.as_ref().map(|(error, _)| error.clone());
        state.ended.clone().or(paused).unwrap_or(Error::ShuttingDown)
    }

    /// Refuses pushes until a trial succeeds. The first trial is at the monotonic time `until`.
    pub(crate) fn pause(&self, error: Error, until: Duration) {
        self.state().paused = Some((error, until));
    }

    /// Notes a failed attempt, for the error messages of waiting pushes.
    pub(crate) fn set_trouble(&self, trouble: Option<String>) {
        self.state().trouble = trouble;
    }

    /// Returns the latest failed attempt.
    pub(crate) fn trouble(&self) -> Option<String> {
        self.state().trouble.clone()
    }
}

impl State {
    fn check_ended(&self) -> Result<(), Error> {
        self.ended.clone().map_or(Ok(()), Err)
    }

    fn stall(&self, now: Duration, unwritten_since: Option<Duration>) -> Option<Stall> {
        let first = self.frames.values().next();
        if let Some(Frame { began, due }) = first.copied()
            && due <= now
        {
            return Some(Stall { since: began, is_probed: true });
        }
        let since = unwritten_since.filter(|since| since.saturating_add(HEARTBEAT_PATIENCE) <= now)?;
        // A frame that became durable since then is better evidence about the WAL than a heartbeat.
        let is_refuted = self.durable_at.is_some_and(|at| at >= since);
        (!is_refuted).then_some(Stall { since, is_probed: first.is_some() })
    }

    fn stalled(&self, stall: Stall, now: Duration, is_under_way: bool) -> Error {
        let waited = now.saturating_sub(stall.since);
        let reason = self.trouble.clone().unwrap_or_default();
        Error::Stalled { waited, reason, is_under_way }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NEVER: Option<Duration> = None;

    fn at(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    fn full() -> Error {
        Error::NoSpace { reason: "full".into() }
    }

    #[test]
    fn a_pause_lets_trials_through_and_ends_when_one_succeeds() {
        let status = Status::default();
        status.pause(full(), at(5));
        assert!(matches!(status.check(at(4)), Err(Error::NoSpace { .. })));
        assert!(status.check(at(5)).is_ok(), "a trial");
        assert!(
            matches!(status.acknowledges(at(5), NEVER), Err(Error::NoSpace { .. })),
            "until a trial succeeds"
        );
        assert_eq!(status.trial_due(), Some(at(5)));
        status.begun((0, 1), at(5), PATIENCE_MIN);
        status.durable(0, at(6));
        assert!(status.acknowledges(at(6), NEVER).is_ok());
        status.pause(full(), at(8));
        status.resume();
        assert!(status.check(at(7)).is_ok(), "a trial without rows");
    }

    #[test]
    fn an_end_is_permanent() {
        let status = Status::default();
        status.end(Error::Poisoned { reason: "first".into() });
        status.end(Error::ShuttingDown);
        assert!(matches!(status.check(Duration::MAX), Err(Error::Poisoned { .. })));
        assert!(matches!(status.end_reason(), Error::Poisoned { .. }));
    }

    #[test]
    fn an_overdue_frame_refuses_pushes_until_it_is_durable() {
        let status = Status::default();
        status.begun((7, 1_000), at(100), PATIENCE_MIN);
        status.begun((8, 1_000), at(101), PATIENCE_MIN);
        assert!(status.check(at(108)).is_ok());
        assert!(status.next_look(at(101)) > at(108) && status.next_look(at(101)) < at(110));
        let Err(Error::Stalled { waited, is_under_way: false, .. }) = status.check(at(110)) else {
            panic!("it is overdue");
        };
        assert_eq!(waited, at(10));
        assert!(matches!(status.check_waiting(at(110)), Err(Error::Stalled { is_under_way: true, .. })));
        status.durable(7, at(111));
        assert!(status.check(at(110)).is_ok(), "the other one is not due");
        assert!(status.check(at(112)).is_err());
        status.given_up(8);
        assert!(status.acknowledges(Duration::MAX, NEVER).is_ok());
        assert_eq!(status.next_look(Duration::MAX), Duration::MAX);
    }

    #[test]
    fn a_large_frame_may_take_as_long_as_its_transfer() {
        let status = Status::default();
        status.begun((0, 8 << 20), at(0), PATIENCE_MIN);
        assert!(status.check(at(24)).is_ok());
        assert!(status.check(at(25)).is_err());
        status.begun((1, u64::MAX), Duration::MAX, PATIENCE_MIN);
    }

    #[test]
    fn failed_heartbeats_stop_an_idle_process_from_acknowledging() {
        let status = Status::default();
        let since = Some(at(10));
        assert!(status.acknowledges(at(13), since).is_ok());
        assert!(matches!(status.acknowledges(at(14), since), Err(Error::Stalled { .. })));
        assert!(status.admits(at(14), since).is_ok(), "a push is the probe");
        status.begun((0, 1), at(14), PATIENCE_MIN);
        assert!(status.admits(at(14), since).is_err(), "one probe is enough");
        status.durable(0, at(15));
        assert!(
            status.acknowledges(at(60), since).is_ok(),
            "a frame became durable since the heartbeats fail"
        );
    }
}

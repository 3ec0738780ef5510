//! What keeps a WAL from acknowledging, for pushes that come and for pushes that wait.
//!
//! **Stalled.** Acknowledgements come in the order of frames, so nothing is acknowledged while the first
//! frame of those that are being written is not durable. When that takes longer than a store that works
//! needs, pushes are refused at once: waiting would only use up the patience of their clients. The frames
//! that are being written are the probe: the writer goes on trying, and the first frame that becomes durable
//! ends the refusals.
//!
//! **Paused.** The device said that it takes no writes now. Pushes are refused until a trial, which succeeds
//! when a frame becomes durable or when a new file can be made.
//!
//! No task and no timer: times come in, and what follows from them is computed when it is asked for.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use sandur_base::units::KIB;

use crate::error::Error;

/// How long a small frame may take at least.
const PATIENCE_MIN: Duration = Duration::from_secs(9);
/// The slowest transfer that is waited for, as by the client of the store: 2 s for each MiB of a frame.
const BYTES_PER_SECOND_MIN: u64 = 512 * KIB;
/// How long a heartbeat may take: longer than a request that hangs (3 s) and its repetition. With the time
/// between two heartbeats (10 s) it is known within 15 s that the store takes no writes.
const HEARTBEAT_PATIENCE: Duration = Duration::from_secs(4);

/// The state of one WAL.
#[derive(Default)]
pub(crate) struct Status(Mutex<State>);

#[derive(Default)]
struct State {
    /// Set once and for all: poisoned or fenced.
    ended: Option<Error>,
    /// The device takes no writes; a push at or after the monotonic time is a trial.
    paused: Option<(Error, Duration)>,
    /// Frames that are being written, by their sequence numbers.
    frames: BTreeMap<u64, Frame>,
    /// When a frame last became durable.
    durable_at: Option<Duration>,
    /// The latest failure of the frame that is being written.
    trouble: Option<String>,
}

/// A frame that is being written.
#[derive(Clone, Copy)]
struct Frame {
    began: Duration,
    /// When it should be durable at the latest.
    due: Duration,
}

/// Nothing is acknowledged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stall {
    /// Since when, by the monotonic clock.
    pub(crate) since: Duration,
    /// Whether frames are being written, which will show when it is over.
    pub(crate) is_probed: bool,
}

impl Status {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes that a frame of this size is being written, and how long a small one may take.
    pub(crate) fn begun(&self, (sequence, bytes): (u64, u64), now: Duration, patience: Duration) {
        let transfer = Duration::from_millis(bytes.saturating_mul(1_000) / BYTES_PER_SECOND_MIN);
        let due = now.saturating_add(patience.max(PATIENCE_MIN)).saturating_add(transfer);
        self.state().frames.insert(sequence, Frame { began: now, due });
    }

    /// Notes that a frame is durable: the device takes writes.
    pub(crate) fn durable(&self, sequence: u64, now: Duration) {
        let mut state = self.state();
        state.frames.remove(&sequence);
        (state.durable_at, state.trouble, state.paused) = (Some(now), None, None);
    }

    /// Notes that a frame is given up.
    pub(crate) fn given_up(&self, sequence: u64) {
        self.state().frames.remove(&sequence);
    }

    /// Notes that a trial without rows succeeded: the device takes writes again.
    pub(crate) fn resume(&self) {
        self.state().paused = None;
    }

    /// Fails when what waits for the WAL at the monotonic time `now` is to be refused.
    pub(crate) fn check(&self, now: Duration) -> Result<(), Error> {
        self.admits(now, None)
    }

    /// Fails when a push at the monotonic time `now` is to be refused at once. `unwritten_since` is since
    /// when heartbeats could not be written.
    pub(crate) fn admits(&self, now: Duration, unwritten_since: Option<Duration>) -> Result<(), Error> {
        let state = self.state();
        state.check_ended()?;
        match &state.paused {
            Some((error, until)) if now < *until => return Err(error.clone()),
            _ => {}
        }
        // Without a frame that is being written the push is the probe.
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

    /// Fails when a push that is on its way is not waited for any longer.
    pub(crate) fn check_waiting(&self, now: Duration) -> Result<(), Error> {
        let state = self.state();
        match state.stall(now, None) {
            Some(stall) => Err(state.stalled(stall, now, true)),
            None => Ok(()),
        }
    }

    /// When [`Self::check_waiting`] may fail at the earliest, whatever frames are begun from now on.
    pub(crate) fn next_look(&self, now: Duration) -> Duration {
        let next = now.saturating_add(PATIENCE_MIN);
        self.state().frames.values().next().map_or(next, |first| first.due.min(next))
    }

    /// A trial without rows failed; the next one is at the monotonic time `until`.
    pub(crate) fn put_off_trial(&self, until: Duration) {
        if let Some((_, due)) = &mut self.state().paused {
            *due = until;
        }
    }

    /// When a trial is due that no push makes, if the device takes no writes.
    pub(crate) fn trial_due(&self) -> Option<Duration> {
        self.state().paused.as_ref().map(|(_, until)| *until)
    }

    /// Refuses all pushes from now on.
    pub(crate) fn end(&self, error: Error) {
        self.state().ended.get_or_insert(error);
    }

    /// Why nothing is acknowledged any more; [`Error::ShuttingDown`] when nothing is wrong.
    pub(crate) fn end_reason(&self) -> Error {
        let state = self.state();
        let paused = state.paused.as_ref().map(|(error, _)| error.clone());
        state.ended.clone().or(paused).unwrap_or(Error::ShuttingDown)
    }

    /// Refuses pushes until a trial succeeds, the first of which is at the monotonic time `until`.
    pub(crate) fn pause(&self, error: Error, until: Duration) {
        self.state().paused = Some((error, until));
    }

    /// Notes a failed attempt, for the messages of pushes that wait in vain.
    pub(crate) fn set_trouble(&self, trouble: Option<String>) {
        self.state().trouble = trouble;
    }

    /// The latest trouble.
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
        // A frame that became durable since then says more about the WAL than a heartbeat does.
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
    fn a_pause_lets_trials_through_and_is_over_when_one_succeeds() {
        let status = Status::default();
        status.pause(full(), at(5));
        assert!(matches!(status.check(at(4)), Err(Error::NoSpace { .. })));
        assert!(status.check(at(5)).is_ok(), "a trial");
        assert!(matches!(status.acknowledges(at(5), NEVER), Err(Error::NoSpace { .. })), "until it succeeds");
        assert_eq!(status.trial_due(), Some(at(5)));
        status.begun((0, 1), at(5), PATIENCE_MIN);
        status.durable(0, at(6));
        assert!(status.acknowledges(at(6), NEVER).is_ok());
        status.pause(full(), at(8));
        status.resume();
        assert!(status.check(at(7)).is_ok(), "a trial without rows");
    }

    #[test]
    fn an_end_is_for_good() {
        let status = Status::default();
        status.end(Error::Poisoned { reason: "first".into() });
        status.end(Error::ShuttingDown);
        assert!(matches!(status.check(Duration::MAX), Err(Error::Poisoned { .. })));
        assert!(matches!(status.end_reason(), Error::Poisoned { .. }));
    }

    #[test]
    fn a_frame_that_is_not_durable_in_time_refuses_pushes_until_it_is() {
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
    fn a_large_frame_has_the_time_that_its_transfer_takes() {
        let status = Status::default();
        status.begun((0, 8 << 20), at(0), PATIENCE_MIN);
        assert!(status.check(at(24)).is_ok());
        assert!(status.check(at(25)).is_err());
        status.begun((1, u64::MAX), Duration::MAX, PATIENCE_MIN);
    }

    #[test]
    fn heartbeats_show_an_idle_process_that_the_store_takes_no_writes() {
        let status = Status::default();
        let since = Some(at(10));
        assert!(status.acknowledges(at(13), since).is_ok());
        assert!(matches!(status.acknowledges(at(14), since), Err(Error::Stalled { .. })));
        assert!(status.admits(at(14), since).is_ok(), "a push is the probe");
        status.begun((0, 1), at(14), PATIENCE_MIN);
        assert!(status.admits(at(14), since).is_err(), "one is enough");
        status.durable(0, at(15));
        assert!(status.acknowledges(at(60), since).is_ok(), "the WAL can be written all the same");
    }
}

//! What keeps a WAL from acknowledging, for pushes that come and for pushes that wait.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::error::Error;

/// The state of one WAL.
#[derive(Default)]
pub(crate) struct Status(Mutex<State>);

#[derive(Default)]
struct State {
    /// Set once and for all: poisoned or fenced.
    ended: Option<Error>,
    /// Pushes are refused with this until the monotonic time.
    paused: Option<(Error, Duration)>,
    /// The latest failure of the frame that is being written.
    trouble: Option<String>,
}

impl Status {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Fails when a push at the monotonic time `now` is to be refused at once.
    pub(crate) fn check(&self, now: Duration) -> Result<(), Error> {
        let mut state = self.state();
        if let Some(error) = &state.ended {
            return Err(error.clone());
        }
        match &state.paused {
            Some((error, until)) if now < *until => Err(error.clone()),
            Some(_) => {
                state.paused = None;
                Ok(())
            }
            None => Ok(()),
        }
    }

    /// Fails when pushes are refused at the monotonic time `now`.
    pub(crate) fn check_without_trial(&self, now: Duration) -> Result<(), Error> {
        let state = self.state();
        match (&state.ended, &state.paused) {
            (Some(error), _) => Err(error.clone()),
            (None, Some((error, until))) if now < *until => Err(error.clone()),
            _ => Ok(()),
        }
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

    /// Refuses pushes until the monotonic time `until`; the next one is a trial.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pause_ends_by_itself_and_an_end_does_not() {
        let status = Status::default();
        let full = Error::NoSpace { reason: "full".into() };
        status.pause(full, Duration::from_secs(5));
        assert!(matches!(status.check(Duration::from_secs(4)), Err(Error::NoSpace { .. })));
        assert!(status.check(Duration::from_secs(5)).is_ok());
        assert!(status.check(Duration::from_secs(4)).is_ok(), "the trial ends the pause");
        status.end(Error::Poisoned { reason: "first".into() });
        status.end(Error::ShuttingDown);
        assert!(matches!(status.check(Duration::MAX), Err(Error::Poisoned { .. })));
        assert!(matches!(status.end_reason(), Error::Poisoned { .. }));
    }
}

//! Decides when a worker logs that its target cannot be reached, and that it can be reached again.
//!
//! **Invariant.** An outage has one line at its start and one at its end. Outages that begin within
//! [`LOG_EVERY`] after another one have lines only if they last until that time is over.

use std::time::Duration;

/// The smallest time between the starts of two outages that are logged.
const LOG_EVERY: Duration = Duration::from_secs(60);

/// The state of one connection. Times are monotonic.
#[derive(Debug, Default)]
pub(crate) struct Outage {
    /// When the current outage began.
    since: Option<Duration>,
    is_logged: bool,
    next_log: Duration,
}

impl Outage {
    /// Notes that the connection is lost or could not be made. Returns whether this is to be logged.
    pub(crate) fn failed(&mut self, now: Duration) -> bool {
        self.since.get_or_insert(now);
        if self.is_logged || now < self.next_log {
            return false;
        }
        self.is_logged = true;
        self.next_log = now.saturating_add(LOG_EVERY);
        true
    }

    /// Notes that the target is connected. Returns the length of the outage if its start was logged.
    pub(crate) fn recovered(&mut self, now: Duration) -> Option<Duration> {
        let since = self.since.take();
        let was_logged = std::mem::take(&mut self.is_logged);
        since.filter(|_| was_logged).map(|since| now.saturating_sub(since))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn an_outage_is_logged_once_and_so_is_its_end() {
        let mut outage = Outage::default();
        assert_eq!(outage.recovered(at(0)), None, "the first connection is no recovery");
        let failed: Vec<bool> = (1..200).map(|now| outage.failed(at(now))).collect();
        assert_eq!(failed.iter().filter(|is_logged| **is_logged).count(), 1);
        assert!(failed[0], "at its start");
        assert_eq!(outage.recovered(at(201)), Some(at(200)));
        assert_eq!(outage.recovered(at(202)), None);
        assert!(outage.failed(at(203)), "another outage");
    }

    #[test]
    fn a_connection_that_breaks_every_second_is_logged_once_in_a_minute() {
        let mut outage = Outage::default();
        let lines = (0..300).filter(|now| {
            let is_logged = outage.failed(at(*now));
            outage.recovered(at(*now));
            is_logged
        });
        assert_eq!(lines.count(), 5);
        assert!(outage.failed(at(300)) && outage.recovered(at(301)).is_some());
        assert!(!outage.failed(at(302)), "too soon after the last one");
        assert!(outage.failed(at(360)), "but it lasts");
        assert_eq!(outage.recovered(at(361)), Some(at(59)));
    }
}

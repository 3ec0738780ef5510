//! Refuses datagrams that were recorded and are sent again.
//!
//! A datagram counts for [`WINDOW`] before and after its time of sending. Nonces of authentic datagrams
//! are remembered for at least as long as the datagram counts: in two sets, of which the older is
//! dropped every two windows of monotonic time.
//!
//! The wall clock of this machine may be set back. So a datagram must also be newer than the newest
//! accepted time of sending, advanced by the monotonic clock, less two windows.

use std::collections::HashSet;
use std::time::Duration;

use crate::datagram::{Header, Refused};

/// How far the clocks of two nodes may be apart, plus the time that a datagram is on its way.
pub const WINDOW: Duration = Duration::from_secs(30);
/// Nonces of one set, at most: 270 a second, many times what gossip with 1,024 nodes receives. 0.5 MiB.
const NONCES_MAX: usize = 16_384;

const WINDOW_MS: i64 = WINDOW.as_millis() as i64;

/// The memory of received datagrams.
#[derive(Default)]
pub(crate) struct Replays {
    recent: HashSet<[u8; 12]>,
    older: HashSet<[u8; 12]>,
    turned: Duration,
    /// The newest accepted time of sending, and when it was accepted by the monotonic clock.
    newest: Option<(i64, Duration)>,
}

impl Replays {
    /// Checks the time of sending, before the datagram is opened.
    pub(crate) fn check_time(&self, header: &Header, wall_ms: i64, now: Duration) -> Result<(), Refused> {
        if header.sent_ms.abs_diff(wall_ms) > WINDOW_MS as u64 {
            return Err(Refused::Clock);
        }
        let oldest = self.newest.map(|(sent_ms, at)| {
            let since_ms = i64::try_from(now.saturating_sub(at).as_millis()).unwrap_or(i64::MAX);
            sent_ms.saturating_add(since_ms).saturating_sub(2 * WINDOW_MS)
        });
        if oldest.is_some_and(|oldest| header.sent_ms < oldest) { Err(Refused::Clock) } else { Ok(()) }
    }

    /// Remembers an authentic datagram. Fails if it was received before.
    pub(crate) fn admit(&mut self, header: &Header, now: Duration) -> Result<(), Refused> {
        if now.saturating_sub(self.turned) >= 2 * WINDOW {
            self.older = std::mem::take(&mut self.recent);
            self.turned = now;
        }
        if self.recent.contains(&header.nonce) || self.older.contains(&header.nonce) {
            return Err(Refused::Replay);
        }
        if self.recent.len() >= NONCES_MAX {
            return Err(Refused::ReplayFull);
        }
        self.recent.insert(header.nonce);
        if self.newest.is_none_or(|(sent_ms, _)| header.sent_ms > sent_ms) {
            self.newest = Some((header.sent_ms, now));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use sandur_base::Id;

    use super::*;

    const START_MS: i64 = 1_790_000_000_000;

    fn header(number: u64, sent_ms: i64) -> Header {
        let mut nonce = [0; 12];
        nonce[..8].copy_from_slice(&number.to_le_bytes());
        Header { sender: Id(1), sent_ms, nonce }
    }

    fn receive(replays: &mut Replays, header: &Header, wall_ms: i64, now: Duration) -> Result<(), Refused> {
        replays.check_time(header, wall_ms, now)?;
        replays.admit(header, now)
    }

    /// One datagram a second for five minutes; each is sent again in each later second.
    #[test]
    fn no_datagram_is_accepted_twice_however_late_it_is_sent_again() {
        let mut replays = Replays::default();
        for second in 0..300 {
            let now = Duration::from_secs(second);
            let wall_ms = START_MS + 1_000 * second as i64;
            assert_eq!(receive(&mut replays, &header(second, wall_ms + 29_000), wall_ms, now), Ok(()));
            for earlier in 0..=second {
                let again = header(earlier, START_MS + 1_000 * earlier as i64 + 29_000);
                assert!(receive(&mut replays, &again, wall_ms, now).is_err(), "{earlier} at {second}");
            }
        }
    }

    #[test]
    fn a_clock_that_is_set_back_does_not_revive_old_datagrams() {
        let mut replays = Replays::default();
        for second in 0..300_u64 {
            let wall_ms = START_MS + 1_000 * second as i64;
            receive(&mut replays, &header(second, wall_ms), wall_ms, Duration::from_secs(second)).unwrap();
        }
        let now = Duration::from_secs(600);
        for second in 0..300_u64 {
            let sent_ms = START_MS + 1_000 * second as i64;
            let again = header(second, sent_ms);
            assert_eq!(receive(&mut replays, &again, sent_ms, now), Err(Refused::Clock));
        }
    }

    #[test]
    fn clocks_more_than_a_window_apart_are_refused() {
        let mut replays = Replays::default();
        for (number, apart_ms) in [-30_001, -30_000, 30_000, 30_001].into_iter().enumerate() {
            let outcome =
                receive(&mut replays, &header(number as u64, START_MS + apart_ms), START_MS, Duration::ZERO);
            assert_eq!(outcome.is_ok(), apart_ms.abs() == 30_000, "{apart_ms}");
        }
    }

    #[test]
    fn a_sender_of_extreme_times_shuts_nobody_out() {
        let mut replays = Replays::default();
        let refused = receive(&mut replays, &header(1, i64::MAX), START_MS, Duration::ZERO);
        assert_eq!(refused, Err(Refused::Clock));
        assert_eq!(
            receive(&mut replays, &header(2, i64::MIN), START_MS, Duration::ZERO),
            Err(Refused::Clock)
        );
        receive(&mut replays, &header(3, START_MS + 30_000), START_MS, Duration::ZERO).unwrap();
        receive(&mut replays, &header(4, START_MS - 30_000), START_MS, Duration::ZERO).unwrap();
    }

    #[test]
    fn the_number_of_remembered_datagrams_is_bounded() {
        let mut replays = Replays::default();
        for number in 0..NONCES_MAX as u64 {
            replays.admit(&header(number, START_MS), Duration::ZERO).unwrap();
        }
        let more = header(u64::MAX, START_MS);
        assert_eq!(replays.admit(&more, Duration::ZERO), Err(Refused::ReplayFull));
        replays.admit(&more, 2 * WINDOW).unwrap();
        assert!(replays.recent.len() + replays.older.len() <= 2 * NONCES_MAX);
    }
}

//! Opens datagrams: everything between the socket and the protocol.
//!
//! **Bounds.** At most [`OPENED_PER_SECOND`] datagrams a second are opened, so that a flood costs this
//! process at most about 1 % of a processor. The checks that need no key come first.

use std::time::Duration;

use sandur_base::Id;

use crate::datagram::{Header, Opened, Refused};
use crate::key_ring::KeyRing;
use crate::replay::Replays;

/// Datagrams that are opened a second, at most; also the largest burst. 1,024 nodes send fewer than 100.
const OPENED_PER_SECOND: f64 = 1_000.0;

/// The state of receiving.
pub(crate) struct Inbox {
    replays: Replays,
    allowance: f64,
    refilled: Duration,
}

impl Inbox {
    pub(crate) fn new(now: Duration) -> Self {
        Self { replays: Replays::default(), allowance: OPENED_PER_SECOND, refilled: now }
    }

    /// Opens a datagram that `own` has received.
    pub(crate) fn open(
        &mut self,
        ring: &KeyRing,
        own: Id,
        (wall_ms, now): (i64, Duration),
        datagram: &[u8],
    ) -> Result<(Header, Opened), Refused> {
        let header = Header::parse(datagram)?;
        if header.sender == own {
            return Err(Refused::Own);
        }
        self.replays.check_time(&header, wall_ms, now)?;
        let refill = now.saturating_sub(self.refilled).as_secs_f64() * OPENED_PER_SECOND;
        (self.allowance, self.refilled) = ((self.allowance + refill).min(OPENED_PER_SECOND), now);
        if self.allowance < 1.0 {
            return Err(Refused::Rate);
        }
        self.allowance -= 1.0;
        let opened = Opened::new(ring, &header, datagram)?;
        self.replays.admit(&header, now)?;
        Ok((header, opened))
    }
}

/// Parses a datagram as if it arrived at a node with this secret, for fuzzing.
pub fn open_once(secret: &[u8], wall_ms: i64, datagram: &[u8]) -> Result<Vec<u8>, Refused> {
    let ring = KeyRing::from_lines(secret, "fuzzing").map_err(|_| Refused::Key)?;
    let clocks = (wall_ms, Duration::ZERO);
    let opened = Inbox::new(Duration::ZERO).open(&ring, Id::default(), clocks, datagram)?;
    Ok(opened.1.payload().to_vec())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::datagram::Sealed;

    const WALL_MS: i64 = 1_790_000_000_000;

    fn sealed(ring: &KeyRing, sender: u128, number: u64) -> Sealed {
        let mut nonce = [0; 12];
        nonce[..8].copy_from_slice(&number.to_le_bytes());
        Sealed::new(ring, Header { sender: Id(sender), sent_ms: WALL_MS, nonce }, b"x")
    }

    #[test]
    fn a_flood_is_dropped_before_it_is_opened_and_does_not_last() {
        let ring = KeyRing::without_secret("c");
        let mut inbox = Inbox::new(Duration::ZERO);
        let mut garbage = sealed(&ring, 2, 0).as_bytes().to_vec();
        let last = garbage.len() - 1;
        garbage[last] ^= 1;
        let mut open = |now, datagram: &[u8]| inbox.open(&ring, Id(1), (WALL_MS, now), datagram).map(|_| ());
        let outcomes: Vec<_> = (0..3_000).map(|_| open(Duration::ZERO, &garbage)).collect();
        assert_eq!(outcomes.iter().filter(|outcome| **outcome == Err(Refused::Key)).count(), 1_000);
        assert_eq!(outcomes[2_999], Err(Refused::Rate));
        assert_eq!(open(Duration::from_millis(10), sealed(&ring, 2, 1).as_bytes()), Ok(()));
    }

    #[test]
    fn own_and_repeated_datagrams_are_refused_and_forged_ones_are_not_remembered() {
        let ring = KeyRing::without_secret("c");
        let mut inbox = Inbox::new(Duration::ZERO);
        let mut open =
            |datagram: &[u8]| inbox.open(&ring, Id(1), (WALL_MS, Duration::ZERO), datagram).map(|_| ()).err();
        assert_eq!(open(sealed(&ring, 1, 1).as_bytes()), Some(Refused::Own));
        let mut forged = sealed(&ring, 2, 2).as_bytes().to_vec();
        let last = forged.len() - 1;
        forged[last] ^= 1;
        assert_eq!(open(&forged), Some(Refused::Key));
        assert_eq!(open(sealed(&ring, 2, 2).as_bytes()), None);
        assert_eq!(open(sealed(&ring, 2, 2).as_bytes()), Some(Refused::Replay));
    }
}

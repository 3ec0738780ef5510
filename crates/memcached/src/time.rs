//! Time as the protocol counts it: whole seconds.
//!
//! Invariants: an expiry of 0 never comes; every other expiry is a second of the epoch, and an item
//! is gone from that second on. Expiries that lie in the past, negative ones included, are stored
//! as second 1 and never as 0.

pub(super) use sandur_cache::unix_seconds as now;

/// Seconds up to which an expiry counts from now; larger ones are seconds of the epoch (30 days).
const RELATIVE_MAX: i64 = 60 * 60 * 24 * 30;

/// The second at which an item with the expiry argument `expiry` ends.
pub(super) fn expires_at(expiry: i64, now: u32) -> u32 {
    match expiry {
        0 => 0,
        ..0 => 1,
        1..=RELATIVE_MAX => u32::try_from(i64::from(now) + expiry).unwrap_or(u32::MAX),
        _ => u32::try_from(expiry).unwrap_or(u32::MAX),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expiries_are_relative_up_to_thirty_days() {
        let now = 1_700_000_000;
        assert_eq!(expires_at(0, now), 0);
        assert_eq!(expires_at(-1, now), 1);
        assert_eq!(expires_at(i64::MIN, now), 1);
        assert_eq!(expires_at(60, now), now + 60);
        assert_eq!(expires_at(2_592_000, now), now + 2_592_000);
        assert_eq!(expires_at(2_592_001, now), 2_592_001);
        assert_eq!(expires_at(i64::MAX, now), u32::MAX);
    }
}

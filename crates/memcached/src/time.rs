//! Time in the protocol: whole seconds.
//!
//! Invariants: an expiry of 0 means never. Every other expiry is a second since the epoch, from which on
//! the item is expired. Expiries in the past, including negative ones, are stored as second 1 and never
//! as 0.

pub(super) use sandur_cache::unix_seconds as now;

/// Expiries up to this many seconds (30 days) are relative to now; larger ones are seconds since the
/// epoch.
const RELATIVE_MAX: i64 = 60 * 60 * 24 * 30;

/// Returns the second since the epoch at which an item with the expiry argument `expiry` expires; 0 is
/// never.
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

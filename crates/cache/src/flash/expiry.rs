//! Expiry in twelve bits: precise enough to refuse an expired record without reading it.
//!
//! Invariant: a time is rounded up, so that nothing is refused early; the record's own field decides
//! exactly. Steps of 32 seconds reach 9 hours ahead, steps of 2048 seconds reach 24 days. Later times
//! read as "unknown", like records without expiry.

/// The finer step in seconds.
const FINE: u32 = 32;
/// The coarser step in seconds.
const COARSE: u32 = 2048;
/// Steps are counted modulo 2^11; half of them are ahead of now.
const AHEAD: u32 = 1 << 10;

/// A rounded time of expiry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Coarse(u16);

impl Coarse {
    /// Never, or too late to represent.
    pub const UNKNOWN: Coarse = Coarse(0);

    /// The expiry `expires_at` (seconds since 1970, 0 for never) as seen at `now`.
    pub fn new(expires_at: u32, now: u32) -> Self {
        if expires_at == 0 {
            return Self::UNKNOWN;
        }
        for (scale, step) in [(0, FINE), (1, COARSE)] {
            let stamp = expires_at.div_ceil(step);
            if stamp.saturating_sub(now / step) < AHEAD {
                let bits = (stamp % (2 * AHEAD)) as u16 | scale << 11;
                // The stamp that would read as "unknown" becomes one step later.
                return Self(if bits == 0 { 1 } else { bits });
            }
        }
        Self::UNKNOWN
    }

    /// Whether it has certainly expired at `now`.
    pub fn is_past(self, now: u32) -> bool {
        if self == Self::UNKNOWN {
            return false;
        }
        let step = if self.0 >> 11 == 0 { FINE } else { COARSE };
        let passed = (now / step).wrapping_sub(u32::from(self.0)) % (2 * AHEAD);
        (1..AHEAD).contains(&passed)
    }

    /// The twelve bits.
    pub fn bits(self) -> u16 {
        self.0
    }

    /// Converts from twelve bits.
    pub fn from_bits(bits: u16) -> Self {
        Self(bits)
    }
}

/// Whether `expires_at` (0 for never) is not after `now`.
pub fn is_expired(expires_at: u32, now: u32) -> bool {
    expires_at != 0 && expires_at <= now
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn nothing_is_refused_early_and_short_lived_records_expire_in_time(
            now in 1_000_000_u32..3_000_000_000, life in 1_u32..5_000_000, later in 0_u32..5_000_000,
        ) {
            let coarse = Coarse::new(now + life, now);
            let then = now + later;
            if then < now + life {
                prop_assert!(!coarse.is_past(then));
            }
            if life < 30_000 && (life + 2 * FINE..30_000).contains(&later) {
                prop_assert!(coarse.is_past(then));
            }
            prop_assert!(coarse.bits() < 1 << 12);
        }
    }
}

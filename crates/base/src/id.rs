//! Sortable 128-bit identifiers (ULID: 48 bits of milliseconds, 80 random bits).
//!
//! Names of incarnations, blocks and commits. They are never reused, which is what makes
//! deleting and re-creating objects safe.

use std::fmt;
use std::str::FromStr;

/// A ULID. Text form: 26 characters of Crockford base 32, sorts like the value.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct Id(pub u128);

impl Id {
    /// The id with this time (milliseconds since the epoch) and these random bits (the low 80 are used).
    pub fn from_parts(timestamp_ms: u64, random: u128) -> Self {
        Self(ulid::Ulid::from_parts(timestamp_ms, random).0)
    }

    /// Milliseconds since the epoch at which the id was made, by its maker's clock.
    pub fn timestamp_ms(self) -> u64 {
        ulid::Ulid(self.0).timestamp_ms()
    }

    /// The sixteen bytes as they are stored: big endian, so that byte order is time order.
    pub fn to_bytes(self) -> [u8; 16] {
        self.0.to_be_bytes()
    }

    /// The id stored in these bytes.
    pub fn from_bytes(bytes: [u8; 16]) -> Self {
        Self(u128::from_be_bytes(bytes))
    }
}

impl fmt::Display for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&ulid::Ulid(self.0), f)
    }
}

impl fmt::Debug for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The text is not a ULID.
#[derive(Debug, thiserror::Error)]
#[error("'{0}' is not an id: expected 26 characters of Crockford base 32")]
pub struct ParseIdError(String);

impl FromStr for Id {
    type Err = ParseIdError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        ulid::Ulid::from_string(text).map(|u| Self(u.0)).map_err(|_| ParseIdError(text.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_and_bytes_round_trip_and_sort_by_time() {
        let early = Id::from_parts(1_000, 7);
        let late = Id::from_parts(1_001, 3);
        assert!(early < late && early.to_string() < late.to_string());
        assert_eq!(early.to_string().parse::<Id>().unwrap(), early);
        assert_eq!(Id::from_bytes(late.to_bytes()), late);
        assert_eq!(late.timestamp_ms(), 1_001);
        assert!("nope".parse::<Id>().is_err());
    }
}

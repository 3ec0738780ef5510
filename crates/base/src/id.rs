//! Sortable 128-bit identifiers (ULID: 48 bits of milliseconds, 80 random bits).
//!
//! They name incarnations, blocks and commits. They are never reused, which makes it safe to delete
//! objects and to retry creating them.

use std::fmt;
use std::str::FromStr;

/// A ULID. Text form: 26 characters of Crockford base 32, sorts like the value.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct Id(pub u128);

impl Id {
    /// The id with this time (milliseconds since the epoch) and the low 80 bits of `random`.
    pub fn from_parts(timestamp_ms: u64, random: u128) -> Self {
        Self(ulid::Ulid::from_parts(timestamp_ms, random).0)
    }

    /// The time of creation in milliseconds since the epoch, by the clock of the creator.
    pub fn timestamp_ms(self) -> u64 {
        ulid::Ulid(self.0).timestamp_ms()
    }

    /// The 16 bytes in which the id is stored: big endian, so that byte order is time order.
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

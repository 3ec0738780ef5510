//! Shards of the groups of rules: what a process owns when it evaluates rules.

use std::fmt;

/// The number of shards. A set of shards is one number in the catalog.
pub const RULE_SHARDS: u32 = u64::BITS;

/// The shards below this number hold stored rules, which all processes know; the others hold rules of files.
pub const STORED_RULE_SHARDS: u32 = RULE_SHARDS / 2;

/// A set of shards.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RuleShards(u64);

impl RuleShards {
    /// No shard.
    pub const NONE: Self = Self(0);
    /// All shards.
    pub const ALL: Self = Self(u64::MAX);

    /// The shards of stored rules.
    pub const STORED: Self = Self((1 << STORED_RULE_SHARDS) - 1);

    /// The set whose shards are the bits of a number.
    pub fn from_bits(bits: u64) -> Self {
        Self(bits)
    }

    /// The shards as the bits of a number.
    pub fn bits(self) -> u64 {
        self.0
    }

    /// The set with one shard; none if there is no such shard.
    pub fn one(shard: u32) -> Self {
        Self(1u64.checked_shl(shard).unwrap_or(0))
    }

    /// Whether the set has this shard.
    pub fn has(self, shard: u32) -> bool {
        !self.and(Self::one(shard)).is_empty()
    }

    /// Whether the set has no shard.
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// The number of shards.
    pub fn count(self) -> u32 {
        self.0.count_ones()
    }

    /// The shards that both sets have.
    pub fn and(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    /// The shards that one of the sets has.
    pub fn or(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// The shards that the other set does not have.
    pub fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    /// The shards, in order.
    pub fn iter(self) -> impl Iterator<Item = u32> {
        (0..RULE_SHARDS).filter(move |shard| self.has(*shard))
    }
}

impl fmt::Display for RuleShards {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of {RULE_SHARDS}", self.count())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_have_shards_up_to_the_last() {
        let some = RuleShards::one(0).or(RuleShards::one(63));
        assert_eq!(some.iter().collect::<Vec<_>>(), [0, 63]);
        assert!(some.has(63) && !some.has(1) && !some.has(64) && RuleShards::one(64).is_empty());
        assert_eq!(RuleShards::ALL.without(some).count(), 62);
        assert!(RuleShards::NONE.and(some).is_empty());
        assert_eq!(some.to_string(), "2 of 64");
    }
}

//! Why and for whom a request is made, and what that means for its timeouts and its retries.
//!
//! Timeouts are per attempt and grow with the bytes to move; the deadline bounds all attempts
//! together. Local directories have long timeouts: a slow disk does not get faster by asking again.

use std::sync::Arc;
use std::time::Duration;

use sandur_base::Backoff;
use sandur_base::units::{KIB, MIB};

/// What a request is for: decides its timeouts, and with the operation its lane ([`crate::Lane`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Class {
    /// WAL segments: a client waits for the acknowledgement.
    Wal,
    /// Blocks: flush, compaction and queries.
    Block,
    /// The catalog's numbered log, checkpoints and boundary. Never shared between callers.
    Catalog,
    /// Garbage collection: listings and deletes.
    Gc,
    /// Membership objects.
    Member,
    /// The start-up probe.
    Probe,
}

impl Class {
    /// All classes, in the order of their numbers.
    pub const ALL: [Class; 6] =
        [Class::Wal, Class::Block, Class::Catalog, Class::Gc, Class::Member, Class::Probe];

    pub(crate) fn index(self) -> usize {
        self as usize
    }

    /// The name in metrics.
    pub fn name(self) -> &'static str {
        match self {
            Self::Wal => "wal",
            Self::Block => "block",
            Self::Catalog => "catalog",
            Self::Gc => "gc",
            Self::Member => "member",
            Self::Probe => "probe",
        }
    }
}

/// Why a request is made, and for whom.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Intent {
    /// What the request is for.
    pub class: Class,
    /// Whose query it serves: its rates apply, and waiting requests of tenants take turns. No tenant's
    /// for work of the database itself.
    pub tenant: Option<Arc<str>>,
}

impl Intent {
    const fn of(class: Class) -> Self {
        Self { class, tenant: None }
    }

    /// For the write-ahead log.
    pub const fn wal() -> Self {
        Self::of(Class::Wal)
    }

    /// For blocks.
    pub const fn block() -> Self {
        Self::of(Class::Block)
    }

    /// For the catalog.
    pub const fn catalog() -> Self {
        Self::of(Class::Catalog)
    }

    /// For garbage collection.
    pub const fn gc() -> Self {
        Self::of(Class::Gc)
    }

    /// For membership.
    pub const fn member() -> Self {
        Self::of(Class::Member)
    }

    /// For the start-up probe.
    pub const fn probe() -> Self {
        Self::of(Class::Probe)
    }

    /// The same on behalf of a tenant.
    pub fn for_tenant(self, tenant: &str) -> Self {
        Self { tenant: Some(tenant.into()), ..self }
    }
}

/// Timeouts and retries of a class.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Policy {
    /// How long the first byte of an answer may take.
    pub first_byte: Duration,
    /// The slowest transfer that is still worth waiting for, in bytes per second.
    pub bytes_per_second_min: u64,
    /// No attempt begins later than this after the first one.
    pub deadline: Duration,
    /// Attempts in all.
    pub attempts_max: u32,
    /// The largest pauses between attempts.
    pub backoff: Backoff,
}

impl Policy {
    /// The policy of `class` on a store over a network.
    pub fn bucket(class: Class) -> Self {
        let (first_byte_s, deadline_s) = match class {
            Class::Wal => (8, 60),
            Class::Block => (10, 120),
            Class::Catalog => (6, 45),
            Class::Gc => (15, 120),
            Class::Member => (3, 10),
            Class::Probe => (5, 10),
        };
        // Pushes are refused until a segment of the WAL is written, so that is tried more often.
        let (attempts_max, longest_pause_s) = if class == Class::Wal { (60, 2) } else { (20, 5) };
        Self {
            first_byte: Duration::from_secs(first_byte_s),
            bytes_per_second_min: 512 * KIB,
            deadline: Duration::from_secs(deadline_s),
            attempts_max,
            backoff: Backoff::new(Duration::from_millis(50), Duration::from_secs(longest_pause_s)),
        }
    }

    /// The policy of `class` on a local directory.
    pub fn local(class: Class) -> Self {
        let bucket = Self::bucket(class);
        Self { first_byte: Duration::from_secs(120), bytes_per_second_min: MIB, attempts_max: 10, ..bucket }
    }

    /// How long one attempt that moves `bytes` may take.
    pub fn attempt_timeout(&self, bytes: u64) -> Duration {
        self.first_byte + self.transfer(bytes)
    }

    /// How long moving `bytes` may take, without the wait for the first one.
    pub fn transfer(&self, bytes: u64) -> Duration {
        Duration::from_millis(bytes.saturating_mul(1_000) / self.bytes_per_second_min)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timeouts_grow_with_size_and_pauses_are_bounded() {
        let policy = Policy::bucket(Class::Block);
        assert_eq!(policy.attempt_timeout(0), Duration::from_secs(10));
        assert_eq!(policy.attempt_timeout(8 * MIB), Duration::from_secs(26));
        assert_eq!(policy.backoff.pause(u32::MAX), Duration::from_secs(5));
    }

    #[test]
    fn classes_are_numbered_in_order() {
        for (index, class) in Class::ALL.into_iter().enumerate() {
            assert_eq!(class.index(), index);
        }
    }
}

//! The purpose of a request and the tenant it serves; determines its timeouts and retries.
//!
//! Timeouts are per attempt and grow with the bytes to transfer; the deadline bounds all attempts
//! together. Local directories have long timeouts, because repeating a request does not make a slow disk
//! faster.

use std::sync::Arc;
use std::time::Duration;

use sandur_base::units::{KIB, MIB};
use sandur_runtime::Backoff;

/// The purpose of a request: determines its timeouts and, with the operation, its lane
/// ([`crate::Lane`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Class {
    /// WAL segments: clients wait for the acknowledgement.
    Wal,
    /// Blocks: flush, compaction and queries.
    Block,
    /// The catalog's log, checkpoints and boundary. Never shared between callers.
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

/// The purpose of a request, and the tenant it serves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Intent {
    /// The purpose of the request.
    pub class: Class,
    /// The tenant whose query the request serves: its rate limits apply, and waiting requests are served
    /// round-robin over tenants. `None` for work of the database itself.
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

    /// The same for a tenant.
    pub fn for_tenant(self, tenant: &str) -> Self {
        Self { tenant: Some(tenant.into()), ..self }
    }
}

/// Timeouts and retries of a class.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Policy {
    /// Timeout of the first byte of a response.
    pub first_byte: Duration,
    /// The slowest acceptable transfer, in bytes per second.
    pub bytes_per_second_min: u64,
    /// No attempt begins later than this after the first one.
    pub deadline: Duration,
    /// The most attempts, including the first.
    pub attempts_max: u32,
    /// The pauses between attempts, before jitter.
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
        // Pushes are refused until a WAL segment is written, so it is retried more often.
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

    /// Timeout of one attempt that transfers `bytes`.
    pub fn attempt_timeout(&self, bytes: u64) -> Duration {
        self.first_byte + self.transfer(bytes)
    }

    /// Time for the transfer of `bytes`, without the wait for the first one.
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

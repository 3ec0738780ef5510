//! Selects the lines of queries that are written to the log of the process.
//!
//! Lines are of three kinds: slow queries, failed queries, and all others. In each window of ten seconds at
//! most [`Bounds::total`] lines of a kind are written, so that the size of a log is bounded whatever clients
//! do. A line that is not written is counted, and the next written line of its kind has the count.
//!
//! **Invariants.** A tenant gets fewer lines of a window than remain for others, so a tenant that floods the
//! log leaves lines to the next one. Memory is bounded by the number of written lines of a window.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use sandur_model::TenantId;

/// Length of a window, in which lines are counted.
const WINDOW: Duration = Duration::from_secs(10);

/// The kind of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// The query took at least `query.slow_threshold`.
    Slow,
    /// The query failed, or its answer ended early.
    Failed,
    /// Every other query. Few of these lines are written.
    Other,
}

impl Kind {
    /// The name as a label of metrics.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Slow => "slow",
            Self::Failed => "failed",
            Self::Other => "other",
        }
    }

    /// A line typically has 2 KB, and at most about 6 KB because its text is cut to 4 KiB. With typical lines
    /// the bounds allow 10 KB per second for slow queries, 4 KB for failed ones, and 2 KB for others.
    fn bounds(self) -> Bounds {
        match self {
            Self::Slow => Bounds { total: 50, of_tenant: 50 },
            Self::Failed => Bounds { total: 20, of_tenant: 20 },
            Self::Other => Bounds { total: 10, of_tenant: 1 },
        }
    }
}

/// Maximum number of lines of a kind in a window.
struct Bounds {
    total: u32,
    of_tenant: u32,
}

/// Counts the written lines of the current window.
#[derive(Debug, Default)]
pub(crate) struct Pace([Mutex<Written>; 3]);

#[derive(Debug, Default)]
struct Written {
    /// Number of the window since the start of the process.
    window: u64,
    total: u32,
    of_tenants: HashMap<TenantId, u32>,
    left_out: u64,
}

impl Pace {
    /// Decides about a line of this kind and tenant at this monotonic time. If it is to be written, returns
    /// the number of lines of the kind that were left out since the last written one.
    pub(crate) fn admit(&self, kind: Kind, tenant: &TenantId, now: Duration) -> Option<u64> {
        let mut written = self.0[kind as usize].lock().unwrap_or_else(PoisonError::into_inner);
        let window = now.as_secs() / WINDOW.as_secs();
        if written.window != window {
            *written = Written { window, left_out: written.left_out, ..Written::default() };
        }
        let bounds = kind.bounds();
        let own = written.of_tenants.get(tenant).copied().unwrap_or(0);
        if own >= bounds.of_tenant.min(bounds.total - written.total) {
            written.left_out += 1;
            return None;
        }
        written.total += 1;
        written.of_tenants.insert(tenant.clone(), own + 1);
        Some(std::mem::take(&mut written.left_out))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tenant(name: &str) -> TenantId {
        TenantId::new(name).unwrap()
    }

    fn admitted(pace: &Pace, kind: Kind, tenant: &TenantId, queries: usize, seconds: u64) -> usize {
        let now = Duration::from_secs(seconds);
        (0..queries).filter(|_| pace.admit(kind, tenant, now).is_some()).count()
    }

    #[test]
    fn a_flood_is_bounded_in_each_window_and_the_next_line_counts_what_was_left_out() {
        let (pace, only) = (Pace::default(), tenant("a"));
        assert_eq!(admitted(&pace, Kind::Other, &only, 1_000, 5), 1);
        assert_eq!(admitted(&pace, Kind::Failed, &only, 1_000, 5), 10);
        assert_eq!(admitted(&pace, Kind::Slow, &only, 1_000, 9), 25, "kinds are counted separately");
        assert_eq!(pace.admit(Kind::Other, &only, Duration::from_secs(10)), Some(999));
        assert_eq!(pace.admit(Kind::Failed, &only, Duration::from_secs(19)), Some(990));
        assert_eq!(pace.admit(Kind::Failed, &only, Duration::from_secs(19)), Some(0), "counted once");
    }

    #[test]
    fn a_tenant_that_floods_the_log_leaves_lines_to_others() {
        for (kind, expected) in [(Kind::Slow, [25, 13, 6, 0]), (Kind::Failed, [10, 5, 3, 0])] {
            let pace = Pace::default();
            let of = |name| admitted(&pace, kind, &tenant(name), 1_000, 0);
            assert_eq!([of("a"), of("b"), of("c"), of("a")], expected);
        }
    }

    #[test]
    fn many_tenants_neither_exceed_the_bound_nor_grow_memory() {
        for kind in [Kind::Slow, Kind::Failed, Kind::Other] {
            let pace = Pace::default();
            let of = |n: usize| admitted(&pace, kind, &tenant(&n.to_string()), 10, 0);
            let written: usize = (0..5_000).map(of).sum();
            assert_eq!(written, kind.bounds().total as usize);
            assert!(pace.0[kind as usize].lock().unwrap().of_tenants.len() <= written);
        }
    }
}

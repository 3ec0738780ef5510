//! One record of the owners of shards for all rulers of a process.
//!
//! Each tenant with stored rules has a ruler, and so have the files. A shard has groups of several of them,
//! but the process owns it as a whole.
//!
//! **Invariant.** The process gives a shard up only when no ruler runs groups of it any more.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use sandur_base::{BoxFuture, Id};
use sandur_model::RuleShards;

use crate::metrics::RuleMetrics;
use crate::ownership::{Lease, Owners, Ownership};

/// The record, shared by rulers. Cheap to clone: a handle.
#[derive(Clone)]
pub struct SharedOwnership(Arc<Inner>);

struct Inner {
    record: Arc<dyn Ownership>,
    metrics: RuleMetrics,
    claims: Mutex<Claims>,
    /// Held during a change of the record.
    turn: tokio::sync::Mutex<()>,
}

/// The shards of which each ruler may run groups.
#[derive(Default)]
struct Claims {
    next: u64,
    incarnation: Option<Id>,
    of: BTreeMap<u64, RuleShards>,
}

impl Claims {
    /// The claim of a ruler under an incarnation. What was claimed under an earlier one is over.
    fn of(&mut self, ruler: u64, incarnation: Id) -> &mut RuleShards {
        if self.incarnation != Some(incarnation) {
            self.of.values_mut().for_each(|claim| *claim = RuleShards::NONE);
            self.incarnation = Some(incarnation);
        }
        self.of.entry(ruler).or_insert(RuleShards::NONE)
    }

    fn all(&self) -> RuleShards {
        self.of.values().fold(RuleShards::NONE, |all, claim| all.or(*claim))
    }
}

impl SharedOwnership {
    /// Shares a record. Shards that are taken over are counted.
    pub fn new(record: Arc<dyn Ownership>, metrics: RuleMetrics) -> Self {
        let (claims, turn) = (Mutex::default(), tokio::sync::Mutex::default());
        Self(Arc::new(Inner { record, metrics, claims, turn }))
    }

    /// The record for one more ruler, until it is dropped.
    pub fn part(&self) -> Arc<dyn Ownership> {
        let mut claims = self.0.lock();
        let number = claims.next;
        claims.next += 1;
        drop(claims);
        Arc::new(Part { all: Arc::clone(&self.0), number })
    }
}

impl Inner {
    fn lock(&self) -> MutexGuard<'_, Claims> {
        self.claims.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The record as one ruler uses it.
struct Part {
    all: Arc<Inner>,
    number: u64,
}

impl Part {
    /// Claims shards; the function gets those that the process owns. Returns the claims of all rulers. If the
    /// term has ended, returns `None` and changes nothing: other rulers may have claims under the new one.
    fn claim(&self, incarnation: Id, shards_of: impl FnOnce(RuleShards) -> RuleShards) -> Option<RuleShards> {
        let mut claims = self.all.lock();
        let lease = self.all.record.lease();
        if lease.incarnation != incarnation {
            return None;
        }
        *claims.of(self.number, incarnation) = shards_of(lease.own);
        Some(claims.all())
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        self.all.lock().of.remove(&self.number);
    }
}

impl Ownership for Part {
    fn owners(&self) -> Owners {
        // Nobody claims under another incarnation between the read of the record and the claim.
        let mut claims = self.all.lock();
        let owners = self.all.record.owners();
        if owners.is_recorded {
            // The ruler begins to run groups of these shards, also if another ruler has taken them.
            let claim = claims.of(self.number, owners.incarnation);
            *claim = claim.or(owners.own.and(owners.wanted));
        }
        owners
    }

    fn lease(&self) -> Lease {
        self.all.record.lease()
    }

    fn own(&self, incarnation: Id, shards: RuleShards) -> BoxFuture<'_, Result<bool, String>> {
        Box::pin(async move {
            let _turn = self.all.turn.lock().await;
            let Some(wanted) = self.claim(incarnation, |_| shards) else { return Ok(false) };
            let lease = self.all.record.lease();
            if lease.incarnation == incarnation && lease.own == wanted {
                // Other rulers still run groups of what this one gives up.
                return Ok(true);
            }
            let outcome = self.all.record.own(incarnation, wanted).await;
            if outcome == Ok(true) {
                let taken = u64::from(wanted.without(lease.own).count());
                self.all.metrics.taken_over.inc_by(taken);
                tracing::info!(owned = %wanted, taken, "this process evaluates shards of the rules");
            } else {
                // What could not be taken must not be a part of the next attempt of another ruler.
                self.claim(incarnation, |own| shards.and(own));
            }
            outcome
        })
    }

    fn refresh(&self) -> BoxFuture<'_, Result<(), String>> {
        self.all.record.refresh()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::data::Instant;

    /// A record of which this process wants what is set.
    struct Record(Mutex<(RuleShards, RuleShards, bool)>, Mutex<Id>);

    impl Record {
        fn new(wanted: RuleShards) -> Self {
            Self(Mutex::new((RuleShards::NONE, wanted, true)), Mutex::new(Id(1)))
        }
    }

    impl Ownership for Record {
        fn owners(&self) -> Owners {
            let (own, wanted, _) = *self.0.lock().unwrap();
            let free = RuleShards::ALL.without(own);
            let (nodes, running_since) = (Vec::new(), Instant::default());
            let (is_recorded, is_unknown) = (true, false);
            let incarnation = *self.1.lock().unwrap();
            Owners { is_recorded, incarnation, own, wanted, free, nodes, is_unknown, running_since }
        }

        fn lease(&self) -> Lease {
            let own = self.0.lock().unwrap().0;
            let (is_recorded, age, is_alone) = (true, Duration::ZERO, false);
            let incarnation = *self.1.lock().unwrap();
            Lease { is_recorded, incarnation, own, age, is_alone }
        }

        fn own(&self, _incarnation: Id, shards: RuleShards) -> BoxFuture<'_, Result<bool, String>> {
            Box::pin(async move {
                let mut state = self.0.lock().unwrap();
                if state.2 {
                    state.0 = shards;
                }
                Ok(state.2)
            })
        }

        fn refresh(&self) -> BoxFuture<'_, Result<(), String>> {
            Box::pin(async { Ok(()) })
        }
    }

    #[tokio::test]
    async fn a_shard_is_given_up_when_no_ruler_runs_groups_of_it() {
        let bits = RuleShards::from_bits;
        let record = Arc::new(Record::new(bits(0b11)));
        let shared = SharedOwnership::new(record.clone(), RuleMetrics::default());
        let (one, two) = (shared.part(), shared.part());
        assert!(one.owners().own.is_empty());
        assert_eq!(one.own(Id(1), bits(0b11)).await, Ok(true));
        assert_eq!(two.owners().own.bits(), 0b11, "the second ruler runs them too");
        record.0.lock().unwrap().1 = bits(0b10);
        for ruler in [&one, &two] {
            assert_eq!(record.0.lock().unwrap().0.bits(), 0b11, "one of them still runs groups");
            ruler.owners();
            assert_eq!(ruler.own(Id(1), bits(0b10)).await, Ok(true));
        }
        assert_eq!(record.0.lock().unwrap().0.bits(), 0b10);
        // What could not be taken is in no other request, and a ruler that is gone claims nothing.
        *record.0.lock().unwrap() = (bits(0b10), bits(0b110), false);
        assert_eq!(one.own(Id(1), bits(0b110)).await, Ok(false));
        record.0.lock().unwrap().2 = true;
        drop(one);
        assert_eq!(two.own(Id(1), bits(0)).await, Ok(true));
        assert!(record.0.lock().unwrap().0.is_empty());
    }

    /// Each ruler counted the shards that it began to run.
    #[tokio::test]
    async fn a_shard_that_two_rulers_take_is_counted_once() {
        let (bits, metrics) = (RuleShards::from_bits, RuleMetrics::default());
        let shared = SharedOwnership::new(Arc::new(Record::new(bits(0b11))), metrics.clone());
        let (one, two) = (shared.part(), shared.part());
        for ruler in [&one, &two] {
            assert_eq!(ruler.own(Id(1), bits(0b11)).await, Ok(true));
        }
        assert_eq!(metrics.taken_over.get(), 2);
        assert_eq!(two.own(Id(1), bits(0b111)).await, Ok(true));
        assert_eq!(metrics.taken_over.get(), 3);
    }

    /// It cleared all claims, so that another ruler gave up shards whose groups ran.
    #[tokio::test]
    async fn a_request_of_a_term_that_has_ended_changes_no_claim() {
        let bits = RuleShards::from_bits;
        let record = Arc::new(Record::new(bits(0b11)));
        let shared = SharedOwnership::new(record.clone(), RuleMetrics::default());
        let (one, two) = (shared.part(), shared.part());
        *record.1.lock().unwrap() = Id(2);
        one.owners();
        assert_eq!(one.own(Id(2), bits(0b11)).await, Ok(true));
        assert_eq!(two.own(Id(1), bits(0b01)).await, Ok(false));
        two.owners();
        assert_eq!(two.own(Id(2), bits(0b10)).await, Ok(true));
        assert_eq!(record.0.lock().unwrap().0.bits(), 0b11, "the first ruler still runs groups");
    }
}

//! Whose rows must be in blocks before those of others: of two values of one instant of a series of
//! Graphite's, that in the block that was committed last counts.
//!
//! Processes that followed each other wrote in the order in which they registered. So nobody's rows come into
//! a block while a writer before him seems to be dead and is not sealed: neither our own nor those of a dead
//! writer that we adopt. The dead writers of a directory are known, and flushed in their order without regard
//! to anything else. In a bucket who lives is not waited for: what several processes take at one time has no
//! order.
//!
//! **Bounds.** Nobody is waited for longer than some adoptions take: a writer whose WAL cannot be read keeps
//! no other one from its blocks for ever. Of many dead writers each has that time, so that a long row of them
//! keeps its order; our own first block waits no longer in all.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::time::Duration;

use sandur_base::Id;
use sandur_catalog::Members;

use crate::shared::Shared;

/// A writer that dies is adopted within so many times of the silence after which it seems to be dead.
const ADOPTIONS_IN: u32 = 4;
/// How often it is looked whether those before a dead writer are sealed.
const LOOK: Duration = Duration::from_millis(100);

impl Shared {
    /// Whether rows that writers before this one took may still be without blocks.
    pub(crate) fn awaits_earlier_writers(&self, now: Duration) -> bool {
        if *self.recovering.borrow() > 0 {
            return true;
        }
        let (since, members) = (self.since_registration(now), self.members());
        let members = members.filter(|_| since < self.adoptions_in());
        members.is_some_and(|members| self.first_dead(&members, self.incarnation(), |_| true).is_some())
    }

    /// Waits until the dead writers before a dead one are sealed. False: the engine stops, and nothing may be
    /// done out of turn.
    pub(crate) async fn await_dead_before(&self, incarnation: Id) -> bool {
        let Some(members) = self.members() else { return true };
        let mut waited_since = BTreeMap::new();
        loop {
            let now = self.env.monotonic();
            let is_awaited = |id: &Id| {
                waited_since.get(id).is_none_or(|since| now.saturating_sub(*since) < self.adoptions_in())
            };
            let Some(first) = self.first_dead(&members, incarnation, is_awaited) else { return true };
            waited_since.entry(first).or_insert(now);
            if !self.pause(LOOK).await {
                return false;
            }
        }
    }

    /// The first writer before this one that is awaited, not sealed, and seems to be dead.
    fn first_dead(&self, members: &Members, incarnation: Id, is_awaited: impl Fn(&Id) -> bool) -> Option<Id> {
        let (view, own, beat) = (self.views.current(), self.incarnation(), self.options.heartbeat_interval);
        let since = self.since_registration(self.env.monotonic());
        let seems_dead = |id: &Id| match members.silent_for(*id) {
            // Who lives has been heard by then.
            Some(silence) => since < 3 * beat || silence >= 2 * beat,
            None => since < self.options.dead_after,
        };
        let earlier = view.snapshot.writers().range(..incarnation).filter(|(_, writer)| !writer.is_sealed());
        let mut earlier = earlier.map(|(id, _)| *id);
        earlier.find(|id| *id != own && is_awaited(id) && seems_dead(id))
    }

    fn since_registration(&self, now: Duration) -> Duration {
        now.saturating_sub(Duration::from_millis(self.registered_ms.load(Ordering::Relaxed)))
    }

    fn adoptions_in(&self) -> Duration {
        ADOPTIONS_IN * self.options.dead_after
    }
}

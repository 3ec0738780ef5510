//! The order in which writers' rows come into blocks. Of two values of a series with a path at one
//! instant, the one in the block that was committed last wins.
//!
//! Processes that followed each other wrote in the order in which they registered. Therefore a writer's
//! rows go into blocks only when every earlier writer that seems dead is sealed. This holds for our own
//! rows and for those of a dead writer that we adopt. The dead writers of a directory are known, and are
//! flushed in order without further conditions. In a bucket nothing waits for a live writer: rows that
//! several processes accept at the same time have no order.
//!
//! **Bounds.** A wait for another writer takes at most as long as several adoptions, so a writer whose
//! WAL cannot be read does not block the others forever. Each of many dead writers has that time, so
//! that a long sequence of them keeps its order. Our own first block waits for that time in total.

use std::collections::BTreeMap;
use std::time::Duration;

use sandur_base::Id;
use sandur_catalog::Members;

use crate::writing::writer::Writer;

/// A dead writer is adopted within this many times `dead_after`, the silence after which it is presumed
/// dead.
const ADOPTIONS_IN: u32 = 4;
/// How often the wait for a dead writer checks whether the earlier ones are sealed.
const LOOK: Duration = Duration::from_millis(100);

impl Writer {
    /// Whether rows of earlier writers may still be without blocks.
    pub(crate) fn awaits_earlier_writers(&self, now: Duration) -> bool {
        if *self.recovering.borrow() > 0 {
            return true;
        }
        let (since, members) = (self.membership.since_registration(now), self.membership.members());
        let members = members.filter(|_| since < self.adoptions_in());
        members.is_some_and(|members| self.first_dead(&members, self.incarnation(), |_| true).is_some())
    }

    /// Waits until the dead writers before this dead one are sealed. Returns false when the engine
    /// stops; then the caller must not adopt out of order.
    pub(crate) async fn await_dead_before(&self, incarnation: Id) -> bool {
        let Some(members) = self.membership.members() else { return true };
        let mut waited_since = BTreeMap::new();
        loop {
            let now = self.node.env.monotonic();
            let is_awaited = |id: &Id| {
                waited_since.get(id).is_none_or(|since| now.saturating_sub(*since) < self.adoptions_in())
            };
            let Some(first) = self.first_dead(&members, incarnation, is_awaited) else { return true };
            waited_since.entry(first).or_insert(now);
            if !self.node.pause(LOOK).await {
                return false;
            }
        }
    }

    /// The first writer before this one that matches `is_awaited`, is not sealed, and seems dead.
    fn first_dead(&self, members: &Members, incarnation: Id, is_awaited: impl Fn(&Id) -> bool) -> Option<Id> {
        let (view, own, beat) = (self.node.views.current(), self.incarnation(), self.membership.beat);
        let since = self.membership.since_registration(self.node.env.monotonic());
        let seems_dead = |id: &Id| match members.silent_for(*id) {
            // A live writer has sent a heartbeat by then.
            Some(silence) => since < 3 * beat && !members.has_grown(*id) || silence >= 2 * beat,
            None => since < self.membership.silent_after,
        };
        let earlier = view.snapshot.writers().range(..incarnation).filter(|(_, writer)| !writer.is_sealed());
        let mut earlier = earlier.map(|(id, _)| *id);
        earlier.find(|id| *id != own && is_awaited(id) && seems_dead(id))
    }

    fn adoptions_in(&self) -> Duration {
        ADOPTIONS_IN * self.membership.silent_after
    }
}

//! What following and adopting other writers use.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use sandur_base::Id;
use sandur_catalog::{Members, Snapshot};
use sandur_store::Intent;

use crate::node::Node;
use crate::upkeep::adoption::memory::FollowedMemory;
use crate::upkeep::adoption::read_slots::ReadSlots;
use crate::writing::writer::Writer;

/// Who has fenced a writer. The process that creates the fence adopts the writer; the others would write the
/// same blocks once more.
#[derive(Clone, Copy)]
enum Claim {
    /// This process.
    Own,
    /// Another process; its fence was first seen at this monotonic time.
    Others(Duration),
}

/// The other writers of the store: their rows come into heads of this process.
pub(crate) struct OtherWriters {
    pub(super) node: Arc<Node>,
    pub(super) writer: Arc<Writer>,
    /// The memory of rows of other live writers.
    pub(super) memory: FollowedMemory,
    pub(super) slots: ReadSlots,
    claims: Mutex<BTreeMap<Id, Claim>>,
}

impl OtherWriters {
    pub(crate) fn new(writer: &Arc<Writer>) -> Arc<Self> {
        let (memory, slots) = (FollowedMemory::new(&writer.options), ReadSlots::new(&writer.options));
        let (node, writer) = (Arc::clone(&writer.node), Arc::clone(writer));
        Arc::new(Self { node, writer, memory, slots, claims: Mutex::default() })
    }

    /// Reads what live processes announced and is not known here.
    pub(super) fn read_announced(&self) {
        let Some(hints) = &self.writer.options.hints else { return };
        self.node.followed.note_announced(hints.catalog());
        self.node.followed.read_announced(|writer| hints.next_segment(writer));
    }

    /// Whether a writer announces its segments.
    pub(super) fn announces(&self, writer: Id) -> bool {
        self.writer.options.hints.as_ref().is_some_and(|hints| hints.next_segment(writer).is_some())
    }

    /// Whether all other writers announce what they do, and there are others.
    pub(super) fn are_announcing(&self) -> bool {
        self.node.followed.are_all(|writer| self.announces(writer))
    }

    /// Whether this process adopts a writer now: it has been silent for long enough, or a later process of
    /// this node has taken its place. Another process that has fenced it is given time to finish.
    pub(super) fn adopts(&self, snapshot: &Snapshot, members: &Members, incarnation: Id) -> bool {
        let (place, own) = (&self.node.place, self.writer.incarnation());
        if self.is_claimed_by_another(incarnation) {
            return false;
        }
        if snapshot.writer(incarnation).is_some_and(|writer| place.succeeds(snapshot, own, writer)) {
            return true;
        }
        let membership = &self.writer.membership;
        let patience =
            members.silent_after(incarnation) + membership.beat / 2 * place.adoption_rank(incarnation);
        members.is_presumed_dead(incarnation)
            && members.silent_for(incarnation).is_some_and(|silence| silence >= patience)
    }

    /// Notes that the fence of a writer was created by this process.
    pub(super) fn claim(&self, incarnation: Id) {
        self.claims().insert(incarnation, Claim::Own);
    }

    /// Notes that a writer has a fence, and returns whether its adoption is left to another process.
    pub(super) fn note_fence(&self, incarnation: Id) -> bool {
        let now = self.node.env.monotonic();
        self.claims().entry(incarnation).or_insert(Claim::Others(now));
        self.is_claimed_by_another(incarnation)
    }

    fn is_claimed_by_another(&self, incarnation: Id) -> bool {
        let now = self.node.env.monotonic();
        match self.claims().get(&incarnation) {
            Some(Claim::Others(since)) => now.saturating_sub(*since) < self.writer.membership.silent_after,
            Some(Claim::Own) | None => false,
        }
    }

    /// Forgets the fences of writers that are sealed.
    pub(super) fn forget_sealed(&self, snapshot: &Snapshot) {
        self.claims().retain(|id, _| snapshot.writer(*id).is_some_and(|writer| !writer.is_sealed()));
    }

    fn claims(&self) -> MutexGuard<'_, BTreeMap<Id, Claim>> {
        self.claims.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps a copy of a damaged WAL object for inspection, because the object is deleted with its WAL.
    pub(super) async fn keep_damaged(&self, path: &str, bytes: Bytes) {
        let copy = format!("damaged/{path}");
        match self.node.store.put(&copy, bytes, Intent::gc()).await {
            Ok(()) => tracing::error!(path, copy, "a copy of the damaged WAL object is kept"),
            Err(error) => tracing::error!(path, %error, "the damaged WAL object could not be copied"),
        }
    }
}

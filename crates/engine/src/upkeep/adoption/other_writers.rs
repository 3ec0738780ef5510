//! What following and adopting other writers use.

use std::sync::Arc;

use bytes::Bytes;
use sandur_base::Id;
use sandur_store::Intent;

use crate::node::Node;
use crate::upkeep::adoption::memory::FollowedMemory;
use crate::upkeep::adoption::read_slots::ReadSlots;
use crate::writing::writer::Writer;

/// The other writers of the store: their rows come into heads of this process.
pub(crate) struct OtherWriters {
    pub(super) node: Arc<Node>,
    pub(super) writer: Arc<Writer>,
    /// The memory of rows of other live writers.
    pub(super) memory: FollowedMemory,
    pub(super) slots: ReadSlots,
}

impl OtherWriters {
    pub(crate) fn new(writer: &Arc<Writer>) -> Arc<Self> {
        let (memory, slots) = (FollowedMemory::new(&writer.options), ReadSlots::new(&writer.options));
        let (node, writer) = (Arc::clone(&writer.node), Arc::clone(writer));
        Arc::new(Self { node, writer, memory, slots })
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

    /// Keeps a copy of a damaged WAL object for inspection, because the object is deleted with its WAL.
    pub(super) async fn keep_damaged(&self, path: &str, bytes: Bytes) {
        let copy = format!("damaged/{path}");
        match self.node.store.put(&copy, bytes, Intent::gc()).await {
            Ok(()) => tracing::error!(path, copy, "a copy of the damaged WAL object is kept"),
            Err(error) => tracing::error!(path, %error, "the damaged WAL object could not be copied"),
        }
    }
}

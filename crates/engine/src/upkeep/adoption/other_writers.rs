//! What following and adopting other writers use.

use std::sync::Arc;

use bytes::Bytes;
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

    /// Keeps a copy of a damaged WAL object for inspection, because the object is deleted with its WAL.
    pub(super) async fn keep_damaged(&self, path: &str, bytes: Bytes) {
        let copy = format!("damaged/{path}");
        match self.node.store.put(&copy, bytes, Intent::gc()).await {
            Ok(()) => tracing::error!(path, copy, "a copy of the damaged WAL object is kept"),
            Err(error) => tracing::error!(path, %error, "the damaged WAL object could not be copied"),
        }
    }
}

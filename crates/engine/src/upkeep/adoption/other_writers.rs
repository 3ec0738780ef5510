//! What following and adopting other writers use.

use std::sync::Arc;

use bytes::Bytes;
use sandur_memory::MemoryBudget;
use sandur_store::Intent;

use crate::node::Node;
use crate::writing::writer::Writer;

/// Rows of other live writers may take this fraction of the write budget (a quarter).
const FOLLOWED_PART: u64 = 4;

/// The other writers of the store: their rows come into heads of this process.
pub(crate) struct OtherWriters {
    pub(super) node: Arc<Node>,
    pub(super) writer: Arc<Writer>,
    /// The memory budget of rows of other live writers; a part of the write budget.
    pub(super) followed_budget: MemoryBudget,
}

impl OtherWriters {
    pub(crate) fn new(writer: &Arc<Writer>) -> Arc<Self> {
        let budget = &writer.options.write_budget;
        let followed_budget = budget.child("followed writers", budget.limit() / FOLLOWED_PART);
        let (node, writer) = (Arc::clone(&writer.node), Arc::clone(writer));
        Arc::new(Self { node, writer, followed_budget })
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

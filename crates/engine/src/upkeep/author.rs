//! The writer on whose behalf upkeep commits to the catalog.

use std::sync::Arc;

use sandur_base::Id;
use sandur_catalog::Snapshot;

use crate::writing::writer::Writer;

/// A registered writer, as upkeep sees it.
pub(crate) trait Author: Send + Sync {
    /// The incarnation that commits now. It changes when this process is fenced.
    fn incarnation(&self) -> Id;

    /// Whether the catalog lists the incarnation. Every commit needs a registered writer.
    fn is_registered(&self) -> bool;

    /// Makes a snapshot visible.
    fn publish(&self, snapshot: Arc<Snapshot>);

    /// Observes which nodes live.
    fn observe_nodes(&self);
}

impl Author for Writer {
    fn incarnation(&self) -> Id {
        Writer::incarnation(self)
    }

    fn is_registered(&self) -> bool {
        Writer::is_registered(self)
    }

    fn publish(&self, snapshot: Arc<Snapshot>) {
        Writer::publish(self, snapshot);
    }

    fn observe_nodes(&self) {
        Writer::observe_nodes(self);
    }
}

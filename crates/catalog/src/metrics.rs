//! Counters and gauges of one open catalog.

use std::sync::Arc;

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

use crate::error::CommitError;
use crate::snapshot::Snapshot;

/// The counters of the catalog. Clones share the same counters.
#[derive(Clone, Debug, Default)]
pub struct CatalogMetrics {
    /// Transactions that were committed.
    pub commits: Counter,
    /// Transactions that the state did not allow.
    pub rejected: Counter,
    /// Transactions that failed, or whose outcome is unknown.
    pub failed: Counter,
    /// Attempts to create an entry.
    pub attempts: Counter,
    /// Entry numbers that another process had taken.
    pub conflicts: Counter,
    /// Entries that were applied.
    pub entries: Counter,
    /// Times that the state was loaded again because entries were deleted.
    pub reloads: Counter,
    /// Checkpoints that were written.
    pub checkpoints: Counter,
    /// Objects that garbage collection deleted.
    pub deleted: Counter,
    /// The number of the newest snapshot.
    pub number: Gauge,
    /// The boundary as last read.
    pub boundary: Gauge,
    /// Blocks that exist.
    pub blocks: Gauge,
    /// Blocks that are removed but not deleted.
    pub removed: Gauge,
    /// Registered incarnations.
    pub writers: Gauge,
}

impl CatalogMetrics {
    /// Registers all metrics under the prefix `sandur_catalog`.
    pub fn register(&self, registry: &mut Registry) {
        let registry = registry.sub_registry_with_prefix("sandur_catalog");
        let counters = [
            ("commits", "Transactions that were committed", &self.commits),
            ("commits_rejected", "Transactions that the state did not allow", &self.rejected),
            ("commits_failed", "Transactions that failed or whose outcome is unknown", &self.failed),
            ("commit_attempts", "Attempts to create an entry", &self.attempts),
            ("commit_conflicts", "Entry numbers that another process had taken", &self.conflicts),
            ("entries_applied", "Entries that were applied", &self.entries),
            ("reloads", "Times that the state was loaded again because entries were deleted", &self.reloads),
            ("checkpoints", "Checkpoints that were written", &self.checkpoints),
            ("gc_deleted_objects", "Objects that garbage collection deleted", &self.deleted),
        ];
        for (name, help, counter) in counters {
            registry.register(name, help, counter.clone());
        }
        let gauges = [
            ("number", "Number of the newest snapshot", &self.number),
            ("boundary", "Number up to which entries may be gone, as last read", &self.boundary),
            ("blocks", "Blocks that exist", &self.blocks),
            ("removed_blocks", "Blocks that are removed but not deleted", &self.removed),
            ("writers", "Registered incarnations", &self.writers),
        ];
        for (name, help, gauge) in gauges {
            registry.register(name, help, gauge.clone());
        }
    }

    pub(crate) fn show(&self, snapshot: &Arc<Snapshot>) {
        self.number.set(snapshot.number() as i64);
        self.blocks.set(snapshot.block_count() as i64);
        self.removed.set(snapshot.removed.len() as i64);
        self.writers.set(snapshot.writers().len() as i64);
    }

    pub(crate) fn count_commit<T>(&self, result: &Result<T, CommitError>) {
        match result {
            Ok(_) => self.commits.inc(),
            Err(CommitError::Rejected { .. }) => self.rejected.inc(),
            Err(_) => self.failed.inc(),
        };
    }
}

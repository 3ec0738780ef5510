//! Bounds and intervals of the engine, with their defaults.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use sandur_base::MemoryBudget;
use sandur_base::units::MIB;
use sandur_cache::Cache;
use sandur_catalog::{CatalogOptions, GcOptions};
use sandur_model::Dataset;

use crate::merge_policy::CompactionPolicy;
use crate::retention::Retention;
use crate::rollups::RollupsNow;
use crate::rules::DeleteOptions;

/// How an engine behaves.
#[derive(Clone, Debug)]
pub struct EngineOptions {
    /// Memory of pushes, heads and followed writers together. Default: 512 MiB.
    pub write_budget: MemoryBudget,
    /// Line bytes at which a head is flushed. Default: 64 MiB; a head is also flushed when it takes
    /// two fifths of the write budget, so that one can be flushed while the next one fills.
    pub flush_bytes: u64,
    /// Blocks that a flush writes at once, at most one per processor; each takes some mebibytes of buffers
    /// that no budget counts. Default: one per processor.
    pub flush_parallelism: usize,
    /// Blocks that a flush commits at once at most, but for the last ones. Default: 4,096, which is as many
    /// as a transaction holds.
    pub flush_commit_blocks: usize,
    /// Age at which a head is flushed. Default: 5 min.
    pub flush_age: Duration,
    /// Bytes at which a WAL frame is cut. Default: 8 MiB.
    pub wal_frame_bytes: u64,
    /// Longest time that a push waits for company in a bucket's WAL segment. Default: 500 ms.
    pub wal_linger: Duration,
    /// Segments of a bucket's WAL per second that may be written for the sake of latency. Default: 2.
    pub wal_requests_per_second: f64,
    /// The same at once, after a time with fewer. Default: 600.
    pub wal_requests_burst: f64,
    /// WAL segments of a bucket that are being written at once. Default: 4.
    pub wal_puts_in_flight: usize,
    /// Size at which a local WAL file is followed by the next one. Default: 64 MiB.
    pub wal_file_bytes: u64,
    /// Pushes that may wait for the WAL. Default: 8192.
    pub push_queue: usize,
    /// How long a push waits for memory while a flush gives some back. Default: 10 s.
    pub push_wait: Duration,
    /// How long a push waits for its acknowledgement. Default: 30 s.
    pub push_timeout: Duration,
    /// Interval at which the age of heads and the files of the WAL are looked at. Default: 1 s.
    pub look_interval: Duration,
    /// Interval at which news of other processes are asked for. Default: 1 s.
    pub poll_interval: Duration,
    /// The same for a writer that has been idle for a while. Default: 2 s.
    pub poll_idle_interval: Duration,
    /// Age of the view of the store from which on answers carry a warning, at least twice `poll_interval`; 0:
    /// none do. Default: 5 s.
    pub view_age_max: Duration,
    /// Interval of our own heartbeat. Default: 10 s.
    pub heartbeat_interval: Duration,
    /// Silence after which another writer is adopted. Default: 30 s.
    pub dead_after: Duration,
    /// How long `shutdown` tries to flush. Default: 60 s.
    pub shutdown_timeout: Duration,
    /// Where this process answers peers, for the catalog. Default: empty.
    pub address: String,
    /// Host name, for people. Default: empty.
    pub host: String,
    /// What keeps pieces of blocks between queries, and whose memory decoded indexes count against.
    /// Default: a cache in memory alone, of `cache_bytes`.
    pub cache: Option<Cache>,
    /// Memory of the cache that is made when none is given. Default: 256 MiB.
    pub cache_bytes: u64,
    /// Merges, retention and garbage collection.
    pub maintenance: MaintenanceOptions,
    /// Delete requests.
    pub deletes: DeleteOptions,
    /// The catalog's own options.
    pub catalog: CatalogOptions,
}

impl Default for EngineOptions {
    fn default() -> Self {
        Self {
            write_budget: MemoryBudget::root("write", 512 * MIB),
            flush_bytes: 64 * MIB,
            flush_parallelism: usize::MAX,
            flush_commit_blocks: usize::MAX,
            flush_age: Duration::from_secs(300),
            wal_frame_bytes: 8 * MIB,
            wal_linger: Duration::from_millis(500),
            wal_requests_per_second: 2.0,
            wal_requests_burst: 600.0,
            wal_puts_in_flight: 4,
            wal_file_bytes: 64 * MIB,
            push_queue: 8192,
            push_wait: Duration::from_secs(10),
            push_timeout: Duration::from_secs(30),
            look_interval: Duration::from_secs(1),
            poll_interval: Duration::from_secs(1),
            poll_idle_interval: Duration::from_secs(2),
            view_age_max: Duration::from_secs(5),
            heartbeat_interval: Duration::from_secs(10),
            dead_after: Duration::from_secs(30),
            shutdown_timeout: Duration::from_secs(60),
            address: String::new(),
            host: String::new(),
            cache: None,
            cache_bytes: 256 * MIB,
            maintenance: MaintenanceOptions::default(),
            deletes: DeleteOptions::default(),
            catalog: CatalogOptions::default(),
        }
    }
}

impl EngineOptions {
    /// Bytes of memory at which a head is flushed although its lines are few.
    pub(crate) fn flush_memory_bytes(&self) -> u64 {
        self.write_budget.limit() / 5 * 2
    }

    /// Bytes that one push may take of the write budget.
    pub(crate) fn push_bytes_max(&self) -> u64 {
        self.write_budget.limit() / 2
    }
}

/// How long tenants keep their rows of each signal.
pub type RetentionOf = Arc<dyn Fn(&Dataset) -> Retention + Send + Sync>;

/// How the background works.
#[derive(Clone)]
pub struct MaintenanceOptions {
    /// Pause between two rounds. Default: 10 s.
    pub interval: Duration,
    /// Pause between two collections of garbage. Default: 1 min.
    pub gc_interval: Duration,
    /// Pause between two searches for objects that no commit names. Default: 1 h.
    pub orphan_interval: Duration,
    /// When blocks are merged.
    pub compaction: CompactionPolicy,
    /// Memory of pages that are being merged. Default: 128 MiB.
    pub compaction_budget: MemoryBudget,
    /// Grace and bounds of garbage collection.
    pub gc: GcOptions,
    /// How long tenants keep their rows. Default: for ever.
    pub retention_of: RetentionOf,
    /// Which points become rollups. Default: none.
    pub rollups: Option<RollupsNow>,
    /// How long a retention, or the rules of rollups, must have stood before anything is removed by it.
    /// Default: 1 min.
    pub retention_change_delay: Duration,
}

impl Default for MaintenanceOptions {
    fn default() -> Self {
        Self {
            interval: Duration::from_secs(10),
            gc_interval: Duration::from_secs(60),
            orphan_interval: Duration::from_secs(3_600),
            compaction: CompactionPolicy::default(),
            compaction_budget: MemoryBudget::root("compaction", 128 * MIB),
            gc: GcOptions::default(),
            retention_of: Arc::new(|_: &Dataset| Retention::default()),
            rollups: None,
            retention_change_delay: Duration::from_secs(60),
        }
    }
}

impl fmt::Debug for MaintenanceOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut fields = f.debug_struct("MaintenanceOptions");
        fields.field("interval", &self.interval).field("compaction", &self.compaction);
        fields.field("gc", &self.gc).finish_non_exhaustive()
    }
}

//! Bounds and intervals of the engine, with their defaults.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use sandur_base::units::MIB;
use sandur_cache::Cache;
use sandur_catalog::{CatalogOptions, GcOptions, Hints};
use sandur_memory::{MemoryBudget, MemoryPool};
use sandur_model::{Dataset, Roles};

use crate::peers::Peers;
use crate::policy::compaction::CompactionPolicy;
use crate::policy::retention::Retention;
use crate::policy::rollups::RollupsNow;
use crate::rules::DeleteOptions;

/// The newest frames of the WAL may take this fraction of the write budget (a sixteenth).
const RECENT_FRAMES_PART: u64 = 16;

/// The options of an engine.
#[derive(Clone, Debug)]
pub struct EngineOptions {
    /// The memory budget of pushes, heads and followed writers together. Processes of one bucket should have
    /// equal budgets, because each one holds the unflushed rows of all. Default: 512 MiB.
    pub write_budget: MemoryBudget,
    /// Line bytes at which a head is flushed. Default: 64 MiB; a head is also flushed when it takes
    /// two fifths of the write budget, so that one can be flushed while the next one fills.
    pub flush_bytes: u64,
    /// The most blocks that a flush writes concurrently, at most one per processor. Each takes some
    /// mebibytes of buffers that no budget counts. Default: one per processor.
    pub flush_parallelism: usize,
    /// The most blocks that a flush commits at once, without those of the last dataset. Default: 4,096,
    /// which is also the maximum.
    pub flush_commit_blocks: usize,
    /// Age at which a head is flushed. Default: 5 min.
    pub flush_age: Duration,
    /// Bytes at which a WAL frame is cut. Default: 8 MiB.
    pub wal_frame_bytes: u64,
    /// The longest time that a push waits for other pushes in a bucket's WAL segment. Default: 500 ms.
    pub wal_linger: Duration,
    /// Rate at which the budget of WAL segments in a bucket refills, per second. Default: 2.
    pub wal_requests_per_second: f64,
    /// The most WAL segments that this budget holds. Default: 600.
    pub wal_requests_burst: f64,
    /// The most WAL segments of a bucket that are written concurrently. Default: 4.
    pub wal_puts_in_flight: usize,
    /// Bytes at which a local WAL file is followed by the next one. Default: 64 MiB.
    pub wal_file_bytes: u64,
    /// The most pushes that wait for the WAL. Default: 8192.
    pub push_queue: usize,
    /// How long a push waits for memory that a flush releases. Default: 10 s.
    pub push_wait: Duration,
    /// How long a push waits for its acknowledgement. Default: 30 s.
    pub push_timeout: Duration,
    /// Interval at which the age of heads and the files of the WAL are checked. Default: 1 s.
    pub look_interval: Duration,
    /// Interval at which the catalog and the WAL of other processes are polled. Default: 1 s.
    pub poll_interval: Duration,
    /// The longest interval at which the WAL of a writer without recent segments is polled while there are
    /// queries. Shortened so that the age of its rows stays below `view_age_max`. Default: 3 s.
    pub poll_idle_interval: Duration,
    /// The longest interval at which it is polled while there are no queries. Default: 1 min.
    pub poll_unread_interval: Duration,
    /// Age of the view of the store above which answers carry a warning. At least twice `poll_interval`;
    /// 0 disables the warning. Default: 5 s.
    pub view_age_max: Duration,
    /// Interval of our own heartbeat. Default: 10 s.
    pub heartbeat_interval: Duration,
    /// Silence after which another writer is adopted. Default: 30 s.
    pub dead_after: Duration,
    /// How long `shutdown` tries to flush. Default: 60 s.
    pub shutdown_timeout: Duration,
    /// The address at which this process answers peers, for the catalog. Default: empty.
    pub address: String,
    /// Calls the other processes of a bucket. Default: none; then everything is read from the bucket.
    pub peers: Option<Arc<dyn Peers>>,
    /// Tells and hears when there is something new in the bucket. Default: none; then the bucket is polled.
    pub hints: Option<Arc<dyn Hints>>,
    /// The longest interval at which the catalog is polled while all other writers announce commits. At most
    /// half of `view_age_max`. Default: 5 s.
    pub poll_told_interval: Duration,
    /// The host name, for display. Default: empty.
    pub host: String,
    /// The node that this process runs on.
    pub node: NodeOptions,
    /// The cache of parts of blocks; decoded indexes count against its memory too. Default: a cache in
    /// memory alone, of `cache_bytes`.
    pub cache: Option<Cache>,
    /// Bytes of the cache that is made when none is given. Default: 256 MiB.
    pub cache_bytes: u64,
    /// The pool of which the cache's memory is a share: the cache gives memory back to it. Default: none.
    pub pool: Option<MemoryPool>,
    /// The options of merges, retention and garbage collection.
    pub maintenance: MaintenanceOptions,
    /// The options of delete requests.
    pub deletes: DeleteOptions,
    /// The options of the catalog.
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
            poll_idle_interval: Duration::from_secs(3),
            poll_unread_interval: Duration::from_secs(60),
            view_age_max: Duration::from_secs(5),
            heartbeat_interval: Duration::from_secs(10),
            dead_after: Duration::from_secs(30),
            shutdown_timeout: Duration::from_secs(60),
            address: String::new(),
            peers: None,
            hints: None,
            poll_told_interval: Duration::from_secs(5),
            host: String::new(),
            node: NodeOptions::default(),
            cache: None,
            cache_bytes: 256 * MIB,
            pool: None,
            maintenance: MaintenanceOptions::default(),
            deletes: DeleteOptions::default(),
            catalog: CatalogOptions::default(),
        }
    }
}

impl EngineOptions {
    /// The budget of WAL frames that are kept for other processes: a sixteenth of the write budget, or
    /// nothing if this process has no peers.
    pub(crate) fn recent_frames_budget(&self) -> MemoryBudget {
        let most = self.peers.as_ref().map_or(0, |_| self.write_budget.limit() / RECENT_FRAMES_PART);
        self.write_budget.child("recent WAL frames", most)
    }

    /// Bytes of memory at which a head is flushed even if its lines are few: a part of the memory that
    /// rows can have at the moment.
    pub(crate) fn flush_memory_bytes(&self) -> u64 {
        self.write_budget.attainable() / 5 * 2
    }

    /// Bytes of memory at which a head is flushed although it could grow, so that each of `others` processes
    /// with the same limits can hold the unflushed rows of all writers. Twice as much is unflushed while a
    /// head is being flushed and the next one fills.
    pub(crate) fn shared_flush_bytes(&self, others: u64) -> u64 {
        if others == 0 { u64::MAX } else { self.write_bytes_always() / 10 * 3 / (others + 1) }
    }

    /// The bytes that the write budget always has, whatever is lent to others.
    pub(crate) fn write_bytes_always(&self) -> u64 {
        match self.write_budget.kept() {
            0 => self.write_budget.limit(),
            kept => kept,
        }
    }

    /// The most bytes of the write budget that one push may take: half of what the budget always has.
    pub(crate) fn push_bytes_max(&self) -> u64 {
        self.write_bytes_always() / 2
    }
}

/// The node that a process runs on.
#[derive(Clone, Debug)]
pub struct NodeOptions {
    /// The id, which stays the same when the process restarts. Default: empty, an id per process.
    pub id: String,
    /// The failure domain. Default: empty.
    pub zone: String,
    /// The work that the node does. Default: all.
    pub roles: Roles,
    /// Bytes of the cache: the weight of the node. Default: 0.
    pub cache_bytes: u64,
    /// The version of the program, for display. Default: empty.
    pub version: String,
}

impl Default for NodeOptions {
    fn default() -> Self {
        let none = String::new;
        Self { id: none(), zone: none(), roles: Roles::ALL, cache_bytes: 0, version: none() }
    }
}

/// Returns how long a tenant keeps its rows of a signal.
pub type RetentionOf = Arc<dyn Fn(&Dataset) -> Retention + Send + Sync>;

/// The options of background work.
#[derive(Clone)]
pub struct MaintenanceOptions {
    /// Pause between two rounds. Default: 10 s.
    pub interval: Duration,
    /// Pause between two collections of garbage. Default: 1 min.
    pub gc_interval: Duration,
    /// Pause between two searches for orphans. Default: 1 h.
    pub orphan_interval: Duration,
    /// Decides which blocks are merged.
    pub compaction: CompactionPolicy,
    /// The memory budget of pages that are being merged. Default: 128 MiB.
    pub compaction_budget: MemoryBudget,
    /// The grace period and bounds of garbage collection.
    pub gc: GcOptions,
    /// How long tenants keep their rows. Default: without limit.
    pub retention_of: RetentionOf,
    /// Which points become rollups. Default: none.
    pub rollups: Option<RollupsNow>,
    /// How long a retention or the rules of rollups must be unchanged before they remove anything.
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

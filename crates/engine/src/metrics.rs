//! The metrics of the write half, for `/metrics`.

use std::sync::atomic::AtomicU64;

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

use crate::policy::expired::ExpiredRows;

/// Handles of the metrics. Cheap to clone; all clones count together.
#[derive(Clone, Debug)]
pub struct Metrics {
    /// Pushes that were acknowledged.
    pub pushes: Counter,
    /// Pushes that were refused or not acknowledged.
    pub pushes_failed: Counter,
    /// Pushes that were too large to be stored at once and were stored in parts.
    pub pushes_in_parts: Counter,
    /// Rows that were acknowledged.
    pub rows: Counter,
    /// Line bytes that were acknowledged.
    pub line_bytes: Counter,
    /// Samples that were acknowledged and are new.
    pub samples: Counter,
    /// Acknowledged samples that were left out because their series had one of the same instant.
    pub sample_duplicates: Counter,
    /// WAL frames that became durable.
    pub wal_frames: Counter,
    /// Bytes of WAL frames that became durable.
    pub wal_bytes: Counter,
    /// Failed attempts to write a WAL frame.
    pub wal_failures: Counter,
    /// Seconds from a push to its acknowledgement.
    pub push_seconds: Histogram,
    /// Seconds until a frame was durable.
    pub wal_seconds: Histogram,
    /// Heads that were flushed to blocks.
    pub flushes: Counter,
    /// Failed flushes and failed attempts to commit one.
    pub flush_failures: Counter,
    /// Seconds for which flushes have failed; 0 if the last one succeeded.
    pub flush_failing_seconds: Gauge,
    /// Seconds for which the oldest rows of this process wait for a flush.
    pub unflushed_seconds: Gauge,
    /// Rows that flushes left out because they were present already.
    pub duplicates: Counter,
    /// Blocks made by flushes.
    pub blocks: Counter,
    /// Bytes of these blocks.
    pub block_bytes: Counter,
    /// Seconds that flushes took.
    pub flush_seconds: Histogram,
    /// 1 while pushes can be acknowledged, 0 otherwise.
    pub writable: Gauge,
    /// Age of the view of the store in seconds.
    pub view_age_seconds: Gauge<f64, AtomicU64>,
    /// Rows in the heads.
    pub head_rows: Gauge,
    /// Bytes of lines and samples in the heads.
    pub head_line_bytes: Gauge,
    /// Number of heads: own, adopted and followed.
    pub heads: Gauge,
    /// Writers that were adopted.
    pub adoptions: Counter,
    /// Adoptions that were left to another process, which had fenced the writer before.
    pub adoptions_left: Counter,
    /// Live nodes by `role`.
    pub role_nodes: Family<[(&'static str, &'static str); 1], Gauge>,
    /// 1 while the last known nodes keep their work because fewer than half of them are alive.
    pub nodes_held: Gauge,
    /// Other writers that are followed.
    pub followed_writers: Gauge,
    /// Other writers whose rows may be missing from answers.
    pub followed_lagging: Gauge,
    /// WAL segments of other writers that were read.
    pub followed_segments: Counter,
    /// WAL segments of other processes that these processes sent themselves.
    pub told_segments: Counter,
    /// How often this process was fenced.
    pub fenced: Counter,
    /// Bytes of footers, counts and filters in the cache.
    pub cache_bytes: Gauge,
    /// Requests that the cache answered.
    pub cache_hits: Counter,
    /// Requests that the cache could not answer.
    pub cache_misses: Counter,
    /// Delete requests that this process created.
    pub deletes_created: Counter,
    /// Delete requests that this process cancelled.
    pub deletes_cancelled: Counter,
    /// Delete requests that this process completed.
    pub deletes_processed: Counter,
    /// Delete requests that are not processed yet.
    pub deletes_pending: Gauge,
    /// Blocks that were rewritten without deleted lines.
    pub delete_rewrites: Counter,
    /// Rows that these rewrites removed.
    pub deleted_rows: Counter,
    /// Failed attempts to remove deleted lines from a block.
    pub delete_failures: Counter,
    /// Rows that retention removed, by `reason`.
    pub retention_rows: Family<[(&'static str, &'static str); 1], Counter>,
    /// Blocks that retention looked at or removed, by `outcome`.
    pub retention_blocks: Family<[(&'static str, &'static str); 1], Counter>,
    /// Failed attempts to remove rows past their retention from a block.
    pub retention_failures: Counter,
    /// Rows that became rollups (`side="before"`), and rows that they became (`side="after"`).
    pub rollup_rows: Family<[(&'static str, &'static str); 1], Counter>,
    /// Blocks of days whose points were due for rollups, by `outcome`.
    pub rollup_blocks: Family<[(&'static str, &'static str); 1], Counter>,
    /// Failed attempts to make rollups of a day.
    pub rollup_failures: Counter,
}

/// A histogram of seconds with upper bounds from 1 ms to 32 s, doubling.
fn seconds() -> Histogram {
    Histogram::new((0..16).map(|n| 0.001 * f64::from(1u32 << n)))
}

impl Default for Metrics {
    fn default() -> Self {
        Self {
            pushes: Counter::default(),
            pushes_failed: Counter::default(),
            pushes_in_parts: Counter::default(),
            rows: Counter::default(),
            line_bytes: Counter::default(),
            samples: Counter::default(),
            sample_duplicates: Counter::default(),
            wal_frames: Counter::default(),
            wal_bytes: Counter::default(),
            wal_failures: Counter::default(),
            push_seconds: seconds(),
            wal_seconds: seconds(),
            flushes: Counter::default(),
            flush_failures: Counter::default(),
            flush_failing_seconds: Gauge::default(),
            unflushed_seconds: Gauge::default(),
            duplicates: Counter::default(),
            blocks: Counter::default(),
            block_bytes: Counter::default(),
            flush_seconds: seconds(),
            writable: Gauge::default(),
            view_age_seconds: Gauge::default(),
            head_rows: Gauge::default(),
            head_line_bytes: Gauge::default(),
            heads: Gauge::default(),
            adoptions: Counter::default(),
            adoptions_left: Counter::default(),
            role_nodes: Family::default(),
            nodes_held: Gauge::default(),
            followed_writers: Gauge::default(),
            followed_lagging: Gauge::default(),
            followed_segments: Counter::default(),
            told_segments: Counter::default(),
            fenced: Counter::default(),
            cache_bytes: Gauge::default(),
            cache_hits: Counter::default(),
            cache_misses: Counter::default(),
            deletes_created: Counter::default(),
            deletes_cancelled: Counter::default(),
            deletes_processed: Counter::default(),
            deletes_pending: Gauge::default(),
            delete_rewrites: Counter::default(),
            deleted_rows: Counter::default(),
            delete_failures: Counter::default(),
            retention_rows: Family::default(),
            retention_blocks: Family::default(),
            retention_failures: Counter::default(),
            rollup_rows: Family::default(),
            rollup_blocks: Family::default(),
            rollup_failures: Counter::default(),
        }
    }
}

impl Metrics {
    /// Registers all metrics under the prefix `sandur_engine`.
    pub fn register(&self, registry: &mut Registry) {
        let all = registry.sub_registry_with_prefix("sandur_engine");
        all.register("pushes", "Pushes that were acknowledged", self.pushes.clone());
        let text = "Pushes that were refused or not acknowledged";
        all.register("pushes_failed", text, self.pushes_failed.clone());
        let text = "Pushes that were too large to be stored at once and were stored in parts";
        all.register("pushes_in_parts", text, self.pushes_in_parts.clone());
        all.register("rows", "Rows that were acknowledged", self.rows.clone());
        all.register("line_bytes", "Line bytes that were acknowledged", self.line_bytes.clone());
        all.register("samples", "Samples that were acknowledged", self.samples.clone());
        let text = "Acknowledged samples left out because their series had one of the same instant";
        all.register("sample_duplicates", text, self.sample_duplicates.clone());
        all.register("wal_frames", "WAL frames that became durable", self.wal_frames.clone());
        all.register("wal_bytes", "Bytes of WAL frames that became durable", self.wal_bytes.clone());
        let text = "Failed attempts to write a WAL frame";
        all.register("wal_failures", text, self.wal_failures.clone());
        let text = "Seconds from a push to its acknowledgement";
        all.register("push_seconds", text, self.push_seconds.clone());
        let text = "Seconds until a WAL frame was durable";
        all.register("wal_seconds", text, self.wal_seconds.clone());
        all.register("flushes", "Heads that were flushed to blocks", self.flushes.clone());
        let text = "Flushes that failed and are tried again";
        all.register("flush_failures", text, self.flush_failures.clone());
        let text = "Seconds for which flushes have failed; 0 when the last one succeeded";
        all.register("flush_failing_seconds", text, self.flush_failing_seconds.clone());
        let text = "Seconds for which the oldest rows of this process wait for a flush";
        all.register("unflushed_seconds", text, self.unflushed_seconds.clone());
        let text = "Duplicate rows that flushes left out";
        all.register("duplicates", text, self.duplicates.clone());
        all.register("blocks", "Blocks made by flushes", self.blocks.clone());
        all.register("block_bytes", "Bytes of blocks made by flushes", self.block_bytes.clone());
        all.register("flush_seconds", "Seconds that flushes took", self.flush_seconds.clone());
        let writable = self.writable.clone();
        all.register("writable", "1 when pushes can be acknowledged, 0 while none can", writable);
        let text = "Seconds since the start of the last successful read of the catalog's end; in a \
                    directory, since the first of the latest failed reads, 0 if none failed";
        all.register("view_age_seconds", text, self.view_age_seconds.clone());
        all.register("head_rows", "Rows in the heads", self.head_rows.clone());
        all.register(
            "head_line_bytes",
            "Bytes of lines and samples in the heads",
            self.head_line_bytes.clone(),
        );
        all.register("heads", "Heads: own, adopted and followed", self.heads.clone());
        all.register("adoptions", "Writers that were adopted", self.adoptions.clone());
        let text = "Other writers whose WAL is read from the bucket";
        all.register("followed_writers", text, self.followed_writers.clone());
        let text = "Other writers whose newest rows may be missing from answers, which say so";
        all.register("followed_lagging", text, self.followed_lagging.clone());
        let text = "WAL segments of other writers that were read";
        all.register("followed_segments", text, self.followed_segments.clone());
        let text = "WAL segments of other processes that these processes sent themselves";
        all.register("told_segments", text, self.told_segments.clone());
        let text = "How often another process fenced this one";
        all.register("fenced", text, self.fenced.clone());
        let text = "Bytes of footers, counts and filters in the cache";
        all.register("cache_bytes", text, self.cache_bytes.clone());
        let text = "Requests that the cache answered, since the start";
        all.register("cache_hits", text, self.cache_hits.clone());
        let text = "Requests that the cache could not answer, since the start";
        all.register("cache_misses", text, self.cache_misses.clone());
        self.register_nodes(all);
        self.register_deletes(all);
        self.register_retention(all);
        self.register_rollups(all);
    }

    /// Counts rows that retention has removed.
    pub(crate) fn note_expired(&self, rows: &ExpiredRows) {
        for (reason, rows) in rows.each() {
            self.retention_rows.get_or_create(&[("reason", reason.as_str())]).inc_by(rows);
        }
    }

    /// Counts blocks by the outcome of retention.
    pub(crate) fn note_retention(&self, outcome: &'static str, blocks: u64) {
        self.retention_blocks.get_or_create(&[("outcome", outcome)]).inc_by(blocks);
    }

    fn register_nodes(&self, all: &mut Registry) {
        let text = "Adoptions that were left to another process, which had fenced the writer before";
        all.register("adoptions_left", text, self.adoptions_left.clone());
        let text = "Live nodes that do the work of a role; 0 means that the work waits";
        all.register("role_nodes", text, self.role_nodes.clone());
        let text =
            "1 while fewer than half of the nodes are alive, so that the last known nodes keep their work";
        all.register("nodes_held", text, self.nodes_held.clone());
    }

    fn register_retention(&self, all: &mut Registry) {
        all.register(
            "retention_rows",
            "Rows that retention removed, by the period that was over: of the tenant, of a selector, of \
             labels (Graphite's rules), or all periods of a block",
            self.retention_rows.clone(),
        );
        all.register(
            "retention_blocks",
            "Blocks that retention examined or removed: removed unchanged, rewritten without expired series, \
             or kept because few of their rows are expired",
            self.retention_blocks.clone(),
        );
        all.register(
            "retention_failures",
            "Failed attempts to remove expired rows from a block",
            self.retention_failures.clone(),
        );
    }

    /// Counts rows that became rollups, and those that they became.
    pub(crate) fn note_rolled(&self, before: u64, after: u64) {
        for (side, rows) in [("before", before), ("after", after)].into_iter().filter(|(_, rows)| *rows > 0) {
            self.rollup_rows.get_or_create(&[("side", side)]).inc_by(rows);
        }
    }

    /// Counts blocks of days by the outcome of making rollups.
    pub(crate) fn note_rollup(&self, outcome: &'static str, blocks: u64) {
        self.rollup_blocks.get_or_create(&[("outcome", outcome)]).inc_by(blocks);
    }

    fn register_rollups(&self, all: &mut Registry) {
        all.register(
            "rollup_rows",
            "Rows that became rollups (before), and rows of these rollups (after)",
            self.rollup_rows.clone(),
        );
        all.register(
            "rollup_blocks",
            "Blocks of days whose points are due for rollups: rewritten with rollups, cut into slots first, \
             kept because rolling would save few rows, or too_large for a merge",
            self.rollup_blocks.clone(),
        );
        all.register(
            "rollup_failures",
            "Failed attempts to make rollups of a day",
            self.rollup_failures.clone(),
        );
    }

    fn register_deletes(&self, all: &mut Registry) {
        all.register(
            "deletes_created",
            "Delete requests that this process created",
            self.deletes_created.clone(),
        );
        all.register(
            "deletes_cancelled",
            "Delete requests that this process cancelled",
            self.deletes_cancelled.clone(),
        );
        all.register(
            "deletes_processed",
            "Delete requests that this process completed",
            self.deletes_processed.clone(),
        );
        all.register(
            "deletes_pending",
            "Delete requests that are not processed yet",
            self.deletes_pending.clone(),
        );
        all.register(
            "delete_rewrites",
            "Blocks that were rewritten without deleted lines",
            self.delete_rewrites.clone(),
        );
        all.register(
            "deleted_rows",
            "Deleted rows that rewrites and merges removed",
            self.deleted_rows.clone(),
        );
        all.register(
            "delete_failures",
            "Failed attempts to remove deleted lines from a block",
            self.delete_failures.clone(),
        );
    }
}

//! One log line per query, with the keys of Loki's `metrics.go` line, so that queries and dashboards
//! over Loki's own logs work on ours. Pages count as chunks, heads as the ingester.

use std::time::Duration;

use sandur_base::units::format_duration;
use xxhash_rust::xxh3::xxh3_64;

use super::app::App;
use super::call::Call;
use super::marshal::Cost;
use crate::wiring::{QueryKind, QueryText};

/// Longest query that is logged.
const QUERY_BYTES_MAX: usize = 4_096;

/// A query as it was asked.
pub struct Asked {
    tenant: String,
    tags: String,
    query: String,
    hash: u64,
    range_type: &'static str,
    start_ns: i64,
    end_ns: i64,
    step_ns: i64,
    limit: u32,
}

/// How it ended.
pub struct Outcome<'a> {
    /// What it cost.
    pub cost: &'a Cost,
    /// Status of the answer.
    pub status: u16,
    /// Entries or series in the answer.
    pub returned: u64,
}

impl Asked {
    /// What is logged of a request.
    pub fn new(_app: &App, call: &Call, request: &QueryText) -> Self {
        let (range_type, start_ns, end_ns, step_ns) = match request.kind {
            QueryKind::Instant { time_ns } => ("instant", time_ns, time_ns, 0),
            QueryKind::Range { start_ns, end_ns, step_ns } => ("range", start_ns, end_ns, step_ns),
        };
        let end = request.query.floor_char_boundary(QUERY_BYTES_MAX);
        Self {
            tenant: call.tenant.to_string(),
            tags: call.tags().to_owned(),
            query: request.query[..end].to_owned(),
            hash: xxh3_64(request.query.as_bytes()),
            range_type,
            start_ns,
            end_ns,
            step_ns,
            limit: request.limit,
        }
    }

    /// A metric query starts with a function, a log query with its selector.
    fn query_type(&self) -> &'static str {
        let text = self.query.trim_start();
        match text.starts_with('{') {
            false => "metric",
            true if text.contains('|') || text.contains("!=") => "filter",
            true => "limited",
        }
    }

    /// Writes the line.
    pub fn log(&self, app: &App, outcome: &Outcome<'_>) {
        let cost = outcome.cost;
        let c = &cost.counters;
        let total = cost.execution + cost.queue();
        let latency = if total > app.settings.query.slow_threshold { "slow" } else { "fast" };
        let now = app.env.now_ns();
        let shown = |ns: u64| format!("{:?}", Duration::from_nanos(ns));
        let span = |ns: i64| format_duration(Duration::from_nanos(ns.max(0) as u64));
        tracing::info!(
            target: "sandur::query",
            org_id = %self.tenant,
            latency,
            query = %self.query,
            query_hash = self.hash,
            query_type = self.query_type(),
            range_type = self.range_type,
            length = %span(self.end_ns - self.start_ns),
            start_delta = %span(now.saturating_sub(self.start_ns)),
            end_delta = %span(now.saturating_sub(self.end_ns)),
            step = %span(self.step_ns),
            duration = ?cost.execution,
            status = outcome.status,
            limit = self.limit,
            returned_lines = outcome.returned,
            throughput = cost.per_second(cost.bytes()),
            total_bytes = cost.bytes(),
            total_bytes_structured_metadata = cost.metadata_bytes(),
            lines_per_second = cost.per_second(cost.lines()),
            total_lines = cost.lines(),
            post_filter_lines = c.post_filter_lines,
            total_entries = c.entries_returned,
            store_chunks_download_time = %shown(cost.download_ns()),
            queue_time = %shown(c.queue_ns),
            querier_exec_time = %shown(c.execution_ns),
            splits = c.splits,
            shards = c.shards,
            chunk_refs_fetch_time = %shown(c.index_ns),
            cache_chunk_req = c.page_cache_hits + c.page_cache_misses,
            cache_chunk_hit = c.page_cache_hits,
            cache_chunk_bytes_fetched = c.page_cache_bytes,
            cache_chunk_download_time = %shown(c.page_cache_ns),
            ingester_chunk_matches = c.head_pages,
            index_total_chunks = c.pages_total,
            index_post_filter_chunks = c.pages_total.saturating_sub(c.pages_filtered),
            store_requests = c.store_requests,
            store_bytes = c.store_bytes,
            source = %self.tags,
        );
    }
}

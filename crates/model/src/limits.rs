//! Limits per tenant, with their defaults. Names are Loki's where Loki has the limit, so that
//! existing configuration can be carried over.
//!
//! There is no limit on the number of streams or labels by default: the layout does not need one.
//! Zero means "no limit" for counts and rates.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, OnceLock};

use regex::Regex;
use serde::{Deserialize, Serialize};

use crate::metric_limits::MetricLimits;
use crate::retention::RetentionRules;

/// What a tenant may send and ask. Sizes in bytes, times in nanoseconds.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Limits {
    /// Longest line in bytes.
    pub max_line_size: u64,
    /// Cut longer lines instead of refusing them.
    pub max_line_size_truncate: bool,
    /// Largest request body as sent, in bytes.
    pub max_body_size: u64,
    /// Largest request body after decompression, in bytes.
    pub max_decompressed_size: u64,
    /// Raw bytes per second and tenant; 0: no limit.
    pub ingestion_rate: u64,
    /// Raw bytes that may exceed the rate at once.
    pub ingestion_burst: u64,
    /// Refuse entries older than this, in nanoseconds; 0: no limit.
    pub reject_old_samples_max_age: i64,
    /// Refuse entries this far in the future, in nanoseconds.
    pub creation_grace_period: i64,
    /// Longest label name in bytes.
    pub max_label_name_length: u64,
    /// Longest label value in bytes.
    pub max_label_value_length: u64,
    /// Labels per stream; 0: no limit.
    pub max_label_names_per_series: u64,
    /// Bytes of structured metadata per entry.
    pub max_structured_metadata_size: u64,
    /// Structured-metadata pairs per entry.
    pub max_structured_metadata_entries_count: u64,
    /// Add `detected_level` to entries.
    pub discover_log_levels: bool,
    /// Labels tried in order for `service_name`; empty: none is added.
    pub discover_service_name: Vec<String>,
    /// Delete data older than this, in nanoseconds; 0: keep for ever.
    pub retention_period: i64,
    /// How long streams are kept that selectors name; the others are kept for `retention_period`.
    #[serde(skip)]
    pub retention_stream: RetentionRules,
    /// What becomes of lines that delete requests name.
    pub deletion_mode: DeletionMode,
    /// Largest `limit` of a log query.
    pub max_entries_limit_per_query: u64,
    /// Series in the answer of a metric query.
    pub max_query_series: u64,
    /// Longest time range of a query in nanoseconds; 0: no limit.
    pub max_query_length: i64,
    /// Longest `[range]` of a metric query in nanoseconds; 0: no limit.
    pub max_query_range: i64,
    /// Rows older than this do not exist for queries, in nanoseconds; 0: all exist.
    pub max_query_lookback: i64,
    /// A query is ended after this time, in nanoseconds.
    pub query_timeout: i64,
    /// Pages that one query works on at the same time; 0: as many as there are threads.
    pub max_query_parallelism: u64,
    /// Queries are cut at multiples of this time, in nanoseconds; 0: not at all.
    pub split_queries_by_interval: i64,
    /// Line bytes that a query may have to look through, by the index; 0: no limit.
    pub max_query_bytes_read: u64,
    /// The same for each piece of a query; 0: no limit.
    pub max_querier_bytes_read: u64,
    /// Streams that a selector of the series endpoint may match; 0: no limit.
    pub cardinality_limit: u64,
    /// Matchers of a selector; 0: no limit.
    pub max_streams_matchers_per_query: u64,
    /// Labels that every selector must name.
    pub required_labels: Vec<String>,
    /// Matchers that every selector must have at least.
    pub minimum_labels_number: u64,
    /// Queries that are refused.
    pub blocked_queries: Vec<BlockedQuery>,
    /// Accepted for Loki's sake, without effect: results are kept by the state of the data, not by age.
    pub max_cache_freshness_per_query: i64,
    /// Memory of one query in bytes; 0: the server's default.
    pub max_query_memory: u64,
    /// Requests to a bucket per second for the tenant's queries; 0: no limit.
    pub store_request_rate: u64,
    /// Requests that may exceed the rate at once.
    pub store_request_burst: u64,
    /// Bytes per second that the tenant's queries may read from a bucket; 0: no limit.
    pub store_read_rate: u64,
    /// Bytes that may exceed the rate at once.
    pub store_read_burst: u64,
    /// Followers of one tenant at a time.
    pub max_concurrent_tail_requests: u64,
    /// Series in an answer of `index/volume`.
    pub volume_max_series: u64,
    /// Limits on samples.
    pub metrics: MetricLimits,
}

/// Which queries are refused; what is left empty fits all.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct BlockedQuery {
    /// The query's text, or an expression that is found in it.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub pattern: String,
    /// Whether the pattern is a regular expression.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub regex: bool,
    /// Hash of the query's text, as query logs show it; goes before the pattern. 0: none.
    #[serde(skip_serializing_if = "is_zero")]
    pub hash: u32,
    /// Kinds of queries: `filter`, `limited`, `metric`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub types: Vec<String>,
    /// Tags of the request, all of which must be there.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub tags: BTreeMap<String, String>,
    /// The pattern, compiled.
    #[serde(skip)]
    pub compiled: CompiledPattern,
}

/// An expression that is compiled when it is first needed; copies share it.
#[derive(Clone, Default)]
pub struct CompiledPattern(Arc<OnceLock<Option<Regex>>>);

impl CompiledPattern {
    /// The expression; `compile` is called once.
    pub fn get(&self, compile: impl FnOnce() -> Option<Regex>) -> Option<&Regex> {
        self.0.get_or_init(compile).as_ref()
    }
}

/// It says nothing that the pattern does not say.
impl PartialEq for CompiledPattern {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for CompiledPattern {}

impl fmt::Debug for CompiledPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("CompiledPattern").field(&self.0.get().is_some()).finish()
    }
}

fn is_zero(number: &u32) -> bool {
    *number == 0
}

/// What becomes of lines that delete requests name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum DeletionMode {
    /// Nothing: the API refuses, and earlier requests are without effect.
    Disabled,
    /// They are hidden from queries, but stay in the store.
    FilterOnly,
    /// They are hidden at once and removed from the store later.
    #[default]
    FilterAndDelete,
}

impl DeletionMode {
    /// Every mode, in the order in which messages list them.
    pub const ALL: [Self; 3] = [Self::Disabled, Self::FilterOnly, Self::FilterAndDelete];

    /// Its name in configurations.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Disabled => "disabled",
            Self::FilterOnly => "filter-only",
            Self::FilterAndDelete => "filter-and-delete",
        }
    }

    /// The mode of that name.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|mode| mode.as_str() == name)
    }
}

impl Default for Limits {
    fn default() -> Self {
        let service_name_sources = [
            "service",
            "app",
            "application",
            "app_name",
            "name",
            "app_kubernetes_io_name",
            "container",
            "container_name",
            "k8s_container_name",
            "component",
            "workload",
            "job",
            "k8s_job_name",
        ];
        Self {
            max_line_size: 256 << 10,
            max_line_size_truncate: false,
            max_body_size: 16 << 20,
            max_decompressed_size: 64 << 20,
            ingestion_rate: 0,
            ingestion_burst: 0,
            reject_old_samples_max_age: 7 * 24 * crate::HOUR_NS,
            creation_grace_period: crate::HOUR_NS / 6,
            max_label_name_length: 1024,
            max_label_value_length: 2048,
            max_label_names_per_series: 0,
            max_structured_metadata_size: 64 << 10,
            max_structured_metadata_entries_count: 128,
            discover_log_levels: true,
            discover_service_name: service_name_sources.map(str::to_owned).into(),
            retention_period: 0,
            retention_stream: RetentionRules::default(),
            deletion_mode: DeletionMode::default(),
            max_entries_limit_per_query: 5_000,
            max_query_series: 500,
            max_query_length: 721 * crate::HOUR_NS, // 30 days and 1 hour
            max_query_range: 0,
            max_query_lookback: 0,
            query_timeout: 60 * crate::SECOND_NS,
            max_query_parallelism: 32,
            split_queries_by_interval: crate::HOUR_NS,
            max_query_bytes_read: 0,
            max_querier_bytes_read: 0,
            cardinality_limit: 0,
            max_streams_matchers_per_query: 1_000,
            required_labels: Vec::new(),
            minimum_labels_number: 0,
            blocked_queries: Vec::new(),
            max_cache_freshness_per_query: 10 * 60 * crate::SECOND_NS,
            max_query_memory: 0,
            // About half of what one partition of S3 answers (5,500 reads per second), and 16 Gbit/s.
            store_request_rate: 3_000,
            store_request_burst: 30_000,
            store_read_rate: 2 << 30,
            store_read_burst: 32 << 30,
            max_concurrent_tail_requests: 10,
            volume_max_series: 1_000,
            metrics: MetricLimits::default(),
        }
    }
}

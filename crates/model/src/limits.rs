//! Limits per tenant, with their defaults. Limits that Loki has too have Loki's names, so that existing
//! configuration can be reused.
//!
//! By default the number of streams and labels is not limited: the storage layout does not need it. For
//! counts and rates, zero means "no limit".

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, OnceLock};

use regex::Regex;
use serde::{Deserialize, Serialize};

use crate::metric_limits::MetricLimits;
use crate::retention::RetentionRules;

/// What a tenant may send and request. Sizes are in bytes, times in nanoseconds.
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
    /// Raw bytes per second of the tenant; 0: no limit.
    pub ingestion_rate: u64,
    /// Raw bytes by which a burst may exceed the rate.
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
    /// Detect the level of entries and add it as `detected_level`.
    pub discover_log_levels: bool,
    /// Labels that are tried in order as the value of `service_name`; empty: none is added.
    pub discover_service_name: Vec<String>,
    /// Delete data older than this, in nanoseconds; 0: keep for ever.
    pub retention_period: i64,
    /// Retention of streams that a rule selects; all others are kept for `retention_period`.
    #[serde(skip)]
    pub retention_stream: RetentionRules,
    /// What happens to lines that delete requests select.
    pub deletion_mode: DeletionMode,
    /// Largest `limit` of a log query.
    pub max_entries_limit_per_query: u64,
    /// Most series in the response of a metric query.
    pub max_query_series: u64,
    /// Longest time range of a query in nanoseconds; 0: no limit.
    pub max_query_length: i64,
    /// Longest `[range]` of a metric query in nanoseconds; 0: no limit.
    pub max_query_range: i64,
    /// Queries do not see rows older than this, in nanoseconds; 0: no limit.
    pub max_query_lookback: i64,
    /// Deadline of a query, in nanoseconds after its start.
    pub query_timeout: i64,
    /// Pages that one query processes concurrently; 0: the number of threads.
    pub max_query_parallelism: u64,
    /// Queries are split at multiples of this time, in nanoseconds; 0: not at all.
    pub split_queries_by_interval: i64,
    /// Whether the start and end of metric range queries are rounded down to multiples of their step.
    pub align_queries_with_step: bool,
    /// Line bytes that a query may scan, as estimated from the index; 0: no limit.
    pub max_query_bytes_read: u64,
    /// The same for each split of a query; 0: no limit.
    pub max_querier_bytes_read: u64,
    /// Streams that a selector of the series endpoint may match; 0: no limit.
    pub cardinality_limit: u64,
    /// Most matchers of a selector; 0: no limit.
    pub max_streams_matchers_per_query: u64,
    /// Labels that every selector must name.
    pub required_labels: Vec<String>,
    /// Fewest matchers of a selector.
    pub minimum_labels_number: u64,
    /// Queries that are refused.
    pub blocked_queries: Vec<BlockedQuery>,
    /// Memory of one query in bytes; 0: the server's default.
    pub max_query_memory: u64,
    /// Requests to a bucket per second for the tenant's queries; 0: no limit.
    pub store_request_rate: u64,
    /// Requests by which a burst may exceed the rate.
    pub store_request_burst: u64,
    /// Bytes per second that the tenant's queries may read from a bucket; 0: no limit.
    pub store_read_rate: u64,
    /// Bytes by which a burst may exceed the rate.
    pub store_read_burst: u64,
    /// Concurrent `tail` requests of the tenant.
    pub max_concurrent_tail_requests: u64,
    /// Series in a response of `index/volume`.
    pub volume_max_series: u64,
    /// Namespaces of stored rules.
    pub ruler_max_namespaces_per_tenant: u64,
    /// Groups of stored rules.
    pub ruler_max_rule_groups_per_tenant: u64,
    /// Stored rules.
    pub ruler_max_rules_per_tenant: u64,
    /// Rules of a stored group.
    pub ruler_max_rules_per_rule_group: u64,
    /// Bytes of a stored group.
    pub ruler_max_rule_group_size: u64,
    /// Bytes of the states and series of the tenant's rules.
    pub ruler_max_state_memory: u64,
    /// Limits on samples.
    pub metrics: MetricLimits,
}

/// Selects queries that are refused; an empty condition matches all queries.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct BlockedQuery {
    /// The text of the query, or a regular expression that is searched in it.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub pattern: String,
    /// Whether the pattern is a regular expression.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub regex: bool,
    /// Hash of the query's text, as query logs show it; takes precedence over the pattern. 0: none.
    #[serde(skip_serializing_if = "is_zero")]
    pub hash: u32,
    /// Types of queries: `filter`, `limited`, `metric`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub types: Vec<String>,
    /// Tags of the request, all of which must match.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub tags: BTreeMap<String, String>,
    /// The compiled pattern.
    #[serde(skip)]
    pub compiled: CompiledPattern,
}

/// A regular expression that is compiled when it is first needed; clones share it.
#[derive(Clone, Default)]
pub struct CompiledPattern(Arc<OnceLock<Option<Regex>>>);

impl CompiledPattern {
    /// The expression; calls `compile` at most once.
    pub fn get(&self, compile: impl FnOnce() -> Option<Regex>) -> Option<&Regex> {
        self.0.get_or_init(compile).as_ref()
    }
}

/// Always equal, since it is derived from the pattern.
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

/// What happens to lines that delete requests select.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum DeletionMode {
    /// Delete requests are refused, and earlier ones have no effect.
    Disabled,
    /// The lines are hidden from queries, but stay in the store.
    FilterOnly,
    /// The lines are hidden at once and removed from the store later.
    #[default]
    FilterAndDelete,
}

impl DeletionMode {
    /// Every mode, in the order in which messages list them.
    pub const ALL: [Self; 3] = [Self::Disabled, Self::FilterOnly, Self::FilterAndDelete];

    /// The name of the mode in configurations.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Disabled => "disabled",
            Self::FilterOnly => "filter-only",
            Self::FilterAndDelete => "filter-and-delete",
        }
    }

    /// The mode with this name.
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
            align_queries_with_step: false,
            max_query_bytes_read: 0,
            max_querier_bytes_read: 0,
            cardinality_limit: 0,
            max_streams_matchers_per_query: 1_000,
            required_labels: Vec::new(),
            minimum_labels_number: 0,
            blocked_queries: Vec::new(),
            max_query_memory: 0,
            // About half of the 5,500 reads per second that one partition of S3 answers, and 16 Gbit/s.
            store_request_rate: 3_000,
            store_request_burst: 30_000,
            store_read_rate: 2 << 30,
            store_read_burst: 32 << 30,
            max_concurrent_tail_requests: 10,
            ruler_max_namespaces_per_tenant: 1_000,
            ruler_max_rule_groups_per_tenant: 1_000,
            ruler_max_rules_per_tenant: 20_000,
            ruler_max_rules_per_rule_group: 1_000,
            ruler_max_rule_group_size: 1 << 20,
            ruler_max_state_memory: 256 << 20,
            volume_max_series: 1_000,
            metrics: MetricLimits::default(),
        }
    }
}

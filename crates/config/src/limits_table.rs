//! The table of limits: options below `[limits]` and below `[tenants.NAME]`.
//!
//! Defaults are those of [`Limits::default`].

use sandur_model::{Limits, Signal};

use super::slot::Slot;

/// One limit of a tenant: an option below `[limits]` and below `[tenants.NAME]`.
pub struct LimitSpec {
    /// Key within the table.
    pub key: &'static str,
    /// What it does.
    pub help: &'static str,
    /// The setting.
    pub slot: fn(&mut Limits) -> Slot<'_>,
}

const fn limit(key: &'static str, help: &'static str, slot: fn(&mut Limits) -> Slot<'_>) -> LimitSpec {
    LimitSpec { key, help, slot }
}

/// The limits of a tenant. They have Loki's names where Loki has the limit.
pub static LIMITS: &[LimitSpec] = &[
    limit("max_line_size", "Maximum length of a line.", |l| Slot::Size(&mut l.max_line_size)),
    limit("max_line_size_truncate", "Truncate longer lines instead of refusing them.", |l| {
        Slot::Switch(&mut l.max_line_size_truncate)
    }),
    limit("max_body_size", "Maximum size of a request body as sent.", |l| Slot::Size(&mut l.max_body_size)),
    limit("max_decompressed_size", "Maximum size of a request body after decompression.", |l| {
        Slot::Size(&mut l.max_decompressed_size)
    }),
    limit("ingestion_rate", "Raw bytes per second; 0: no limit.", |l| Slot::Size(&mut l.ingestion_rate)),
    limit("ingestion_burst", "Raw bytes that may exceed the rate in a burst.", |l| {
        Slot::Size(&mut l.ingestion_burst)
    }),
    limit("reject_old_samples_max_age", "Refuse entries older than this; 0: accept any age.", |l| {
        Slot::DurationNs(&mut l.reject_old_samples_max_age)
    }),
    limit("creation_grace_period", "Refuse entries that are further in the future than this.", |l| {
        Slot::DurationNs(&mut l.creation_grace_period)
    }),
    limit("max_label_name_length", "Maximum length of a label name in bytes.", |l| {
        Slot::Count(&mut l.max_label_name_length)
    }),
    limit("max_label_value_length", "Maximum length of a label value in bytes.", |l| {
        Slot::Count(&mut l.max_label_value_length)
    }),
    limit("max_label_names_per_series", "Maximum number of labels per stream; 0: no limit.", |l| {
        Slot::Count(&mut l.max_label_names_per_series)
    }),
    limit("max_structured_metadata_size", "Maximum bytes of structured metadata per entry.", |l| {
        Slot::Size(&mut l.max_structured_metadata_size)
    }),
    limit(
        "max_structured_metadata_entries_count",
        "Maximum number of structured-metadata pairs per entry.",
        |l| Slot::Count(&mut l.max_structured_metadata_entries_count),
    ),
    limit("discover_log_levels", "Add detected_level to entries.", |l| {
        Slot::Switch(&mut l.discover_log_levels)
    }),
    limit("discover_service_name", "Labels tried in order for service_name; empty: none is added.", |l| {
        Slot::List(&mut l.discover_service_name)
    }),
    limit("retention_period", "Delete data older than this; 0: never delete.", |l| {
        Slot::DurationNs(&mut l.retention_period)
    }),
    limit(
        "retention_stream",
        "Streams with a retention other than retention_period, shorter or longer: rules with selector, \
         priority and period; of several that match a stream the highest priority applies, then the \
         shortest period.",
        |l| Slot::Retention(&mut l.retention_stream, Signal::Logs),
    ),
    limit(
        "deletion_mode",
        "What happens to lines that delete requests select: disabled (requests are refused), filter-only \
         (hidden, but kept) or filter-and-delete (hidden immediately, removed from the store later).",
        |l| Slot::Deletion(&mut l.deletion_mode),
    ),
    limit("max_entries_limit_per_query", "Maximum limit of a log query.", |l| {
        Slot::Count(&mut l.max_entries_limit_per_query)
    }),
    limit("max_query_series", "Maximum number of series in the answer of a metric query.", |l| {
        Slot::Count(&mut l.max_query_series)
    }),
    limit("max_query_length", "Maximum time range of a query; 0: no limit.", |l| {
        Slot::DurationNs(&mut l.max_query_length)
    }),
    limit("max_query_range", "Maximum [range] in a metric query; 0: no limit.", |l| {
        Slot::DurationNs(&mut l.max_query_range)
    }),
    limit("max_query_lookback", "Queries see no rows older than this; 0: they see all.", |l| {
        Slot::DurationNs(&mut l.max_query_lookback)
    }),
    limit("query_timeout", "A query is aborted after this time, with 504.", |l| {
        Slot::DurationNs(&mut l.query_timeout)
    }),
    limit(
        "max_query_parallelism",
        "Maximum number of pages that one query processes at the same time; 0: the number of threads.",
        |l| Slot::Count(&mut l.max_query_parallelism),
    ),
    limit(
        "split_queries_by_interval",
        "Long queries are split at multiples of this time, where that splits no block, and other queries \
         may run in between; 0: they are not split.",
        |l| Slot::DurationNs(&mut l.split_queries_by_interval),
    ),
    limit(
        "align_queries_with_step",
        "Round start and end of range queries of PromQL, and of metric range queries of LogQL, down to \
         multiples of the step, so that refreshed dashboards read the same steps from the step cache. A \
         query over several tenants is aligned if this is on for all of them.",
        |l| Slot::Switch(&mut l.align_queries_with_step),
    ),
    limit(
        "max_query_bytes_read",
        "Maximum line bytes within the streams and time range of a query; 0: no limit.",
        |l| Slot::Size(&mut l.max_query_bytes_read),
    ),
    limit("max_querier_bytes_read", "The same for each part that a query is split into; 0: no limit.", |l| {
        Slot::Size(&mut l.max_querier_bytes_read)
    }),
    limit(
        "cardinality_limit",
        "Maximum number of streams in an answer of the series endpoint; 0: no limit.",
        |l| Slot::Count(&mut l.cardinality_limit),
    ),
    limit(
        "max_streams_matchers_per_query",
        "Maximum number of matchers of a selector, or of all selectors of a request for series, labels or \
         volumes; 0: no limit.",
        |l| Slot::Count(&mut l.max_streams_matchers_per_query),
    ),
    limit("required_labels", "Labels that every selector of a query must contain.", |l| {
        Slot::List(&mut l.required_labels)
    }),
    limit(
        "minimum_labels_number",
        "Minimum number of matchers that every selector of a query must have.",
        |l| Slot::Count(&mut l.minimum_labels_number),
    ),
    limit(
        "blocked_queries",
        "Queries that are refused: policies with pattern, regex, hash, types (filter, limited, metric) and \
         tags; the first that matches applies.",
        |l| Slot::Policies(&mut l.blocked_queries),
    ),
    limit("max_query_memory", "Maximum memory of one query; 0: half of all query memory.", |l| {
        Slot::Size(&mut l.max_query_memory)
    }),
    limit(
        "store_request_rate",
        "Requests per second that queries may make to a bucket; 0: no limit. Further requests wait.",
        |l| Slot::Count(&mut l.store_request_rate),
    ),
    limit("store_request_burst", "Requests that may exceed the rate in a burst.", |l| {
        Slot::Count(&mut l.store_request_burst)
    }),
    limit(
        "store_read_rate",
        "Bytes per second that queries may read from a bucket; 0: no limit. Further reads wait.",
        |l| Slot::Size(&mut l.store_read_rate),
    ),
    limit("store_read_burst", "Bytes that may exceed the rate in a burst.", |l| {
        Slot::Size(&mut l.store_read_burst)
    }),
    limit("max_concurrent_tail_requests", "Maximum number of concurrent tails.", |l| {
        Slot::Count(&mut l.max_concurrent_tail_requests)
    }),
    limit("volume_max_series", "Maximum number of series in an answer of index/volume.", |l| {
        Slot::Count(&mut l.volume_max_series)
    }),
    limit("ruler_max_namespaces_per_tenant", "Maximum number of namespaces of stored rules.", |l| {
        Slot::Count(&mut l.ruler_max_namespaces_per_tenant)
    }),
    limit("ruler_max_rule_groups_per_tenant", "Maximum number of groups of stored rules.", |l| {
        Slot::Count(&mut l.ruler_max_rule_groups_per_tenant)
    }),
    limit("ruler_max_rules_per_tenant", "Maximum number of stored rules.", |l| {
        Slot::Count(&mut l.ruler_max_rules_per_tenant)
    }),
    limit("ruler_max_rules_per_rule_group", "Maximum number of rules of a stored group.", |l| {
        Slot::Count(&mut l.ruler_max_rules_per_rule_group)
    }),
    limit("ruler_max_rule_group_size", "Maximum size of a stored group.", |l| {
        Slot::Size(&mut l.ruler_max_rule_group_size)
    }),
    limit(
        "ruler_max_state_memory",
        "Memory of the states and series of the tenant's rules. A quarter of the memory of queries bounds \
         those of all tenants.",
        |l| Slot::Size(&mut l.ruler_max_state_memory),
    ),
    limit(
        "metrics.ingestion_rate",
        "Samples, histograms, exemplars and metadata per second; 0: no limit.",
        |l| Slot::Count(&mut l.metrics.ingestion_rate),
    ),
    limit(
        "metrics.ingestion_burst_size",
        "How many of them may exceed the rate in a burst; 0: the number allowed per second.",
        |l| Slot::Count(&mut l.metrics.ingestion_burst_size),
    ),
    limit(
        "metrics.max_label_names_per_series",
        "Maximum number of labels per series, including the metric's name, without nodes of Graphite's \
         paths; 0: no limit.",
        |l| Slot::Count(&mut l.metrics.max_label_names_per_series),
    ),
    limit(
        "metrics.max_graphite_path_nodes",
        "Maximum number of nodes of a Graphite path, at most 64; 0: no limit except 64.",
        |l| Slot::Count(&mut l.metrics.max_graphite_path_nodes),
    ),
    limit(
        "metrics.max_label_name_length",
        "Maximum length of a label name of a series in bytes; 0: no \
         limit.",
        |l| Slot::Count(&mut l.metrics.max_label_name_length),
    ),
    limit(
        "metrics.max_label_value_length",
        "Maximum length of a label value of a series in bytes; 0: no \
         limit.",
        |l| Slot::Count(&mut l.metrics.max_label_value_length),
    ),
    limit(
        "metrics.creation_grace_period",
        "Refuse samples that are further in the future than this; 0: accept any.",
        |l| Slot::DurationNs(&mut l.metrics.creation_grace_period),
    ),
    limit(
        "metrics.out_of_order_time_window",
        "Refuse samples older than this; 0: accept any age. Samples may arrive in any order, and of two \
         with the same time the first is kept.",
        |l| Slot::DurationNs(&mut l.metrics.out_of_order_time_window),
    ),
    limit(
        "metrics.retention_series",
        "The same as retention_stream for series of metrics, with selectors of PromQL.",
        |l| Slot::Retention(&mut l.metrics.retention_series, Signal::Metrics),
    ),
    limit(
        "metrics.max_global_series_per_user",
        "Approximate maximum number of series of a tenant in memory; samples of further new series are \
         refused. 0: no limit.",
        |l| Slot::Count(&mut l.metrics.max_global_series_per_user),
    ),
    limit(
        "metrics.max_native_histogram_buckets",
        "Maximum number of buckets of a native histogram; 0: no \
         limit.",
        |l| Slot::Count(&mut l.metrics.max_native_histogram_buckets),
    ),
    limit(
        "metrics.otlp_translation_strategy",
        "How names of OTLP are translated to names of metrics and labels: UnderscoreEscapingWithSuffixes, \
         UnderscoreEscapingWithoutSuffixes, NoUTF8EscapingWithSuffixes or NoTranslation.",
        |l| Slot::Translation(&mut l.metrics.otlp_translation_strategy),
    ),
    limit(
        "metrics.promote_otel_resource_attributes",
        "Attributes of an OTLP resource that become labels of its series.",
        |l| Slot::List(&mut l.metrics.promote_otel_resource_attributes),
    ),
    limit(
        "metrics.promote_all_otel_resource_attributes",
        "Convert all attributes of an OTLP resource to labels.",
        |l| Slot::Switch(&mut l.metrics.promote_all_otel_resource_attributes),
    ),
    limit(
        "metrics.ignore_otel_resource_attributes",
        "Attributes that promote_all_otel_resource_attributes excludes.",
        |l| Slot::List(&mut l.metrics.ignore_otel_resource_attributes),
    ),
    limit(
        "metrics.otel_keep_identifying_resource_attributes",
        "Keep service.name, service.namespace and service.instance.id as labels of target_info.",
        |l| Slot::Switch(&mut l.metrics.otel_keep_identifying_resource_attributes),
    ),
    limit(
        "metrics.promote_otel_scope_metadata",
        "Convert the name, version, schema and attributes of an OTLP scope to labels.",
        |l| Slot::Switch(&mut l.metrics.promote_otel_scope_metadata),
    ),
    limit(
        "metrics.otel_convert_histograms_to_nhcb",
        "Store OTLP histograms with explicit bounds as native ones with custom buckets.",
        |l| Slot::Switch(&mut l.metrics.otel_convert_histograms_to_nhcb),
    ),
    limit(
        "metrics.otel_native_delta_ingestion",
        "Store OTLP sums and histograms of delta temporality as they are; otherwise they are refused.",
        |l| Slot::Switch(&mut l.metrics.otel_native_delta_ingestion),
    ),
    limit(
        "metrics.otlp_delta_to_cumulative",
        "Convert OTLP sums and histograms of delta temporality to cumulative ones. Takes precedence over \
         otel_native_delta_ingestion.",
        |l| Slot::Switch(&mut l.metrics.otlp_delta_to_cumulative),
    ),
    limit(
        "metrics.otlp_delta_max_streams",
        "Maximum number of series of delta temporality that are converted at the same time; 0: no limit \
         except memory.",
        |l| Slot::Count(&mut l.metrics.otlp_delta_max_streams),
    ),
];

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
    limit("max_line_size", "Longest line.", |l| Slot::Size(&mut l.max_line_size)),
    limit("max_line_size_truncate", "Cut longer lines instead of refusing them.", |l| {
        Slot::Switch(&mut l.max_line_size_truncate)
    }),
    limit("max_body_size", "Largest request body as sent.", |l| Slot::Size(&mut l.max_body_size)),
    limit("max_decompressed_size", "Largest request body after decompression.", |l| {
        Slot::Size(&mut l.max_decompressed_size)
    }),
    limit("ingestion_rate", "Raw bytes per second; 0: no limit.", |l| Slot::Size(&mut l.ingestion_rate)),
    limit("ingestion_burst", "Raw bytes that may exceed the rate at once.", |l| {
        Slot::Size(&mut l.ingestion_burst)
    }),
    limit("reject_old_samples_max_age", "Refuse entries older than this; 0: accept any age.", |l| {
        Slot::DurationNs(&mut l.reject_old_samples_max_age)
    }),
    limit("creation_grace_period", "Refuse entries that are this far in the future.", |l| {
        Slot::DurationNs(&mut l.creation_grace_period)
    }),
    limit("max_label_name_length", "Longest label name in bytes.", |l| {
        Slot::Count(&mut l.max_label_name_length)
    }),
    limit("max_label_value_length", "Longest label value in bytes.", |l| {
        Slot::Count(&mut l.max_label_value_length)
    }),
    limit("max_label_names_per_series", "Labels per stream; 0: no limit.", |l| {
        Slot::Count(&mut l.max_label_names_per_series)
    }),
    limit("max_structured_metadata_size", "Bytes of structured metadata per entry.", |l| {
        Slot::Size(&mut l.max_structured_metadata_size)
    }),
    limit("max_structured_metadata_entries_count", "Structured-metadata pairs per entry.", |l| {
        Slot::Count(&mut l.max_structured_metadata_entries_count)
    }),
    limit("discover_log_levels", "Add detected_level to entries.", |l| {
        Slot::Switch(&mut l.discover_log_levels)
    }),
    limit("discover_service_name", "Labels tried in order for service_name; empty: none is added.", |l| {
        Slot::List(&mut l.discover_service_name)
    }),
    limit("retention_period", "Delete data older than this; 0: keep for ever.", |l| {
        Slot::DurationNs(&mut l.retention_period)
    }),
    limit(
        "retention_stream",
        "Streams that are kept for another time than retention_period, shorter or longer: rules with \
         selector, priority and period; of several that name a stream the highest priority counts, then the \
         shortest period.",
        |l| Slot::Retention(&mut l.retention_stream, Signal::Logs),
    ),
    limit(
        "deletion_mode",
        "What becomes of lines that delete requests name: disabled (the API refuses), filter-only (hidden, \
         but kept) or filter-and-delete (hidden at once, removed from the store later).",
        |l| Slot::Deletion(&mut l.deletion_mode),
    ),
    limit("max_entries_limit_per_query", "Largest limit of a log query.", |l| {
        Slot::Count(&mut l.max_entries_limit_per_query)
    }),
    limit("max_query_series", "Series in the answer of a metric query.", |l| {
        Slot::Count(&mut l.max_query_series)
    }),
    limit("max_query_length", "Longest time range of a query; 0: no limit.", |l| {
        Slot::DurationNs(&mut l.max_query_length)
    }),
    limit("max_query_range", "Longest [range] in a metric query; 0: no limit.", |l| {
        Slot::DurationNs(&mut l.max_query_range)
    }),
    limit("max_query_lookback", "Queries see no rows older than this; 0: they see all.", |l| {
        Slot::DurationNs(&mut l.max_query_lookback)
    }),
    limit("query_timeout", "A query is ended after this time, with 504.", |l| {
        Slot::DurationNs(&mut l.query_timeout)
    }),
    limit(
        "max_query_parallelism",
        "Pages that one query works on at the same time; 0: as many as there are threads.",
        |l| Slot::Count(&mut l.max_query_parallelism),
    ),
    limit(
        "split_queries_by_interval",
        "Long queries are cut at multiples of this time, where no block is cut in two, and let others \
         pass in between; 0: they are not cut.",
        |l| Slot::DurationNs(&mut l.split_queries_by_interval),
    ),
    limit(
        "max_query_bytes_read",
        "Line bytes that the streams and times of a query may hold; 0: no limit.",
        |l| Slot::Size(&mut l.max_query_bytes_read),
    ),
    limit("max_querier_bytes_read", "The same for each piece that a query is cut into; 0: no limit.", |l| {
        Slot::Size(&mut l.max_querier_bytes_read)
    }),
    limit("cardinality_limit", "Streams in an answer of the series endpoint; 0: no limit.", |l| {
        Slot::Count(&mut l.cardinality_limit)
    }),
    limit(
        "max_streams_matchers_per_query",
        "Matchers of a selector, or of all selectors of a request for series, labels or volumes; 0: none.",
        |l| Slot::Count(&mut l.max_streams_matchers_per_query),
    ),
    limit("required_labels", "Labels that every selector of a query must name.", |l| {
        Slot::List(&mut l.required_labels)
    }),
    limit("minimum_labels_number", "Matchers that every selector of a query must have.", |l| {
        Slot::Count(&mut l.minimum_labels_number)
    }),
    limit(
        "blocked_queries",
        "Queries that are refused: policies with pattern, regex, hash, types (filter, limited, metric) and \
         tags; the first that fits decides.",
        |l| Slot::Policies(&mut l.blocked_queries),
    ),
    limit(
        "max_cache_freshness_per_query",
        "Accepted without effect: cached results are valid as long as the rows behind them are the same.",
        |l| Slot::DurationNs(&mut l.max_cache_freshness_per_query),
    ),
    limit("max_query_memory", "Memory of one query; 0: half of all query memory.", |l| {
        Slot::Size(&mut l.max_query_memory)
    }),
    limit(
        "store_request_rate",
        "Requests per second that queries may make to a bucket; 0: no limit. More of them wait.",
        |l| Slot::Count(&mut l.store_request_rate),
    ),
    limit("store_request_burst", "Requests that may exceed the rate at once.", |l| {
        Slot::Count(&mut l.store_request_burst)
    }),
    limit(
        "store_read_rate",
        "Bytes per second that queries may read from a bucket; 0: no limit. More of them wait.",
        |l| Slot::Size(&mut l.store_read_rate),
    ),
    limit("store_read_burst", "Bytes that may exceed the rate at once.", |l| {
        Slot::Size(&mut l.store_read_burst)
    }),
    limit("max_concurrent_tail_requests", "Followers at a time.", |l| {
        Slot::Count(&mut l.max_concurrent_tail_requests)
    }),
    limit("volume_max_series", "Series in an answer of index/volume.", |l| {
        Slot::Count(&mut l.volume_max_series)
    }),
    limit(
        "metrics.ingestion_rate",
        "Samples, histograms, exemplars and metadata per second; 0: no limit.",
        |l| Slot::Count(&mut l.metrics.ingestion_rate),
    ),
    limit(
        "metrics.ingestion_burst_size",
        "How many of them may exceed the rate at once; 0: as many as a second allows.",
        |l| Slot::Count(&mut l.metrics.ingestion_burst_size),
    ),
    limit(
        "metrics.max_label_names_per_series",
        "Labels per series, the metric's name among them, nodes of Graphite's paths not; 0: no limit.",
        |l| Slot::Count(&mut l.metrics.max_label_names_per_series),
    ),
    limit(
        "metrics.max_graphite_path_nodes",
        "Nodes of a path of Graphite's, of which there are 64 at most; 0: no other limit.",
        |l| Slot::Count(&mut l.metrics.max_graphite_path_nodes),
    ),
    limit("metrics.max_label_name_length", "Longest label name of a series in bytes; 0: no limit.", |l| {
        Slot::Count(&mut l.metrics.max_label_name_length)
    }),
    limit("metrics.max_label_value_length", "Longest label value of a series in bytes; 0: no limit.", |l| {
        Slot::Count(&mut l.metrics.max_label_value_length)
    }),
    limit(
        "metrics.creation_grace_period",
        "Refuse samples that are this far in the future; 0: accept any.",
        |l| Slot::DurationNs(&mut l.metrics.creation_grace_period),
    ),
    limit(
        "metrics.out_of_order_time_window",
        "Refuse samples older than this. Samples may come in any order, and of two for one instant the first \
         stays; 0: accept any age.",
        |l| Slot::DurationNs(&mut l.metrics.out_of_order_time_window),
    ),
    limit(
        "metrics.retention_series",
        "The same as retention_stream for series of metrics, with selectors of PromQL.",
        |l| Slot::Retention(&mut l.metrics.retention_series, Signal::Metrics),
    ),
    limit(
        "metrics.max_global_series_per_user",
        "Series of a tenant that are in memory at once; samples of new ones beyond are refused, about. 0: no \
         limit.",
        |l| Slot::Count(&mut l.metrics.max_global_series_per_user),
    ),
    limit("metrics.max_native_histogram_buckets", "Buckets of a native histogram; 0: no limit.", |l| {
        Slot::Count(&mut l.metrics.max_native_histogram_buckets)
    }),
    limit(
        "metrics.otlp_translation_strategy",
        "How names of OTLP become names of metrics and labels: UnderscoreEscapingWithSuffixes, \
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
        "Make labels of all attributes of an OTLP resource.",
        |l| Slot::Switch(&mut l.metrics.promote_all_otel_resource_attributes),
    ),
    limit(
        "metrics.ignore_otel_resource_attributes",
        "Attributes that promote_all_otel_resource_attributes leaves out.",
        |l| Slot::List(&mut l.metrics.ignore_otel_resource_attributes),
    ),
    limit(
        "metrics.otel_keep_identifying_resource_attributes",
        "Keep service.name, service.namespace and service.instance.id as labels of target_info.",
        |l| Slot::Switch(&mut l.metrics.otel_keep_identifying_resource_attributes),
    ),
    limit(
        "metrics.promote_otel_scope_metadata",
        "Make labels of the name, version, schema and attributes of an OTLP scope.",
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
        "Add OTLP sums and histograms of delta temporality up to cumulative ones. Goes before \
         otel_native_delta_ingestion.",
        |l| Slot::Switch(&mut l.metrics.otlp_delta_to_cumulative),
    ),
    limit(
        "metrics.otlp_delta_max_streams",
        "Series of delta temporality that are added up at once; 0: no limit but memory.",
        |l| Slot::Count(&mut l.metrics.otlp_delta_max_streams),
    ),
];

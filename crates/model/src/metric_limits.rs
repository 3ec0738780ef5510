//! Limits on samples per tenant, with their defaults. Limits that Mimir has too have Mimir's names. They
//! are grouped under `metrics`, because some limits on lines have the same names and other values.

use serde::Deserialize;

use crate::retention::RetentionRules;

/// What a tenant may send as samples. Sizes are in bytes, times in nanoseconds; for counts and rates,
/// zero means "no limit".
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct MetricLimits {
    /// Samples, histograms, exemplars and metadata per second of the tenant; 0: no limit.
    pub ingestion_rate: u64,
    /// Items by which a burst may exceed the rate; 0: as many as one second permits.
    pub ingestion_burst_size: u64,
    /// Labels per series, including the metric name; 0: no limit.
    pub max_label_names_per_series: u64,
    /// Nodes of a Graphite path, which do not count as labels; 0:
    /// [`GRAPHITE_NODES_MAX`](crate::GRAPHITE_NODES_MAX).
    pub max_graphite_path_nodes: u64,
    /// Longest label name in bytes.
    pub max_label_name_length: u64,
    /// Longest label value in bytes.
    pub max_label_value_length: u64,
    /// Refuse samples this far in the future, in nanoseconds; 0: accept any.
    pub creation_grace_period: i64,
    /// Refuse samples older than this, in nanoseconds; 0: accept any age.
    pub out_of_order_time_window: i64,
    /// Retention of series that a rule selects; all others are kept for the tenant's `retention_period`.
    #[serde(skip)]
    pub retention_series: RetentionRules,
    /// Buckets of a native histogram; 0: no limit.
    pub max_native_histogram_buckets: u64,
    /// Series of the tenant in all heads together; new series beyond this are refused. 0: no limit.
    pub max_global_series_per_user: u64,
    /// How OTLP names become metric and label names.
    pub otlp_translation_strategy: TranslationStrategy,
    /// Attributes of an OTLP resource that become labels of its series.
    pub promote_otel_resource_attributes: Vec<String>,
    /// Turn all attributes of an OTLP resource into labels.
    pub promote_all_otel_resource_attributes: bool,
    /// Attributes that `promote_all_otel_resource_attributes` does not turn into labels.
    pub ignore_otel_resource_attributes: Vec<String>,
    /// Keep `service.name`, `service.namespace` and `service.instance.id` as labels of `target_info`.
    pub otel_keep_identifying_resource_attributes: bool,
    /// Turn the name, version and attributes of an OTLP scope into labels.
    pub promote_otel_scope_metadata: bool,
    /// Store histograms with explicit bounds as native ones with custom buckets.
    pub otel_convert_histograms_to_nhcb: bool,
    /// Store sums and histograms of delta temporality unchanged; otherwise they are refused.
    pub otel_native_delta_ingestion: bool,
    /// Convert sums and histograms of delta temporality to cumulative ones; takes precedence over
    /// `otel_native_delta_ingestion`.
    pub otlp_delta_to_cumulative: bool,
    /// Series of delta temporality that are converted at once; new series beyond this are refused. 0:
    /// bounded only by memory.
    pub otlp_delta_max_streams: u64,
}

/// How OTLP names become metric and label names; Prometheus calls it `translation_strategy`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Deserialize)]
pub enum TranslationStrategy {
    /// Characters outside of `[a-zA-Z0-9_:]` become `_`; the unit and `_total` are appended.
    #[default]
    UnderscoreEscapingWithSuffixes,
    /// Characters outside of `[a-zA-Z0-9_:]` become `_`; nothing is appended.
    UnderscoreEscapingWithoutSuffixes,
    /// Names stay unchanged; the unit and `_total` are appended.
    NoUTF8EscapingWithSuffixes,
    /// Names stay unchanged.
    NoTranslation,
}

impl TranslationStrategy {
    /// Every strategy, in the order in which messages list them.
    pub const ALL: [Self; 4] = [
        Self::UnderscoreEscapingWithSuffixes,
        Self::UnderscoreEscapingWithoutSuffixes,
        Self::NoUTF8EscapingWithSuffixes,
        Self::NoTranslation,
    ];

    /// The name of the strategy in configurations.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::UnderscoreEscapingWithSuffixes => "UnderscoreEscapingWithSuffixes",
            Self::UnderscoreEscapingWithoutSuffixes => "UnderscoreEscapingWithoutSuffixes",
            Self::NoUTF8EscapingWithSuffixes => "NoUTF8EscapingWithSuffixes",
            Self::NoTranslation => "NoTranslation",
        }
    }

    /// The strategy with this name.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|strategy| strategy.as_str() == name)
    }

    /// Whether characters that older versions of Prometheus do not accept are replaced.
    pub fn escapes(self) -> bool {
        matches!(self, Self::UnderscoreEscapingWithSuffixes | Self::UnderscoreEscapingWithoutSuffixes)
    }

    /// Whether unit and type are appended to the metric name.
    pub fn adds_suffixes(self) -> bool {
        matches!(self, Self::UnderscoreEscapingWithSuffixes | Self::NoUTF8EscapingWithSuffixes)
    }
}

impl Default for MetricLimits {
    fn default() -> Self {
        Self {
            ingestion_rate: 0,
            ingestion_burst_size: 0,
            max_label_names_per_series: 30,
            max_graphite_path_nodes: crate::GRAPHITE_NODES_MAX as u64,
            max_label_name_length: 1024,
            max_label_value_length: 2048,
            creation_grace_period: 10 * crate::MINUTE_NS,
            out_of_order_time_window: 0,
            retention_series: RetentionRules::default(),
            max_native_histogram_buckets: 0,
            max_global_series_per_user: 0,
            otlp_translation_strategy: TranslationStrategy::default(),
            promote_otel_resource_attributes: Vec::new(),
            promote_all_otel_resource_attributes: false,
            ignore_otel_resource_attributes: Vec::new(),
            otel_keep_identifying_resource_attributes: false,
            promote_otel_scope_metadata: false,
            otel_convert_histograms_to_nhcb: false,
            otel_native_delta_ingestion: false,
            otlp_delta_to_cumulative: false,
            otlp_delta_max_streams: 500_000,
        }
    }
}

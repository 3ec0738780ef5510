//! OTLP metrics in JSON: the field tables for their translation to protobuf.

use crate::error::Error;
use crate::memory::DecoderMemory;
use crate::otlp_json::Kind::{
    Bool, Double, Fixed64, Hex, Integer, Message, Records, SignedFixed64, Text, Zigzag,
};
use crate::otlp_json::{Field, KEY_VALUE, RESOURCE, SCOPE, translate_as};

/// Returns the protobuf form of a JSON request.
pub(super) fn translate(body: &[u8], memory: &DecoderMemory) -> Result<Vec<u8>, Error> {
    translate_as(&REQUEST, body, memory)
}

static REQUEST: [Field; 1] = [Field("resourceMetrics", "resource_metrics", 1, Records(&RESOURCE_METRICS))];
static RESOURCE_METRICS: [Field; 3] = [
    Field("resource", "resource", 1, Message(&RESOURCE)),
    Field("scopeMetrics", "scope_metrics", 2, Records(&SCOPE_METRICS)),
    Field("schemaUrl", "schema_url", 3, Text),
];
static SCOPE_METRICS: [Field; 3] = [
    Field("scope", "scope", 1, Message(&SCOPE)),
    Field("metrics", "metrics", 2, Records(&METRIC)),
    Field("schemaUrl", "schema_url", 3, Text),
];
static METRIC: [Field; 8] = [
    Field("name", "name", 1, Text),
    Field("description", "description", 2, Text),
    Field("unit", "unit", 3, Text),
    Field("gauge", "gauge", 5, Records(&NUMBERS)),
    Field("sum", "sum", 7, Records(&NUMBERS)),
    Field("histogram", "histogram", 9, Records(&HISTOGRAMS)),
    Field("exponentialHistogram", "exponential_histogram", 10, Records(&EXPONENTIALS)),
    Field("summary", "summary", 11, Records(&SUMMARIES)),
];
static NUMBERS: [Field; 3] = [
    Field("dataPoints", "data_points", 1, Records(&NUMBER_POINT)),
    Field("aggregationTemporality", "aggregation_temporality", 2, Integer),
    Field("isMonotonic", "is_monotonic", 3, Bool),
];
static HISTOGRAMS: [Field; 2] = [
    Field("dataPoints", "data_points", 1, Records(&HISTOGRAM_POINT)),
    Field("aggregationTemporality", "aggregation_temporality", 2, Integer),
];
static EXPONENTIALS: [Field; 2] = [
    Field("dataPoints", "data_points", 1, Records(&EXPONENTIAL_POINT)),
    Field("aggregationTemporality", "aggregation_temporality", 2, Integer),
];
static SUMMARIES: [Field; 1] = [Field("dataPoints", "data_points", 1, Records(&SUMMARY_POINT))];
static NUMBER_POINT: [Field; 7] = [
    Field("startTimeUnixNano", "start_time_unix_nano", 2, Fixed64),
    Field("timeUnixNano", "time_unix_nano", 3, Fixed64),
    Field("asDouble", "as_double", 4, Double),
    Field("exemplars", "exemplars", 5, Message(&EXEMPLAR)),
    Field("asInt", "as_int", 6, SignedFixed64),
    Field("attributes", "attributes", 7, Message(&KEY_VALUE)),
    Field("flags", "flags", 8, Integer),
];
static HISTOGRAM_POINT: [Field; 9] = [
    Field("startTimeUnixNano", "start_time_unix_nano", 2, Fixed64),
    Field("timeUnixNano", "time_unix_nano", 3, Fixed64),
    Field("count", "count", 4, Fixed64),
    Field("sum", "sum", 5, Double),
    Field("bucketCounts", "bucket_counts", 6, Fixed64),
    Field("explicitBounds", "explicit_bounds", 7, Double),
    Field("exemplars", "exemplars", 8, Message(&EXEMPLAR)),
    Field("attributes", "attributes", 9, Message(&KEY_VALUE)),
    Field("flags", "flags", 10, Integer),
];
static EXPONENTIAL_POINT: [Field; 11] = [
    Field("attributes", "attributes", 1, Message(&KEY_VALUE)),
    Field("startTimeUnixNano", "start_time_unix_nano", 2, Fixed64),
    Field("timeUnixNano", "time_unix_nano", 3, Fixed64),
    Field("count", "count", 4, Fixed64),
    Field("sum", "sum", 5, Double),
    Field("scale", "scale", 6, Zigzag),
    Field("zeroCount", "zero_count", 7, Fixed64),
    Field("positive", "positive", 8, Message(&BUCKETS)),
    Field("negative", "negative", 9, Message(&BUCKETS)),
    Field("flags", "flags", 10, Integer),
    Field("exemplars", "exemplars", 11, Message(&EXEMPLAR)),
];
static BUCKETS: [Field; 2] =
    [Field("offset", "offset", 1, Zigzag), Field("bucketCounts", "bucket_counts", 2, Integer)];
static SUMMARY_POINT: [Field; 7] = [
    Field("startTimeUnixNano", "start_time_unix_nano", 2, Fixed64),
    Field("timeUnixNano", "time_unix_nano", 3, Fixed64),
    Field("count", "count", 4, Fixed64),
    Field("sum", "sum", 5, Double),
    Field("quantileValues", "quantile_values", 6, Message(&QUANTILE)),
    Field("attributes", "attributes", 7, Message(&KEY_VALUE)),
    Field("flags", "flags", 8, Integer),
];
static QUANTILE: [Field; 2] = [Field("quantile", "quantile", 1, Double), Field("value", "value", 2, Double)];
static EXEMPLAR: [Field; 6] = [
    Field("timeUnixNano", "time_unix_nano", 2, Fixed64),
    Field("asDouble", "as_double", 3, Double),
    Field("spanId", "span_id", 4, Hex),
    Field("traceId", "trace_id", 5, Hex),
    Field("asInt", "as_int", 6, SignedFixed64),
    Field("filteredAttributes", "filtered_attributes", 7, Message(&KEY_VALUE)),
];

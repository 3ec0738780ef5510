//! Loki's HTTP API: one file per endpoint.
//!
//! Formats, status codes and texts are those of Loki 3.7, checked against its answers.

pub mod cache_generation;
pub mod delete_cancel;
pub mod delete_create;
pub mod delete_list;
pub mod deletes;
pub mod detected_field_values;
pub mod detected_fields;
pub mod detected_labels;
pub mod drilldown_limits;
mod fields;
pub mod format_query;
pub mod index_stats;
pub mod index_volume;
pub mod index_volume_range;
pub mod label_names;
pub mod label_values;
pub mod otlp;
pub mod otlp_grpc;
pub mod patterns;
pub mod push;
pub mod queries;
pub mod query;
pub mod query_range;
pub mod series;
pub mod tail;
mod volume;

//! Prometheus's HTTP API over samples: one file per endpoint.
//!
//! Formats, status codes and error texts are those of Prometheus 3, checked against its sources. Paths
//! begin with `/api/v1` and `/prometheus/api/v1`. Loki's paths are different, so one port serves both.

pub mod alertmanagers;
pub mod clean_tombstones;
pub mod delete_series;
pub mod features;
pub mod federate;
pub mod format_query;
mod instants;
pub mod label_names;
pub mod label_values;
pub mod metadata;
mod numbers;
mod params;
pub mod parse_query;
pub mod queries;
pub mod query;
pub mod query_exemplars;
pub mod query_range;
pub mod read;
mod read_chunks;
mod read_request;
mod refused;
pub mod reply;
mod result;
pub mod scrape_pools;
mod search;
pub mod search_label_names;
pub mod search_label_values;
pub mod search_metric_names;
mod search_score;
mod selectors;
pub mod series;
pub mod snapshot;
mod statistics;
pub mod status_build_info;
pub mod status_config;
pub mod status_flags;
pub mod status_runtime_info;
pub mod status_tsdb;
pub mod status_tsdb_blocks;
pub mod status_wal_replay;
mod streamed;
pub mod target_metadata;
pub mod targets;

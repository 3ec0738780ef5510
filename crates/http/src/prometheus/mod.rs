//! Prometheus's HTTP API over samples: one file per endpoint, or for several that share their code.
//!
//! Formats, status codes and error texts are those of Prometheus 3, checked against its sources. Paths
//! begin with `/api/v1` and `/prometheus/api/v1`. Loki's paths are different, so one port serves both.

pub mod admin;
pub mod delete_series;
pub mod expressions;
pub mod features;
pub mod federate;
mod instants;
pub mod labels;
pub mod metadata;
mod numbers;
mod params;
pub mod queries;
pub mod query;
pub mod query_exemplars;
pub mod query_range;
pub mod read;
mod read_chunks;
mod read_request;
pub mod refused;
pub mod reply;
mod result;
mod search;
mod search_score;
pub mod searches;
mod selectors;
pub mod series_differences;
mod statistics;
pub mod status;
pub mod status_tsdb;
pub mod status_tsdb_blocks;
mod streamed;
pub mod targets;

//! Prometheus's HTTP API over samples: one file per endpoint.
//!
//! Shapes, statuses and texts are those of Prometheus 3, checked against its sources. Paths stand below
//! `/api/v1` and `/prometheus/api/v1`; Loki's are others, so both are served on one port.

mod evaluate;
pub mod format_query;
pub mod label_names;
pub mod label_values;
mod numbers;
mod params;
pub mod parse_query;
pub mod queries;
pub mod query;
pub mod query_range;
mod refused;
mod reply;
mod result;
mod selectors;
pub mod series;
mod statistics;
mod steps;
mod visible;

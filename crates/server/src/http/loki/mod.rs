//! Loki's HTTP API: one file per group of endpoints.
//!
//! Shapes, statuses and texts are those of Loki 3.7, checked against its answers.

mod detected;
mod format_query;
mod labels;
mod push;
mod queries;
mod selector;
mod tail;
mod volume;

use axum::Router;
use axum::routing::{get, post};

use super::app::App;

/// Routes of Loki's API.
pub fn routes() -> Router<App> {
    Router::new()
        .route("/loki/api/v1/push", post(push::loki))
        .route("/api/prom/push", post(push::loki))
        .route("/otlp/v1/logs", post(push::otlp))
        .route("/loki/api/v1/query", get(queries::instant).post(queries::instant))
        .route("/loki/api/v1/query_range", get(queries::range).post(queries::range))
        .route("/loki/api/v1/labels", get(labels::names).post(labels::names))
        .route("/loki/api/v1/label", get(labels::names).post(labels::names))
        .route("/loki/api/v1/label/{name}/values", get(labels::values).post(labels::values))
        .route("/loki/api/v1/series", get(labels::series).post(labels::series))
        .route("/loki/api/v1/index/stats", get(volume::stats).post(volume::stats))
        .route("/loki/api/v1/index/volume", get(volume::instant).post(volume::instant))
        .route("/loki/api/v1/index/volume_range", get(volume::range).post(volume::range))
        .route("/loki/api/v1/detected_labels", get(detected::labels).post(detected::labels))
        .route("/loki/api/v1/detected_fields", get(detected::fields).post(detected::fields))
        .route("/loki/api/v1/detected_field/{name}/values", get(detected::values).post(detected::values))
        .route("/loki/api/v1/format_query", get(format_query::format).post(format_query::format))
        .route("/loki/api/v1/tail", get(tail::tail))
        .route("/api/prom/tail", get(tail::tail))
}

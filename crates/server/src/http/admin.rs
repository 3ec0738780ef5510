//! Operations: readiness, metrics, build information, flush, and the small pages that Loki's tools
//! look at.

use std::fmt::Write;

use axum::Router;
use axum::extract::State;
use axum::http::HeaderValue;
use axum::response::Response;
use axum::routing::{get, post};
use sandur_base::{ErrorKind, machine};

use super::app::App;
use super::call::Call;
use super::failure::Failure;
use super::metrics::page;
use super::reply;
use crate::config::{LIMITS, Named};

/// Routes of operations.
pub fn routes() -> Router<App> {
    Router::new()
        .route("/ready", get(ready))
        .route("/-/ready", get(ready))
        .route("/healthy", get(healthy))
        .route("/-/healthy", get(healthy))
        .route("/metrics", get(metrics))
        .route("/flush", post(flush))
        .route("/services", get(services))
        .route("/config", get(config))
        .route("/config/tenant/v1/limits", get(tenant_limits))
        .route("/loki/api/v1/status/buildinfo", get(build_info))
        .route("/loki/api/v1/drilldown-limits", get(drilldown_limits))
}

async fn ready(State(app): State<App>) -> Result<Response, Failure> {
    if !app.is_ready() {
        return Err(Failure::new(ErrorKind::Unavailable, "not ready: starting or stopping\n"));
    }
    app.intake.writable().map_err(|f| Failure::new(ErrorKind::Unavailable, f.message))?;
    Ok(reply::text("ready\n"))
}

async fn healthy() -> Response {
    reply::text("healthy\n")
}

async fn metrics(State(app): State<App>) -> Response {
    let kind = HeaderValue::from_static("application/openmetrics-text; version=1.0.0; charset=utf-8");
    observe(&app);
    reply::with_type(kind, page(&app.registry).into())
}

/// Brings gauges up to date.
fn observe(app: &App) {
    app.intake.observe();
    let metrics = &app.metrics;
    metrics.queries_running.set(app.queue.running() as i64);
    metrics.queries_waiting.set(app.queue.waiting() as i64);
    metrics.followers.set(app.followers.total() as i64);
    metrics.observe_budget(&app.query_memory);
    metrics.observe_budget(&app.request_memory);
    if let Some(resident) = machine::resident_bytes() {
        metrics.resident_bytes.set(resident as i64);
    }
}

async fn flush(State(app): State<App>) -> Result<Response, Failure> {
    app.intake.flush().await?;
    Ok(reply::empty())
}

async fn services(State(app): State<App>) -> Response {
    let state = if app.is_ready() { "Running" } else { "Stopping" };
    let names = ["server", "distributor", "ingester", "querier", "compactor"];
    reply::text(names.iter().map(|n| format!("{n} => {state}\n")).collect::<String>())
}

/// The configuration in effect, as it would stand in the file. It holds no secrets: those come from
/// the environment of the store's provider only.
async fn config(State(app): State<App>) -> Response {
    let mut settings = app.settings.clone();
    let mut page = String::new();
    let mut group = String::new();
    for named in Named::every() {
        let (of, key) = named.key.split_once('.').unwrap_or(("", &named.key));
        if of != group {
            // Writing to a String cannot fail.
            let _ = writeln!(page, "\n[{of}]");
            of.clone_into(&mut group);
        }
        let value =
            if key == "store" { without_secrets(&settings.store) } else { named.slot(&mut settings).print() };
        let _ = writeln!(page, "{key} = {value:?}");
    }
    reply::text(page)
}

/// The part of a store URL that may be shown: user information is left out.
pub fn without_secrets(url: &str) -> String {
    let Some((scheme, rest)) = url.split_once("://") else { return url.to_owned() };
    let end = rest.find(['/', '?']).unwrap_or(rest.len());
    match rest[..end].rfind('@') {
        Some(at) => format!("{scheme}://{}", &rest[at + 1..]),
        None => url.to_owned(),
    }
}

async fn tenant_limits(State(app): State<App>, call: Call) -> Response {
    let mut limits = app.limits(&call.tenant).clone();
    let line =
        |spec: &crate::config::LimitSpec| format!("{}: {:?}\n", spec.key, (spec.slot)(&mut limits).print());
    reply::text(LIMITS.iter().map(line).collect::<String>())
}

async fn build_info() -> Response {
    let version = env!("CARGO_PKG_VERSION");
    // goVersion is there because clients decode it; there is no Go in here.
    let body = format!(
        "{{\"version\":\"{version}\",\"revision\":\"\",\"branch\":\"\",\"buildUser\":\"\",\
         \"buildDate\":\"\",\"goVersion\":\"\"}}\n"
    );
    reply::json(body.into_bytes())
}

async fn drilldown_limits(State(app): State<App>, call: Call) -> Response {
    let limits = app.limits(&call.tenant);
    let body = serde_json::json!({
        "limits": {
            "discover_log_levels": limits.discover_log_levels,
            "discover_service_name": limits.discover_service_name,
            "max_entries_limit_per_query": limits.max_entries_limit_per_query,
            "max_line_size_truncate": limits.max_line_size_truncate,
            "max_query_series": limits.max_query_series,
            "query_timeout": format!("{}s", limits.query_timeout / 1_000_000_000),
            "volume_enabled": true,
            "volume_max_series": limits.volume_max_series,
        },
        "pattern_ingester_enabled": false,
        "version": env!("CARGO_PKG_VERSION"),
    });
    reply::json(body.to_string().into_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn user_information_is_not_shown() {
        assert_eq!(without_secrets("s3://key:secret@bucket/p?region=x"), "s3://bucket/p?region=x");
        assert_eq!(without_secrets("file://./a@b"), "file://./a@b");
        assert_eq!(without_secrets("./sandur-data"), "./sandur-data");
    }
}

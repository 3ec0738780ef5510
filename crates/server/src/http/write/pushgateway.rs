//! `metrics/job/...`: what jobs push to a Pushgateway.
//!
//! Nothing is kept between pushes: what is pushed is stored as samples of now. A group therefore ends five
//! minutes after its last push, PUT is as POST, and there is nothing to DELETE.

use axum::extract::{Path, Request, State};
use axum::http::StatusCode;
use axum::response::Response;
use axum::routing::on;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use sandur_ingest::ImportOptions;

use super::import::store;
use crate::failed_request::Failure;
use crate::http::app::App;
use crate::http::route::{Access, Group, Route, Verb, parameter};

/// This endpoint.
pub static ROUTE: Route = Route {
    methods: &[Verb::Post, Verb::Put],
    paths: &["/metrics/{*group}", "/api/v1/import/prometheus/metrics/{*group}"],
    group: Group::Write,
    scope: Access::Write,
    does: "Stores samples as a Pushgateway takes them, as samples of now with the labels of the path. \
           Nothing is kept between pushes: a series ends five minutes after its last push, PUT replaces \
           nothing, and there is no DELETE.",
    parameters: &[parameter(
        "{group}",
        "part of the path: `job/NAME` and any number of `/LABEL/VALUE`; `LABEL@base64` has a value in base \
         64",
    )],
    answers: "200.",
    fails: "like `import/prometheus`.",
    several_tenants: false,
    handler: |verbs| on(verbs, gateway),
};

async fn gateway(
    State(app): State<App>,
    Path(group): Path<String>,
    request: Request,
) -> Result<Response, Failure> {
    let options = ImportOptions { extra_labels: labels(&group)?, time_ms: None };
    let mut response = store(&app, request, options).await?;
    *response.status_mut() = StatusCode::OK;
    Ok(response)
}

/// The labels that a path names.
fn labels(group: &str) -> Result<Vec<(String, String)>, Failure> {
    let mut parts = group.split('/');
    let mut labels = Vec::new();
    while let Some(name) = parts.next().filter(|name| !name.is_empty()) {
        let value = parts.next().ok_or_else(|| Failure::invalid(format!("label '{name}' has no value")))?;
        let (name, value) = match name.strip_suffix("@base64") {
            Some(name) => (name, decoded(value)?),
            None => (name, value.to_owned()),
        };
        labels.push((name.to_owned(), value));
    }
    match labels.first() {
        Some((name, job)) if name == "job" && !job.is_empty() => Ok(labels),
        _ => Err(Failure::invalid("job name is required: /metrics/job/NAME")),
    }
}

fn decoded(value: &str) -> Result<String, Failure> {
    let bytes = URL_SAFE_NO_PAD.decode(value.trim_end_matches('=')).ok();
    let text = bytes.and_then(|bytes| String::from_utf8(bytes).ok());
    text.ok_or_else(|| Failure::invalid(format!("'{value}' is no text in URL-safe base 64")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_names_its_labels() {
        let named = |path: &str| {
            let labels = labels(path).map_err(|failure| failure.message)?;
            Ok::<_, String>(labels.iter().map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>())
        };
        assert_eq!(named("job/a/instance/b"), Ok(vec!["job=a".to_owned(), "instance=b".to_owned()]));
        assert_eq!(named("job@base64/YS9i/x/"), Ok(vec!["job=a/b".to_owned(), "x=".to_owned()]));
        for path in ["", "job", "job/", "instance/b", "job@base64/~", "job/a/x"] {
            assert!(named(path).is_err(), "{path}");
        }
    }
}

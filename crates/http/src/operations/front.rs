//! `/`: a page that names the program and its most important paths.
//!
//! It contains nothing about the data, the store or the machine, so every credential may read it.

use axum::http::{HeaderMap, HeaderValue, header};
use axum::response::Response;
use bytes::Bytes;

use crate::reply;
use crate::route::{Access, GET, Group, Handler, Route};

/// The row of this endpoint in the table of routes.
pub static ROUTE: Route = Route {
    methods: GET,
    paths: &["/"],
    scope: Access::Credential,
    does: "The version of the program and its most important paths.",
    answers: "200, HTML for clients that accept it, otherwise text.",
    handler: |request, app| front.call(request, app),
    ..Route::of(Group::Operations)
};

/// A path that the page names, with its purpose.
struct Place {
    does: &'static str,
    path: &'static str,
    is_link: bool,
}

const fn link(path: &'static str, does: &'static str) -> Place {
    Place { does, path, is_link: true }
}

const fn word(path: &'static str, does: &'static str) -> Place {
    Place { does, path, is_link: false }
}

/// The paths of the page.
const PLACES: &[Place] = &[
    word("/loki/api/v1/push", "push lines here: Promtail, Alloy, Vector, Fluent Bit, `sandur push`"),
    word("/api/v1/write", "send metrics here: remote_write of Prometheus and others"),
    word("/graphite/carbon", "send Graphite points here, or by carbon's protocols to `carbon.listen`"),
    word("/otlp/v1/logs", "logs of OpenTelemetry; the collector's endpoint is /otlp"),
    word("/otlp/v1/metrics", "metrics of OpenTelemetry"),
    word("/loki/api/v1/query_range", "query logs here: Grafana's Loki data source, logcli, `sandur query`"),
    word("/api/v1/query_range", "query metrics here: Grafana's Prometheus data source, promtool"),
    word("/render", "query Graphite here: Grafana's Graphite data source, with the URL of this page"),
    link("/loki/api/v1/labels", "labels of logs of the last hour"),
    link("/api/v1/labels", "labels of metrics"),
    link("/metrics/find?query=*", "the first nodes of Graphite's paths"),
    link("/ready", "whether it is ready for requests"),
    link("/metrics", "metrics for Prometheus"),
    link("/config", "the configuration in effect"),
    link("/services", "the parts of this process"),
    link("/sandur/store", "requests to the store and their cost"),
    link("/loki/api/v1/status/buildinfo", "version"),
    word("docs/reference/http-api.md", "every endpoint, in the source tree"),
    word("docs/reference/logql.md", "the query language of logs; see also promql.md and graphite.md"),
    word("docs/operations.md", "the guide for operators"),
];

const VERSION: &str = env!("CARGO_PKG_VERSION");

const WHAT: &str = "a database for logs, Prometheus metrics and Graphite metrics. It speaks the protocols of \
                    Loki, Prometheus, Graphite and OpenTelemetry.";

async fn front(headers: HeaderMap) -> Response {
    let wants_html = headers.get_all(header::ACCEPT).iter().any(|accept| {
        accept.to_str().is_ok_and(|accept| accept.split(',').any(|kind| kind.trim().starts_with("text/html")))
    });
    let mut response = if wants_html {
        reply::with_type(HeaderValue::from_static("text/html; charset=utf-8"), Bytes::from(html()))
    } else {
        reply::text(text())
    };
    response.headers_mut().insert(header::VARY, HeaderValue::from_static("Accept"));
    response
}

fn text() -> String {
    let width = PLACES.iter().map(|place| place.path.len()).max().unwrap_or(0);
    let line = |place: &Place| format!("  {:width$}  {}\n", place.path, place.does);
    let lines: String = PLACES.iter().map(line).collect();
    format!("Sandur {VERSION}: {WHAT}\n\n{lines}")
}

fn html() -> String {
    let row = |place: &Place| {
        let Place { path, does, is_link } = place;
        let shown =
            if *is_link { format!("<a href=\"{path}\">{path}</a>") } else { format!("<code>{path}</code>") };
        format!("<tr><td>{shown}</td><td>{does}</td></tr>\n")
    };
    let rows: String = PLACES.iter().map(row).collect();
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n<title>Sandur</title>\n\
         <h1>Sandur {VERSION}</h1>\n<p>{WHAT}\n<table>\n{rows}</table>\n</html>\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::routes::ROUTES;

    #[test]
    fn every_path_is_a_route_or_a_page() {
        let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../../");
        for Place { path, .. } in PLACES {
            let is_route =
                ROUTES.iter().any(|route| route.paths.contains(&path.split('?').next().unwrap_or_default()));
            assert!(is_route || std::path::Path::new(root).join(path).is_file(), "{path}");
        }
    }
}

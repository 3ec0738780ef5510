//! `/`: for programs a text that names the most important paths, for people the explorer.
//!
//! The text contains nothing about the data, the store or the machine, so every credential may read it. The
//! redirect to the explorer needs none: the explorer asks for a token.

use axum::http::{HeaderMap, HeaderValue, header};
use axum::response::Response;

use crate::explorer::pages;
use crate::reply;
use crate::route::{Access, GET, Group, Handler, Route};

/// The row of this endpoint in the table of routes.
pub static ROUTE: Route = Route {
    methods: GET,
    paths: &["/"],
    scope: Access::Credential,
    open_to: wants_html,
    does: "The version of the program and its most important paths. Clients that accept HTML are sent to \
           the explorer, without a credential.",
    answers: "200, text; 302 to `explore/logs` for clients that accept HTML.",
    handler: |request, app| front.call(request, app),
    ..Route::of(Group::Operations)
};

/// A path that the page names, with its purpose.
struct Place {
    does: &'static str,
    path: &'static str,
}

const fn place(path: &'static str, does: &'static str) -> Place {
    Place { does, path }
}

/// The paths of the page.
const PLACES: &[Place] = &[
    place("/explore/", "the explorer, a page for browsers"),
    place("/loki/api/v1/push", "push lines here: Promtail, Alloy, Vector, Fluent Bit, `sandur push`"),
    place("/api/v1/write", "send metrics here: remote_write of Prometheus and others"),
    place("/graphite/carbon", "send Graphite points here, or by carbon's protocols to `carbon.listen`"),
    place("/otlp/v1/logs", "logs of OpenTelemetry; the collector's endpoint is /otlp"),
    place("/otlp/v1/metrics", "metrics of OpenTelemetry"),
    place("/loki/api/v1/query_range", "query logs here: Grafana's Loki data source, logcli, `sandur query`"),
    place("/api/v1/query_range", "query metrics here: Grafana's Prometheus data source, promtool"),
    place("/render", "query Graphite here: Grafana's Graphite data source, with the URL of this page"),
    place("/loki/api/v1/labels", "labels of logs of the last hour"),
    place("/api/v1/labels", "labels of metrics"),
    place("/metrics/find?query=*", "the first nodes of Graphite's paths"),
    place("/ready", "whether it is ready for requests"),
    place("/metrics", "metrics for Prometheus"),
    place("/config", "the configuration in effect"),
    place("/services", "the parts of this process"),
    place("/sandur/cluster", "the nodes that share the store"),
    place("/sandur/store", "requests to the store and their cost"),
    place("/loki/api/v1/status/buildinfo", "version"),
    place("docs/reference/http-api.md", "every endpoint, in the source tree"),
    place("docs/reference/logql.md", "the query language of logs; see also promql.md and graphite.md"),
    place("docs/operations.md", "the guide for operators"),
];

const VERSION: &str = env!("CARGO_PKG_VERSION");

const WHAT: &str = "a database for logs, Prometheus metrics and Graphite metrics. It speaks the protocols of \
                    Loki, Prometheus, Graphite and OpenTelemetry.";

async fn front(headers: HeaderMap) -> Response {
    let mut response = if wants_html(&headers) { pages::moved("explore/logs") } else { reply::text(text()) };
    response.headers_mut().insert(header::VARY, HeaderValue::from_static("Accept"));
    response
}

/// Whether the client is a browser that shows a page to a person.
fn wants_html(headers: &HeaderMap) -> bool {
    headers.get_all(header::ACCEPT).iter().any(|accept| {
        accept.to_str().is_ok_and(|accept| accept.split(',').any(|kind| kind.trim().starts_with("text/html")))
    })
}

fn text() -> String {
    let width = PLACES.iter().map(|place| place.path.len()).max().unwrap_or(0);
    let line = |place: &Place| format!("  {:width$}  {}\n", place.path, place.does);
    let lines: String = PLACES.iter().map(line).collect();
    format!("Sandur {VERSION}: {WHAT}\n\n{lines}")
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

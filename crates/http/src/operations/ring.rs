//! Loki's ring pages. Processes share a bucket and need no ring, so each shows only itself.

use axum::extract::State;
use axum::http::{HeaderMap, HeaderValue, header};
use axum::response::Response;

use crate::app::App;
use crate::reply;
use crate::route::{Access, GET_POST, Group, Handler, Route};

/// The row of this endpoint in the table of routes.
pub static ROUTE: Route = Route {
    methods: GET_POST,
    paths: &[
        "/ring",
        "/distributor/ring",
        "/ruler/ring",
        "/compactor/ring",
        "/indexgateway/ring",
        "/scheduler/ring",
        "/pattern/ring",
    ],
    scope: Access::Credential,
    does: "This process as the only member of a ring: processes share a bucket and need no ring.",
    answers: "200, a line of text, or with `Accept: application/json` \
              `{\"shards\":[{\"id\",\"state\",\"address\",..}],\"now\"}`.",
    handler: |request, app| ring.call(request, app),
    ..Route::of(Group::Operations)
};

async fn ring(State(app): State<App>, headers: HeaderMap) -> Response {
    let state = if app.is_ready() { "ACTIVE" } else { "LEAVING" };
    let address = &app.settings.listen;
    let accepted = headers.get(header::ACCEPT).and_then(|v| v.to_str().ok()).unwrap_or("");
    if !accepted.contains("application/json") {
        return reply::text(format!("{address} {state}\nProcesses share the bucket; there is no ring.\n"));
    }
    let now = jiff::Timestamp::from_nanosecond(i128::from(app.env.now_ns())).unwrap_or_default().to_string();
    let member = serde_json::json!({
        "id": address,
        "state": state,
        "address": address,
        "timestamp": now,
        "zone": "",
        "tokens": [],
    });
    let body = serde_json::json!({ "shards": [member], "now": now });
    reply::with_type(HeaderValue::from_static("application/json"), body.to_string().into())
}

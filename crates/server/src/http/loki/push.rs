//! `push`: lines by Loki's protocol.

use axum::extract::{Request, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use axum::routing::on;
use sandur_ingest::Refused;

use super::intake::push;
use crate::failed_request::Failure;
use crate::http::app::App;
use crate::http::marshal::json;
use crate::http::reply;
use crate::http::route::{Access, Group, POST, Route};

/// This endpoint.
pub static ROUTE: Route = Route {
    methods: POST,
    paths: &["/loki/api/v1/push", "/api/prom/push"],
    group: Group::Write,
    scope: Access::Write,
    does: "Stores lines; answers when they are durable and can be queried. The body is protobuf in a snappy \
           block, or `application/json`, plain or with `Content-Encoding: gzip` or `deflate`.",
    parameters: &[],
    answers: "204.",
    fails: "400: some entries break a limit (the text names them; the others are stored), or the body cannot \
            be decoded; with the header `X-Sandur-Refused: entries` the answer is JSON that also says which \
            entries were refused, `{\"message\":\"...\",\"refused\":[[first,count,\"reason\"],...]}`, \
            counted from 0 through all streams (more than 10,000 scattered runs get the text); 413; \
            422: no stream in the body; 429: a rate; 503.",
    several_tenants: false,
    handler: |verbs| on(verbs, loki),
};

/// `POST /loki/api/v1/push`.
async fn loki(State(app): State<App>, request: Request) -> Result<Response, Failure> {
    let (parts, body) = request.into_parts();
    let refused = push(&app, &parts, body, sandur_ingest::loki_push_within).await?;
    let Some(text) = refused.text() else { return Ok(reply::empty()) };
    match refused.runs().filter(|_| wants_entries(&parts.headers)) {
        Some(_) => Ok(reply::json_with(StatusCode::BAD_REQUEST, by_entry(&refused, &text))),
        None => Err(Failure::invalid(text)),
    }
}

/// The header by which a client asks which entries were refused.
pub const REFUSED_HEADER: &str = "x-sandur-refused";

fn wants_entries(headers: &HeaderMap) -> bool {
    headers.get(REFUSED_HEADER).is_some_and(|value| value.as_bytes() == b"entries")
}

/// `{"message":"...","refused":[[first,count,"reason"],...]}`; entries are counted from 0 through all
/// streams of the request, and every entry that is not named is stored.
fn by_entry(refused: &Refused, text: &str) -> Vec<u8> {
    let mut body = b"{\"message\":".to_vec();
    json::utf8(&mut body, text);
    body.extend_from_slice(b",\"refused\":[");
    for (n, run) in refused.runs().into_iter().flatten().enumerate() {
        let separator = if n == 0 { "" } else { "," };
        let (first, count, reason) = (run.first, run.count, run.reason.name());
        body.extend_from_slice(format!("{separator}[{first},{count},\"{reason}\"]").as_bytes());
    }
    body.extend_from_slice(b"]}");
    body
}

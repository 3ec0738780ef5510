//! `push`: lines by Loki's protocol.

use axum::extract::{Request, State};
use axum::response::Response;
use axum::routing::on;

use super::intake::push;
use crate::http::app::App;
use crate::http::failure::Failure;
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
            be decoded; 413; 422: no stream in the body; 429: a rate; 503.",
    several_tenants: false,
    handler: |verbs| on(verbs, loki),
};

/// `POST /loki/api/v1/push`.
async fn loki(State(app): State<App>, request: Request) -> Result<Response, Failure> {
    let (parts, body) = request.into_parts();
    let refused = push(&app, &parts, body, sandur_ingest::loki_push_within).await?;
    match refused {
        None => Ok(reply::empty()),
        Some(left_out) => Err(Failure::invalid(left_out.text)),
    }
}

//! `push`: stores log entries by Loki's push protocol.

use axum::extract::{Request, State};
use axum::response::Response;
use sandur_service::writes::LineDecoder;

use crate::app::App;
use crate::failed_request::Failure;
use crate::receive::push_lines;
use crate::refused_parts;
use crate::reply;
use crate::route::{Access, Group, Handler, POST, Route};

/// The row of this endpoint in the table of routes.
pub static ROUTE: Route = Route {
    methods: POST,
    paths: &["/loki/api/v1/push"],
    scope: Access::Write,
    does: "Stores lines; answers when they are durable and can be queried. The body is protobuf in a snappy \
           block, or `application/json`, plain or with `Content-Encoding: gzip` or `deflate`.",
    answers: "204.",
    fails: "400: some entries break a limit (the text names them; the others are stored), or the body cannot \
            be decoded; with the header `X-Sandur-Refused: entries` the answer is JSON that also says which \
            entries were refused, `{\"message\":\"...\",\"refused\":[[first,count,\"reason\"],...]}`, \
            counted from 0 through all streams (with more than 10,000 separate runs the answer is the text); \
            413; 422: no stream in the body; 429: a rate; 503.",
    handler: |request, app| loki.call(request, app),
    ..Route::of(Group::Write)
};

/// `POST /loki/api/v1/push`.
async fn loki(State(app): State<App>, request: Request) -> Result<Response, Failure> {
    store(&app, request, sandur_ingest::loki_push_within).await
}

/// Decodes and stores the entries in the body of a request.
pub async fn store(app: &App, request: Request, decode: LineDecoder) -> Result<Response, Failure> {
    let (parts, body) = request.into_parts();
    let refused = push_lines(app, &parts, body, decode).await?;
    let Some(text) = refused.text() else { return Ok(reply::empty()) };
    let wants = refused_parts::are_asked(&parts.headers, "entries");
    match refused.runs().filter(|_| wants) {
        Some(runs) => Ok(refused_parts::answer(runs, &text)),
        None => Err(Failure::invalid(text)),
    }
}

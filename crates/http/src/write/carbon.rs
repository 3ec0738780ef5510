//! `graphite/carbon`: stores Graphite points from the body of a request, which unlike carbon's own
//! protocols has an answer.

use axum::extract::{Request, State};
use axum::http::{StatusCode, header};
use axum::response::Response;
use sandur_carbon::{PLAINTEXT, PROTOCOLS, Protocol};
use sandur_listeners::carbon;

use crate::app::App;
use crate::call;
use crate::failed_request::Failure;
use crate::receive::receive;
use crate::reply;
use crate::route::{Access, Group, Handler, POST, Route};

/// The row of this endpoint in the table of routes.
pub static ROUTE: Route = Route {
    methods: POST,
    paths: &["/graphite/carbon"],
    scope: Access::Write,
    does: "Stores Graphite points; answers when they are durable and can be queried. The content type names \
           the format of the body: lines (`text/plain` or none), a pickle (`application/python-pickle`) or a \
           message of go-carbon (`application/protobuf`), without a length prefix. The body may be \
           compressed.",
    answers: "204.",
    fails: "400: some points cannot be read or break a limit (the text names them; the others are stored); \
            413; 415: another content type; 429: a rate; 503.",
    handler: |request, app| store.call(request, app),
    ..Route::of(Group::Write)
};

async fn store(State(app): State<App>, request: Request) -> Result<Response, Failure> {
    let (parts, body) = request.into_parts();
    let kind = parts.headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
    let protocol = protocol_of(kind.unwrap_or_default())?;
    let tenant = call::tenant(&app, &parts.headers)?;
    let received = receive(&app, &tenant, &parts, body).await?;
    let source = (protocol, parts.extensions.get().copied());
    match carbon::store_body(&app.carbon, source, &tenant, received).await? {
        None => Ok(reply::empty()),
        Some(text) => Err(Failure::invalid(text)),
    }
}

/// The protocol for a content type.
fn protocol_of(sent: &str) -> Result<&'static Protocol, Failure> {
    let essence = sent.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    // curl and similar tools send this type by default.
    if essence.is_empty() || essence == "application/x-www-form-urlencoded" {
        return Ok(&PLAINTEXT);
    }
    let known = PROTOCOLS.into_iter().find(|protocol| protocol.content_types.contains(&essence.as_str()));
    known.ok_or_else(|| {
        let text = format!(
            "the content type '{sent}' is none of text/plain, application/python-pickle and \
             application/protobuf"
        );
        Failure::invalid(text).with_status(StatusCode::UNSUPPORTED_MEDIA_TYPE)
    })
}

//! `events`: stores an event.

use axum::extract::{Request, State};
use axum::response::Response;
use axum::routing::on;
use sandur_graphite::Event;
use sandur_service::graphite::batch;

use super::answer::{failure, now};
use crate::app::App;
use crate::call::{body_of, tenant};
use crate::failed_request::Failure;
use crate::reply;
use crate::route::{Access, Group, POST, Route};

/// The row of this endpoint in the table of routes.
pub static ROUTE: Route = Route {
    methods: POST,
    paths: &["/events", "/events/", "/graphite/events", "/graphite/events/"],
    group: Group::Graphite,
    scope: Access::Write,
    does: "Stores an event: a JSON object with `what`, `tags` (a list, or a text with spaces), `data` and \
           `when` (seconds since 1970; by default now), with any content type. It is stored as a line of the \
           stream `{__graphite__=\"events\"}`.",
    parameters: &[],
    answers: "200, empty; the event can be queried.",
    fails: "400: not such an object, or an event that is too large; 413; 429; 503: no memory.",
    several_tenants: false,
    handler: |verbs| on(verbs, events),
};

async fn events(State(app): State<App>, request: Request) -> Result<Response, Failure> {
    let (parts, body) = request.into_parts();
    let tenant = tenant(&app, &parts.headers)?;
    let received = body_of(&app, &parts, body).await?;
    // Microseconds since 1970, which an f64 represents exactly, as JavaScript clients need.
    let id = app.env.now_ns() / 1_000;
    let event = Event::read(&received.bytes, now(&app.queries), id).map_err(|error| failure(&error))?;
    app.writes.has_memory()?;
    app.writes.intake().push(batch(&tenant, &event).into(), None).await?;
    Ok(reply::text(""))
}

//! `events`: stores events, and returns them by time and tags.

use axum::extract::{Request, State};
use axum::response::Response;
use sandur_graphite::{Event, Events, EventsRequest, Zone};
use sandur_service::Queries;
use sandur_service::graphite::{GraphiteRequest, KeptEvents, batch};

use super::answer::{FAILS, FROM, JSONP, UNTIL, answer, failure, named, now};
use super::parameters::GraphiteCall;
use crate::app::App;
use crate::call::{body_of, tenant};
use crate::failed_request::Failure;
use crate::reply;
use crate::route::{Access, GET_POST, Group, Handler, POST, Route, parameter};

/// Stores an event.
pub static STORE: Route = Route {
    methods: POST,
    paths: paths!("/events"),
    scope: Access::Write,
    does: "Stores an event: a JSON object with `what`, `tags` (a list, or a text with spaces), `data` and \
           `when` (seconds since 1970; by default now), with any content type. It is stored as a line of the \
           stream `{__graphite__=\"events\"}`.",
    answers: "200, empty; the event can be queried.",
    fails: "400: not such an object, or an event that is too large; 413; 429; 503: no memory.",
    handler: |request, app| events.call(request, app),
    ..Route::of(Group::Graphite)
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

/// The events of a time range with tags.
pub static DATA: Route = Route {
    methods: GET_POST,
    paths: paths!("/events/get_data"),
    scope: Access::Read,
    does: "The events of a range, at most 10,000.",
    parameters: &[
        FROM,
        UNTIL,
        parameter("tags", "tags separated by spaces; only events that have all of them"),
        parameter("set", "`union`: events that have any of the tags; `intersection`: all of them"),
        JSONP,
    ],
    answers: "200, a list of `when`, `what`, `data`, `tags` and `id`.",
    fails: FAILS,
    handler: |request, app| event_data.call(request, app),
    ..Route::of(Group::Graphite)
};

async fn event_data(State(queries): State<Queries>, call: GraphiteCall) -> Result<Response, Failure> {
    let request = EventsRequest::read(&call.pairs, now(&queries), &Zone::utc());
    let request = request.map_err(|error| failure(&error))?;
    let described =
        GraphiteRequest { times: Some((request.from, request.until)), ..named("events", &call, &["tags"]) };
    answer(&queries, &call, described, async |_, context| {
        let events = KeptEvents(queries.logs()).between(context, request.from, request.until).await?;
        Ok(request.answer(&events))
    })
    .await
}

//! `events/get_data`: the events of a range.

use axum::extract::State;
use axum::response::Response;
use axum::routing::on;
use sandur_graphite::{Events, EventsRequest, Zone};
use sandur_service::Queries;
use sandur_service::graphite::GraphiteRequest;
use sandur_service::graphite::KeptEvents;

use super::answer::{FAILS, FROM, JSONP, UNTIL, answer, failure, named, now};
use super::parameters::GraphiteCall;
use crate::failed_request::Failure;
use crate::route::{Access, GET_POST, Group, Route, parameter};

/// The row of this endpoint in the table of routes.
pub static ROUTE: Route = Route {
    methods: GET_POST,
    paths: &[
        "/events/get_data",
        "/events/get_data/",
        "/graphite/events/get_data",
        "/graphite/events/get_data/",
    ],
    group: Group::Graphite,
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
    several_tenants: false,
    handler: |verbs| on(verbs, event_data),
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

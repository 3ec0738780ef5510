//! `api/prom/tail`: follows new lines, in the format before version 1.

use axum::extract::{Request, State};
use axum::response::Response;
use axum::routing::on;

use crate::app::App;
use crate::failed_request::Failure;
use crate::loki::queries::Shape;
use crate::loki::tail::tail_in;
use crate::route::{Access, GET_POST, Group, QUERY, Route, START, parameter};

/// The row of this endpoint in the table of routes.
pub static ROUTE: Route = Route {
    methods: GET_POST,
    paths: &["/api/prom/tail"],
    group: Group::Legacy,
    scope: Access::Read,
    does: "Sends new lines over a websocket, after past lines.",
    parameters: &[
        QUERY,
        START,
        parameter("limit", "maximum number of past lines; 100"),
        parameter("delay_for", "seconds to wait for late lines; 0, at most 5"),
    ],
    answers: r#"101; frames `{"streams":[{"labels","entries":[{"ts","line"}]}],"dropped_entries"}`."#,
    fails: "400: not a websocket, too many followers.",
    several_tenants: false,
    handler: |verbs| on(verbs, tail),
};

async fn tail(State(app): State<App>, request: Request) -> Result<Response, Failure> {
    tail_in(Shape::Legacy, app, request).await
}

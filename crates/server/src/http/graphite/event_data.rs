//! `events/get_data`: no event, since none is stored.

use axum::response::Response;
use axum::routing::on;

use crate::http::reply;
use crate::http::route::{Access, GET_POST, Group, Route};

/// This endpoint.
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
    does: "No event, since none is stored.",
    parameters: &[],
    answers: "200, an empty list.",
    fails: "",
    several_tenants: false,
    handler: |verbs| on(verbs, event_data),
};

async fn event_data() -> Response {
    reply::json(b"[]".to_vec())
}

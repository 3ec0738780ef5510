//! `sandur/store`: requests to the store and their cost.

use axum::extract::State;
use axum::response::Response;
use sandur_service::Writes;

use crate::reply;
use crate::route::{Access, GET, Group, Handler, Route};

/// The row of this endpoint in the table of routes.
pub static ROUTE: Route = Route {
    methods: GET,
    paths: &["/sandur/store"],
    scope: Access::Admin,
    does: "Requests to the object store since the start, and their cost, also per month \
           ([operations.md](../operations.md)).",
    answers: "200, a sentence and a table as text; programs read `/metrics`.",
    handler: |request, app| store_report.call(request, app),
    ..Route::of(Group::Operations)
};

async fn store_report(State(writes): State<Writes>) -> Response {
    reply::text(writes.intake().store_report())
}

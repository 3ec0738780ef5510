//! `CarbonV2/Stats`: all paths with the size and age of their files.

use axum::extract::State;
use axum::response::Response;
use axum::routing::on;
use sandur_graphite::{CarbonserverForm, ListingForm};
use sandur_service::Queries;

use super::list::listed;
use super::{FAILS, Opened, one};
use crate::route::{Access, Group, POST, Route};

/// The row of this call in the table of routes.
pub static ROUTE: Route = Route {
    methods: POST,
    paths: &["/carbonapi_v2_grpc.CarbonV2/Stats"],
    group: Group::Graphite,
    scope: Access::Read,
    does: "All paths as in `/metrics/details`, by carbonserver's gRPC, in one message.",
    parameters: &[],
    answers: "`OK` and a `MetricDetailsResponse`.",
    fails: FAILS,
    several_tenants: false,
    handler: |verbs| on(verbs, stats),
};

async fn stats(State(queries): State<Queries>, Opened(call): Opened) -> Response {
    one(listed(&queries, call, ListingForm::Details(CarbonserverForm::Older)).await)
}

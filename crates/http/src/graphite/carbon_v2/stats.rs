//! `CarbonV2/Stats`: all paths with the size and age of their files.

use axum::extract::{Request, State};
use axum::response::Response;
use axum::routing::on;
use sandur_graphite::{CarbonserverForm, ListingForm};

use super::list::listed;
use super::{FAILS, one};
use crate::app::App;
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

async fn stats(State(app): State<App>, request: Request) -> Response {
    one(listed(&app, request, ListingForm::Details(CarbonserverForm::Older)).await)
}

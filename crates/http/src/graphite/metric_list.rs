//! `metrics/list`: all paths, as carbonserver lists them.

use axum::extract::State;
use axum::response::Response;
use axum::routing::on;
use sandur_graphite::{CarbonserverForm, ListingForm, ListingRequest};
use sandur_service::Queries;

use super::answer::{FAILS, failure, list, named};
use super::parameters::GraphiteCall;
use crate::failed_request::Failure;
use crate::route::{Access, GET_POST, Group, Route, parameter};

/// The row of this endpoint in the table of routes.
pub static ROUTE: Route = Route {
    methods: GET_POST,
    paths: &["/metrics/list", "/metrics/list/", "/graphite/metrics/list", "/graphite/metrics/list/"],
    group: Group::Graphite,
    scope: Access::Read,
    does: "All paths, as carbonserver lists them; the answer is written while they are read.",
    parameters: &[parameter("format", "`json` (default), `protobuf`, `carbonapi_v2_pb`, `carbonapi_v3_pb`")],
    answers: "200, `{\"Metrics\":[..]}`.",
    fails: FAILS,
    several_tenants: false,
    handler: |verbs| on(verbs, metric_list),
};

async fn metric_list(State(queries): State<Queries>, call: GraphiteCall) -> Result<Response, Failure> {
    let form = CarbonserverForm::named(call.format().unwrap_or("json")).map_err(|error| failure(&error))?;
    let request = ListingRequest { pattern: None, leaves_only: false, form: ListingForm::Names(form) };
    list(&queries, &call, named("list", &call, &[]), request).await
}

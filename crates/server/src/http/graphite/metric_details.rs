//! `metrics/details`: all paths with what carbonserver tells of their files.

use axum::extract::State;
use axum::response::Response;
use axum::routing::on;
use sandur_graphite::{CarbonserverForm, ListingForm, ListingRequest};
use sandur_service::Queries;

use super::answer::{FAILS, failure, list, named};
use super::parameters::GraphiteCall;
use crate::failed_request::Failure;
use crate::http::route::{Access, GET_POST, Group, Route, parameter};

/// This endpoint.
pub static ROUTE: Route = Route {
    methods: GET_POST,
    paths: &[
        "/metrics/details",
        "/metrics/details/",
        "/graphite/metrics/details",
        "/graphite/metrics/details/",
    ],
    group: Group::Graphite,
    scope: Access::Read,
    does: "All paths with what carbonserver tells of their files. There are none: `Size` is that of \
           whisper's file by the rules, 0 where values are kept for ever, and `ModTime` an instant that the \
           last value is not after: the present, or 5 minutes, an hour, a day, 7, 30 or 365 days before it.",
    parameters: &[parameter("format", "`json` (default), `protobuf`, `carbonapi_v2_pb`, `carbonapi_v3_pb`")],
    answers: "200, `{\"Metrics\":[{\"Size\":..,\"ModTime\":..,\"Name\":..},..],\"FreeSpace\":0,\
              \"TotalSpace\":0}`.",
    fails: FAILS,
    several_tenants: false,
    handler: |verbs| on(verbs, metric_details),
};

async fn metric_details(State(queries): State<Queries>, call: GraphiteCall) -> Result<Response, Failure> {
    let form = CarbonserverForm::named(call.format().unwrap_or("json")).map_err(|error| failure(&error))?;
    let request = ListingRequest { pattern: None, leaves_only: false, form: ListingForm::Details(form) };
    list(&queries, &call, named("details", &call, &[]), request).await
}

//! `metrics/details`: all paths with the size and age of their files, as carbonserver lists them.

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
    paths: &[
        "/metrics/details",
        "/metrics/details/",
        "/graphite/metrics/details",
        "/graphite/metrics/details/",
    ],
    group: Group::Graphite,
    scope: Access::Read,
    does: "All paths with the size and age of their files, as carbonserver lists them. There are no such \
           files: `Size` is the size that whisper's file would have by the rules, 0 if values are kept \
           forever, and `ModTime` an upper bound of the last value's time: the current time, or 5 minutes, \
           an hour, a day, 7, 30 or 365 days before it.",
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

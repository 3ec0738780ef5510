//! `metrics/list_query`: paths at and below a pattern, and how many they are.

use axum::extract::State;
use axum::response::Response;
use axum::routing::on;
use sandur_graphite::{CarbonserverForm, ListingForm, ListingRequest, Pattern};
use sandur_service::Queries;

use super::answer::{FAILS, failure, list, named};
use super::parameters::GraphiteCall;
use crate::failed_request::Failure;
use crate::http::route::{Access, GET_POST, Group, Route, parameter};

/// This endpoint.
pub static ROUTE: Route = Route {
    methods: GET_POST,
    paths: &[
        "/metrics/list_query",
        "/metrics/list_query/",
        "/graphite/metrics/list_query",
        "/graphite/metrics/list_query/",
    ],
    group: Group::Graphite,
    scope: Access::Read,
    does: "Paths that fit a pattern or are below one that does, how many they are, and how large whisper's \
           files would be by the rules (`LogicalSize`). As in go-carbon the answer is JSON alone.",
    parameters: &[
        parameter("target", "the pattern; required"),
        parameter("limit", "most paths that are shown, 65536 by default; all are counted"),
        parameter("leaf_only", "`true`: without paths below one that fits"),
        parameter("stats_only", "`true`: numbers alone"),
        parameter("format", "`json`"),
    ],
    answers: "200, `{\"Metrics\":[{\"Name\":..,\"PhysicalSize\":0,\"LogicalSize\":..},..],\"Count\":..,\
              \"PhysicalSize\":0,\"LogicalSize\":..}`.",
    fails: FAILS,
    several_tenants: false,
    handler: |verbs| on(verbs, metric_list_query),
};

/// Paths that are shown when the request does not say.
const LIMIT: u64 = 65_536;

async fn metric_list_query(State(queries): State<Queries>, call: GraphiteCall) -> Result<Response, Failure> {
    let form = CarbonserverForm::named(call.format().unwrap_or("json")).map_err(|error| failure(&error))?;
    if form != CarbonserverForm::Json {
        return Err(Failure::invalid("paths of a query are listed as JSON alone: ask with format=json"));
    }
    let target = call.last("target").filter(|target| !target.is_empty());
    let target = target.ok_or_else(|| Failure::invalid("the parameter target is missing"))?;
    let pattern = Pattern::parse(target).map_err(|error| failure(&error))?;
    let limit = call.last("limit").filter(|text| !text.is_empty()).map_or(Ok(LIMIT), str::parse);
    let limit = limit.map_err(|_| Failure::invalid("the parameter limit is not a whole number"))?;
    let is_true = |name| call.last(name) == Some("true");
    let form = ListingForm::Query { limit, totals_only: is_true("stats_only") };
    let request = ListingRequest { pattern: Some(pattern), leaves_only: is_true("leaf_only"), form };
    list(&queries, &call, named("list", &call, &["target"]), request).await
}

//! `metrics/list_query`: paths that match a pattern, and paths below these, with their number.

use axum::extract::State;
use axum::response::Response;
use axum::routing::on;
use sandur_graphite::{CarbonserverForm, ListingForm, ListingRequest, Pattern};
use sandur_service::Queries;

use super::answer::{FAILS, failure, list, named};
use super::parameters::GraphiteCall;
use crate::failed_request::Failure;
use crate::route::{Access, GET_POST, Group, Route, parameter};

/// The row of this endpoint in the table of routes.
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
    does: "Paths that match a pattern or are below such a path, their number, and the size that whisper's \
           files would have by the rules (`LogicalSize`). As in go-carbon, the answer is always JSON.",
    parameters: &[
        parameter("target", "the pattern; required"),
        parameter("limit", "maximum number of paths that are listed, 65536 by default; all are counted"),
        parameter("leaf_only", "`true`: without paths below a matching path"),
        parameter("stats_only", "`true`: only numbers"),
        parameter("format", "`json`"),
    ],
    answers: "200, `{\"Metrics\":[{\"Name\":..,\"PhysicalSize\":0,\"LogicalSize\":..},..],\"Count\":..,\
              \"PhysicalSize\":0,\"LogicalSize\":..}`.",
    fails: FAILS,
    several_tenants: false,
    handler: |verbs| on(verbs, metric_list_query),
};

/// Default number of paths that are listed.
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

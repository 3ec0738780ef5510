//! Paths: those that match patterns, all of them, and the listings of carbonserver.

use axum::extract::State;
use axum::response::Response;
use sandur_graphite::{
    CarbonserverForm, ExpandRequest, ListingForm, ListingRequest, Pattern, expand as matching,
    index as every_path,
};
use sandur_service::Queries;

use super::answer::{FAILS, JSONP, answer, failure, list, named};
use super::parameters::GraphiteCall;
use crate::failed_request::Failure;
use crate::route::{Access, GET_POST, Group, Handler, Route, parameter};

/// The paths that match patterns.
pub static EXPAND: Route = Route {
    methods: GET_POST,
    paths: paths!("/metrics/expand"),
    scope: Access::Read,
    does: "The paths that match patterns.",
    parameters: &[
        parameter("query", "a pattern; may be repeated"),
        parameter("groupByExpr", "1: a list for each pattern"),
        parameter("leavesOnly", "1: only series"),
        JSONP,
    ],
    answers: "200, `{\"results\":[..]}`.",
    fails: FAILS,
    handler: |request, app| expand.call(request, app),
    ..Route::of(Group::Graphite)
};

async fn expand(State(queries): State<Queries>, call: GraphiteCall) -> Result<Response, Failure> {
    let request = ExpandRequest::read(&call.pairs).map_err(|error| failure(&error))?;
    let described = named("expand", &call, &["query"]);
    answer(&queries, &call, described, async |series, context| matching(series, context, &request).await)
        .await
}

/// All paths.
pub static INDEX: Route = Route {
    methods: GET_POST,
    paths: paths!("/metrics/index.json"),
    scope: Access::Read,
    does: "All paths, at most a million.",
    parameters: &[JSONP],
    answers: "200, a list.",
    fails: FAILS,
    handler: |request, app| index.call(request, app),
    ..Route::of(Group::Graphite)
};

async fn index(State(queries): State<Queries>, call: GraphiteCall) -> Result<Response, Failure> {
    let described = named("index", &call, &[]);
    answer(&queries, &call, described, async |series, context| every_path(series, context, &call.pairs).await)
        .await
}

/// All paths, as carbonserver lists them.
pub static LIST: Route = Route {
    methods: GET_POST,
    paths: paths!("/metrics/list"),
    scope: Access::Read,
    does: "All paths, as carbonserver lists them; the answer is written while they are read.",
    parameters: &[parameter("format", "`json` (default), `protobuf`, `carbonapi_v2_pb`, `carbonapi_v3_pb`")],
    answers: "200, `{\"Metrics\":[..]}`.",
    fails: FAILS,
    handler: |request, app| metric_list.call(request, app),
    ..Route::of(Group::Graphite)
};

async fn metric_list(State(queries): State<Queries>, call: GraphiteCall) -> Result<Response, Failure> {
    let form = CarbonserverForm::named(call.format().unwrap_or("json")).map_err(|error| failure(&error))?;
    let request = ListingRequest { pattern: None, leaves_only: false, form: ListingForm::Names(form) };
    list(&queries, &call, named("list", &call, &[]), request).await
}

/// All paths with the size and age of their files.
pub static DETAILS: Route = Route {
    methods: GET_POST,
    paths: paths!("/metrics/details"),
    scope: Access::Read,
    does: "All paths with the size and age of their files, as carbonserver lists them. There are no such \
           files: `Size` is the size that whisper's file would have by the rules, 0 if values are kept \
           forever, and `ModTime` an upper bound of the last value's time: the current time, or 5 minutes, \
           an hour, a day, 7, 30 or 365 days before it.",
    parameters: &[parameter("format", "`json` (default), `protobuf`, `carbonapi_v2_pb`, `carbonapi_v3_pb`")],
    answers: "200, `{\"Metrics\":[{\"Size\":..,\"ModTime\":..,\"Name\":..},..],\"FreeSpace\":0,\
              \"TotalSpace\":0}`.",
    fails: FAILS,
    handler: |request, app| metric_details.call(request, app),
    ..Route::of(Group::Graphite)
};

async fn metric_details(State(queries): State<Queries>, call: GraphiteCall) -> Result<Response, Failure> {
    let form = CarbonserverForm::named(call.format().unwrap_or("json")).map_err(|error| failure(&error))?;
    let request = ListingRequest { pattern: None, leaves_only: false, form: ListingForm::Details(form) };
    list(&queries, &call, named("details", &call, &[]), request).await
}

/// Paths that match a pattern, and their size.
pub static LIST_QUERY: Route = Route {
    methods: GET_POST,
    paths: paths!("/metrics/list_query"),
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
    handler: |request, app| metric_list_query.call(request, app),
    ..Route::of(Group::Graphite)
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

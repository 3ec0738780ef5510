//! `info`: the storage schema of a path.

use axum::extract::State;
use axum::response::Response;
use sandur_graphite::{CarbonserverForm, info as info_of, infos, read_info};
use sandur_service::Queries;
use sandur_service::graphite::GraphiteRequest;

use super::answer::{FAILS, answer, failure};
use super::parameters::GraphiteCall;
use crate::failed_request::Failure;
use crate::route::{Access, GET_POST, Group, Handler, Route, parameter};

/// The row of this endpoint in the table of routes.
pub static ROUTE: Route = Route {
    methods: GET_POST,
    paths: paths!("/info"),
    scope: Access::Read,
    does: "Steps, retentions and aggregation of a path, according to the rules of `graphite.schemas` and \
           `graphite.aggregation`.",
    parameters: &[
        parameter("target", "the path; required, except with `carbonapi_v3_pb`, whose paths are in the body"),
        parameter("format", "`json` (default), `protobuf`, `carbonapi_v2_pb`, `carbonapi_v3_pb`"),
    ],
    answers: "200, in carbonserver's format.",
    fails: FAILS,
    handler: |request, app| info.call(request, app),
    ..Route::of(Group::Graphite)
};

async fn info(State(queries): State<Queries>, call: GraphiteCall) -> Result<Response, Failure> {
    let form = CarbonserverForm::named(call.format().unwrap_or("json")).map_err(|error| failure(&error))?;
    if form == CarbonserverForm::Newer && !call.body.is_empty() {
        let names = read_info(&call.body).map_err(|error| failure(&error))?;
        let described = GraphiteRequest { kind: "info", text: names.join(" "), times: None };
        let now = queries.graphite_rules();
        let rules = || names.iter().map(|name| (name.as_str(), now.of(name)));
        return answer(&queries, &call, described, async |_, _| infos(rules())).await;
    }
    let target = call.last("target").filter(|target| !target.is_empty());
    let target = target.ok_or_else(|| Failure::invalid("the parameter target is missing"))?;
    let described = GraphiteRequest { kind: "info", text: target.to_owned(), times: None };
    let now = queries.graphite_rules();
    answer(&queries, &call, described, async |_, _| info_of(form, target, now.of(target))).await
}

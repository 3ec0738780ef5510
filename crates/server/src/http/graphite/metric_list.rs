//! `metrics/list`: all paths, as carbonserver lists them.

use axum::extract::State;
use axum::response::Response;
use axum::routing::on;

use super::answer::{FAILS, Told, answer, failure};
use super::parameters::GraphiteCall;
use crate::failed_request::Failure;
use crate::http::app::App;
use crate::http::route::{Access, GET_POST, Group, Route, parameter};
use crate::wiring::graphite::{CarbonserverForm, Names, metric_list as listed};

/// This endpoint.
pub static ROUTE: Route = Route {
    methods: GET_POST,
    paths: &["/metrics/list", "/metrics/list/", "/graphite/metrics/list", "/graphite/metrics/list/"],
    group: Group::Graphite,
    scope: Access::Read,
    does: "All paths, at most a million, as carbonserver lists them.",
    parameters: &[parameter("format", "`json` (default), `protobuf`, `carbonapi_v2_pb`, `carbonapi_v3_pb`")],
    answers: "200, `{\"Metrics\":[..]}`.",
    fails: FAILS,
    several_tenants: false,
    handler: |verbs| on(verbs, metric_list),
};

/// Most paths of an answer.
const PATHS_MAX: usize = 1_000_000;

async fn metric_list(State(app): State<App>, call: GraphiteCall) -> Result<Response, Failure> {
    let form = CarbonserverForm::named(call.format().unwrap_or("json")).map_err(|error| failure(&error))?;
    let told = Told::of("list", &call, &[]);
    answer(&app, &call, told, async |series, context| {
        let names = series.paths(context, PATHS_MAX + 1).await?;
        if names.len() > PATHS_MAX {
            let message =
                format!("there are more than {PATHS_MAX} paths; ask for parts of the tree by pattern");
            return Err(sandur_query::Error::Limit(message).into());
        }
        context.compute(move || Ok(listed(form, &names))).await?
    })
    .await
}

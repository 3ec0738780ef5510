//! `CarbonV2/Info`: the storage schema of a path.

use axum::extract::State;
use axum::response::Response;
use axum::routing::on;
use sandur_base::Reservation;
use sandur_graphite::{CarbonserverForm, Rendered, info as info_of, read_info};
use sandur_service::Queries;
use sandur_service::graphite::GraphiteRequest;

use super::{FAILS, Opened, one};
use crate::failed_request::Failure;
use crate::graphite::answer::{done, failure};
use crate::graphite::parameters::GraphiteCall;
use crate::route::{Access, Group, POST, Route};

/// The row of this call in the table of routes.
pub static ROUTE: Route = Route {
    methods: POST,
    paths: &["/carbonapi_v2_grpc.CarbonV2/Info"],
    group: Group::Graphite,
    scope: Access::Read,
    does: "Steps, retentions and aggregation of a path by carbonserver's gRPC, according to the rules of \
           `graphite.schemas` and `graphite.aggregation`.",
    parameters: &[],
    answers: "`OK` and an `InfoResponse`.",
    fails: FAILS,
    several_tenants: false,
    handler: |verbs| on(verbs, info),
};

async fn info(State(queries): State<Queries>, Opened(call): Opened) -> Response {
    one(answer(&queries, call).await)
}

async fn answer(
    queries: &Queries,
    call: Result<GraphiteCall, Failure>,
) -> Result<(Rendered, Reservation), Failure> {
    let call = call?;
    let names = read_info(&call.body).map_err(|error| failure(&error))?;
    let name = names.into_iter().next().unwrap_or_default();
    if name.is_empty() {
        return Err(Failure::invalid("the request names no series"));
    }
    let request = GraphiteRequest { kind: "info", text: name.clone(), times: None };
    let now = queries.graphite_rules();
    done(queries, &call, request, async |_, _| info_of(CarbonserverForm::Older, &name, now.of(&name))).await
}

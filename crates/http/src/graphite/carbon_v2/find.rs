//! `CarbonV2/Find`: the nodes that match a pattern.

use axum::extract::State;
use axum::response::Response;
use axum::routing::on;
use sandur_base::Reservation;
use sandur_graphite::{FindRequest, Rendered, Zone, find as nodes, read_globs};
use sandur_service::Queries;
use sandur_service::graphite::GraphiteRequest;

use super::{FAILS, Opened, one};
use crate::failed_request::Failure;
use crate::graphite::answer::{done, failure, now};
use crate::graphite::parameters::GraphiteCall;
use crate::route::{Access, Group, POST, Route};

/// The row of this call in the table of routes.
pub static ROUTE: Route = Route {
    methods: POST,
    paths: &["/carbonapi_v2_grpc.CarbonV2/Find"],
    group: Group::Graphite,
    scope: Access::Read,
    does: "Nodes of the tree of paths by carbonserver's gRPC; the request is a `GlobRequest` of carbonapi's \
           second protocol.",
    parameters: &[],
    answers: "`OK` and a `GlobResponse`.",
    fails: FAILS,
    several_tenants: false,
    handler: |verbs| on(verbs, find),
};

async fn find(State(queries): State<Queries>, Opened(call): Opened) -> Response {
    one(found(&queries, call).await)
}

async fn found(
    queries: &Queries,
    call: Result<GraphiteCall, Failure>,
) -> Result<(Rendered, Reservation), Failure> {
    let call = call?;
    // A `GlobRequest` is encoded like a `MultiGlobRequest` of one pattern without times.
    let (patterns, ..) = read_globs(&call.body).map_err(|error| failure(&error))?;
    let query = patterns.into_iter().next().unwrap_or_default();
    let pairs = [("query".to_owned(), query), ("format".to_owned(), "carbonapi_v2_pb".to_owned())];
    let request = FindRequest::read(&pairs, now(queries), &Zone::utc()).map_err(|error| failure(&error))?;
    let described = GraphiteRequest { kind: "find", text: request.query.clone(), times: None };
    done(queries, &call, described, async |series, context| nodes(series, context, &request).await).await
}

//! `metrics/find`: nodes of the tree of paths.

use axum::extract::State;
use axum::response::Response;
use sandur_graphite::{
    FindRequest, GlobAnswer, Pattern, Rendered, Source, Zone, find as nodes, read_globs, write_globs,
};
use sandur_service::Queries;
use sandur_service::graphite::GraphiteRequest;

use super::answer::{FAILS, FROM, JSONP, UNTIL, answer, failure, now};
use super::parameters::GraphiteCall;
use crate::failed_request::Failure;
use crate::route::{Access, GET_POST, Group, Handler, Route, parameter};

/// The row of this endpoint in the table of routes.
pub static ROUTE: Route = Route {
    methods: GET_POST,
    paths: paths!("/metrics/find"),
    scope: Access::Read,
    does: "Nodes of the tree of paths that match a pattern. With times, only those that have values in the \
        range.",
    parameters: &[
        parameter("query", "the pattern; required"),
        parameter(
            "format",
            "`treejson` (default), `completer`, `nodelist`, `json`, `pickle`, `msgpack`, `protobuf`, \
             `carbonapi_v2_pb`, `carbonapi_v3_pb`",
        ),
        FROM,
        UNTIL,
        parameter("leavesOnly", "1: only series"),
        parameter("wildcards", "1: adds a node `*` if there are several"),
        parameter("position", "the position in the path of the nodes that `nodelist` lists"),
        JSONP,
    ],
    answers: "200, nodes in the requested format.",
    fails: FAILS,
    handler: |request, app| find.call(request, app),
    ..Route::of(Group::Graphite)
};

async fn find(State(queries): State<Queries>, mut call: GraphiteCall) -> Result<Response, Failure> {
    if !call.body.is_empty() && call.format() == Some("carbonapi_v3_pb") {
        return globs(&queries, &call).await;
    }
    call.settle_format();
    let request =
        FindRequest::read(&call.pairs, now(&queries), &Zone::utc()).map_err(|error| failure(&error))?;
    let described = GraphiteRequest { kind: "find", text: request.query.clone(), times: request.times };
    answer(&queries, &call, described, async |series, context| nodes(series, context, &request).await).await
}

/// Finds several patterns, which carbonapi sends in a body.
async fn globs(queries: &Queries, call: &GraphiteCall) -> Result<Response, Failure> {
    let (patterns, from, until) = read_globs(&call.body).map_err(|error| failure(&error))?;
    let until = if until == 0 { now(queries) } else { until };
    let times = (from != 0).then_some((from, until));
    let described = GraphiteRequest { kind: "find", text: patterns.join(" "), times };
    answer(queries, call, described, async |series, context| {
        let mut found = Vec::new();
        for text in &patterns {
            found.push(series.find(context, &Pattern::parse(text)?, times).await?);
        }
        let one = |(pattern, nodes)| GlobAnswer { pattern, nodes };
        let globs: Vec<GlobAnswer<'_>> =
            patterns.iter().map(String::as_str).zip(found.iter().map(Vec::as_slice)).map(one).collect();
        Ok(Rendered { content_type: "application/x-carbonapi-v3-pb", body: write_globs(&globs)? })
    })
    .await
}

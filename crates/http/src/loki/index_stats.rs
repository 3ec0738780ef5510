//! `index/stats`: the size of streams, from the index.

use axum::extract::State;
use axum::response::Response;
use sandur_query::{StreamVolume, StreamsRequest};
use sandur_service::Queries;
use sandur_service::logql::selector;
use sandur_service::query_log::Asked;

use crate::call::Call;
use crate::failed_request::Failure;
use crate::logged::logged;
use crate::marshal::json;
use crate::reply;
use crate::route::{Access, END, GET_POST, Group, Handler, Route, SINCE, START, parameter};

/// The row of this endpoint in the table of routes.
pub static ROUTE: Route = Route {
    methods: GET_POST,
    paths: &["/loki/api/v1/index/stats"],
    scope: Access::Read,
    does: "The size of the matching streams in the range.",
    parameters: &[parameter("query", "a selector; required"), START, END, SINCE],
    answers: r#"200, `{"streams","chunks","bytes","entries"}`, not wrapped; a chunk is a page of a block."#,
    several_tenants: true,
    handler: |request, app| stats.call(request, app),
    ..Route::of(Group::Index)
};

/// `index/stats`.
async fn stats(State(queries): State<Queries>, call: Call) -> Result<Response, Failure> {
    let context = queries.logs_context(&call.caller.tenant);
    let (times, range) = call.range(&queries, &context)?;
    let matchers =
        selector::required(&context, &queries.limits(&call.caller.tenant), call.params.query()).await?;
    let asked = Asked::stats(call.params.query(), times);
    let volumes = logged((&queries, &call.caller), &context, asked, async {
        Ok(queries.logs().volumes(&context, StreamsRequest { matchers, range }).await?)
    });
    let (volumes, _) = volumes.await?;
    let sum = |field: fn(&StreamVolume) -> u64| volumes.iter().map(field).sum::<u64>();
    let mut body = Vec::new();
    json::push(
        &mut body,
        format_args!(
            "{{\"streams\":{},\"chunks\":{},\"bytes\":{},\"entries\":{}",
            volumes.len(),
            sum(|v| v.pages),
            sum(|v| v.bytes),
            sum(|v| v.lines)
        ),
    );
    json::warnings(&mut body, &context.warnings());
    body.extend_from_slice(b"}\n");
    Ok(reply::json(body))
}

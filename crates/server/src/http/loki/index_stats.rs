//! `index/stats`: how much there is, without reading it.

use axum::extract::State;
use axum::response::Response;
use axum::routing::on;
use sandur_query::StreamVolume;

use super::selector;
use crate::failed_request::Failure;
use crate::http::app::App;
use crate::http::call::Call;
use crate::http::marshal::json;
use crate::http::query_log::{Asked, logged};
use crate::http::reply;
use crate::http::route::{Access, END, GET_POST, Group, Route, SINCE, START, parameter};

/// This endpoint.
pub static ROUTE: Route = Route {
    methods: GET_POST,
    paths: &["/loki/api/v1/index/stats"],
    group: Group::Index,
    scope: Access::Read,
    does: "How much the streams that match hold in the range.",
    parameters: &[parameter("query", "a selector; required"), START, END, SINCE],
    answers: r#"200, `{"streams","chunks","bytes","entries"}`, not wrapped; a chunk is a page of a block."#,
    fails: "",
    several_tenants: true,
    handler: |verbs| on(verbs, stats),
};

/// `index/stats`.
async fn stats(State(app): State<App>, call: Call) -> Result<Response, Failure> {
    let context = app.query_context(&call.tenant);
    let (times, range) = call.range(&app, &context)?;
    let matchers = selector::required(&context, &app.limits(&call.tenant), call.params.query()).await?;
    let asked = Asked::stats(call.params.query(), times);
    let volumes = logged((&app, &call), &context, asked, async {
        Ok(app.sources.logs.volumes(&context, matchers, range).await?)
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

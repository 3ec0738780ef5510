//! `index/volume`: bytes in the complete range, by labels.

use axum::extract::State;
use axum::response::Response;
use sandur_query::{QueryResult, Sample, Series, StreamsRequest};
use sandur_service::Queries;
use sandur_service::query_log::Asked;

use super::volume::{VolumeRequest, answer, largest};
use crate::call::Call;
use crate::failed_request::Failure;
use crate::route::{Access, END, GET_POST, Group, Handler, Route, SINCE, START, parameter};

/// The row of this endpoint in the table of routes.
pub static ROUTE: Route = Route {
    methods: GET_POST,
    paths: &["/loki/api/v1/index/volume"],
    scope: Access::Read,
    does: "Bytes in the complete range, by labels.",
    parameters: &[
        parameter("query", "a selector, or `{}` for every stream; required"),
        START,
        END,
        SINCE,
        parameter(
            "targetLabels",
            "labels to group by, separated by commas; by default those of the selector",
        ),
        parameter("aggregateBy", "`series` (default) or `labels`"),
        parameter("limit", "maximum number of groups; 100"),
    ],
    answers: "200, an instant vector, largest first.",
    fails: "400 when `limit` exceeds `volume_max_series`.",
    several_tenants: true,
    handler: |request, app| instant.call(request, app),
    ..Route::of(Group::Index)
};

/// `index/volume`: bytes in the complete range.
async fn instant(State(queries): State<Queries>, call: Call) -> Result<Response, Failure> {
    let context = queries.logs_context(&call.caller.tenant);
    let (times, range) = call.ordered_range(&queries, &context)?;
    let request = VolumeRequest::read(&queries, &context, &call).await?;
    let asked = Asked::volume(call.params.query(), times, 0, request.limit as u32);
    let work = async {
        let volumes = queries
            .logs()
            .volumes(&context, StreamsRequest { matchers: request.matchers.clone(), range })
            .await?;
        let groups = largest(request.group(&volumes), request.limit, |bytes| *bytes);
        let timestamp_ms = times.end_ns.div_euclid(1_000_000);
        let series = groups.into_iter().map(|(labels, bytes)| Series {
            labels: std::sync::Arc::new(labels),
            samples: vec![Sample { timestamp_ms, value: bytes as f64 }],
        });
        Ok(QueryResult::Vector(series.collect()))
    };
    answer((&queries, &call), &context, asked, work).await
}

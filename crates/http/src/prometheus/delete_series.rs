//! `admin/tsdb/delete_series`: hides samples immediately and has them removed later.

use axum::extract::State;
use axum::response::Response;
use sandur_model::Signal;
use sandur_service::promql::selector_text;
use sandur_service::{Queries, Writes};

use super::params;
use super::queries::refuse;
use super::refused::{Kind, Refused};
use super::selectors::read;
use crate::call::Call;
use crate::loki::deletes;
use crate::reply;
use crate::route::{Access, Group, Handler, Route, Verb, parameter};

/// The row of this endpoint in the table of routes.
pub static ROUTE: Route = Route {
    methods: &[Verb::Post, Verb::Put],
    paths: &["/api/v1/admin/tsdb/delete_series", "/prometheus/api/v1/admin/tsdb/delete_series"],
    scope: Access::Delete,
    does: "Deletes samples: when it answers, queries do not return them any more; they are removed from the \
           store after `compaction.delete_request_cancel_period`. Each selector creates a delete request.",
    parameters: &[
        parameter("match[]", "a selector; may be repeated; required"),
        parameter("start", "first instant; by default the earliest"),
        parameter("end", "last instant, inclusive; by default the latest"),
    ],
    answers: "204.",
    fails: "400 `bad_data`; 503 `unavailable`: `deletion_mode` is `disabled`.",
    handler: |request, app| delete.call(request, app),
    ..Route::of(Group::Metrics)
};

/// Maximum distance of a sample's timestamp from the epoch, in milliseconds.
const FURTHEST_MS: i64 = i64::MAX / 1_000_000;
/// The earliest timestamp of a sample, in milliseconds.
pub const EARLIEST_MS: i64 = -FURTHEST_MS;

async fn delete(
    State(queries): State<Queries>,
    State(writes): State<Writes>,
    call: Call,
) -> Result<Response, Refused> {
    if call.params.all("match[]").next().is_none() {
        return Err(refuse("no match[] parameter provided"));
    }
    let (start, end) = params::bounds(&call.params, (i64::MIN, i64::MAX))?;
    let (start, end) = (start.clamp(-FURTHEST_MS, FURTHEST_MS), end.clamp(-FURTHEST_MS, FURTHEST_MS));
    if end < start {
        return Err(Refused::parameter("end", "end timestamp must not be before start time"));
    }
    let selectors = read(&queries.samples_context(&call.caller.tenant, None), &call).await?;
    let requests = deletes::of(&writes, &call.caller.tenant, Signal::Metrics);
    let requests = requests.map_err(|failure| Refused::new(Kind::Unavailable, failure.message.trim_end()))?;
    for matchers in selectors {
        let selector = selector_text(&matchers);
        let id = requests.create(&call.caller.tenant, &selector, start, end).await.map_err(Refused::from)?;
        tracing::info!(tenant = %call.caller.tenant, %id, selector, start, end, "samples are to be deleted");
    }
    Ok(reply::empty())
}

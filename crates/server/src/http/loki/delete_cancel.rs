//! `delete`, to take a request back.

use axum::extract::State;
use axum::response::Response;
use axum::routing::on;

use super::deletes;
use crate::http::app::App;
use crate::http::call::Call;
use crate::http::failure::Failure;
use crate::http::reply;
use crate::http::route::{Group, Route, Verb, parameter};
use crate::wiring;

/// This endpoint.
pub static ROUTE: Route = Route {
    methods: &[Verb::Delete],
    paths: &["/loki/api/v1/delete"],
    group: Group::Deletes,
    does: "Cancels a delete request: its lines are shown again, as far as they were not removed yet.",
    parameters: &[
        parameter("request_id", "the request; required"),
        parameter("force", "`true`: also when lines may be gone already"),
    ],
    answers: "204.",
    fails: "400: processed, or started or past its time and not forced; 403: `deletion_mode` is `disabled`; \
            404: no such request.",
    several_tenants: false,
    handler: |verbs| on(verbs, cancel),
};

async fn cancel(State(app): State<App>, call: Call) -> Result<Response, Failure> {
    let requests = deletes::of(&app, &call.tenant)?;
    let all = requests.list(&call.tenant).await?;
    let shown = deletes::find(all, call.params.get("request_id"))?;
    if shown.percent == 100 {
        let text = "deletion of request which is in process or already processed is not allowed\n";
        return Err(Failure::invalid(text));
    }
    let force = call.params.get("force") == Some("true");
    let period = app.settings.compaction.delete_request_cancel_period;
    let period_ms = i64::try_from(period.as_millis()).unwrap_or(i64::MAX);
    let is_late = shown.created_ms.saturating_add(period_ms) < app.env.now_ns() / 1_000_000;
    if (shown.percent > 0 || is_late) && !force {
        let period = wiring::format_go_duration(i64::try_from(period.as_nanos()).unwrap_or(i64::MAX));
        return Err(Failure::invalid(format!(
            "Cancellation of partially completed delete request or delete request past the deadline of \
             {period} since its creation is not allowed. To force, use the ?force query parameter\n"
        )));
    }
    requests.cancel(&call.tenant, shown.id, force).await?;
    tracing::info!(tenant = %call.tenant, id = %shown.id, force, "a delete request was cancelled");
    Ok(reply::empty())
}

//! `delete`: cancels a delete request.

use axum::extract::State;
use axum::response::Response;
use sandur_base::Id;
use sandur_service::Writes;
use sandur_service::no_such_delete;

use super::deletes;
use crate::call::Call;
use crate::failed_request::Failure;
use crate::reply;
use crate::route::{Access, Group, Handler, Route, Verb, parameter};

/// The row of this endpoint in the table of routes.
pub static ROUTE: Route = Route {
    methods: &[Verb::Delete],
    paths: &["/loki/api/v1/delete"],
    scope: Access::Delete,
    does: "Cancels a delete request: queries return its lines again, except those that were removed already.",
    parameters: &[
        parameter("request_id", "the request; required"),
        parameter("force", "`true`: even if lines may have been removed already"),
    ],
    answers: "204.",
    fails: "400: it is processed, or it is started or too old and `force` is not given; 403: `deletion_mode` \
            is `disabled`; 404: no such request.",
    handler: |request, app| cancel.call(request, app),
    ..Route::of(Group::Deletes)
};

async fn cancel(State(writes): State<Writes>, call: Call) -> Result<Response, Failure> {
    let requests = deletes::of(&writes, &call.caller.tenant, sandur_model::Signal::Logs)?;
    let id = call.params.get("request_id").and_then(|text| text.parse::<Id>().ok());
    let id = id.ok_or_else(no_such_delete)?;
    let force = call.params.get("force") == Some("true");
    requests.cancel(&call.caller.tenant, id, force).await?;
    tracing::info!(tenant = %call.caller.tenant, %id, force, "a delete request was cancelled");
    Ok(reply::empty())
}

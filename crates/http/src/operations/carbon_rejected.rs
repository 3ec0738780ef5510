//! `graphite/rejected`: the points of Graphite's protocols that were refused last.

use axum::extract::State;
use axum::response::Response;
use sandur_listeners::carbon::Carbon;
use sandur_model::{MILLISECOND_NS, TenantId};
use serde_json::json;

use crate::reply;
use crate::route::{Access, GET, Group, Handler, Route};

/// The row of this endpoint in the table of routes.
pub static ROUTE: Route = Route {
    methods: GET,
    paths: &["/graphite/rejected"],
    scope: Access::Admin,
    does: "The last 100 points and messages of Graphite's protocols that were refused, newest first, of all \
           tenants: time, protocol, tenant (null for a message that cannot be read), address of the sender, \
           the reason as in `sandur_carbon_rejected_points_total`, a text, and the beginning of the message \
           or the name of the first refused point.",
    answers: "200, JSON: `{\"rejected\": [{\"time_ms\", \"protocol\", \"tenant\", \"peer\", \"reason\", \
              \"text\", \"message\"}]}`.",
    handler: |request, app| rejected.call(request, app),
    ..Route::of(Group::Operations)
};

async fn rejected(State(carbon): State<Carbon>) -> Response {
    let shown = carbon.rejected.all().into_iter().map(|one| {
        json!({
            "time_ms": one.at_ns / MILLISECOND_NS,
            "protocol": one.protocol,
            "tenant": one.tenant.as_ref().map(TenantId::as_str),
            "peer": one.peer.map(|peer| peer.to_string()),
            "reason": one.message.reason,
            "text": one.message.text,
            "message": one.message.message,
        })
    });
    reply::json(json!({ "rejected": shown.collect::<Vec<_>>() }).to_string().into_bytes())
}

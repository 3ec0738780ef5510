//! `cache/generation_numbers`: a number that changes when deletes change the answers of queries.

use axum::extract::State;
use axum::response::Response;
use sandur_service::Queries;

use crate::call::Call;
use crate::reply;
use crate::route::{Access, GET, Group, Handler, Route};

/// The row of this endpoint in the table of routes.
pub static ROUTE: Route = Route {
    methods: GET,
    paths: &["/loki/api/v1/cache/generation_numbers"],
    scope: Access::Read,
    does: "A number that grows whenever deletes change the answers of the tenant's queries, for caches in \
           front of this server.",
    answers: "200, a JSON string with the number; empty when the tenant never had a delete request.",
    handler: |request, app| generation.call(request, app),
    ..Route::of(Group::Deletes)
};

async fn generation(State(queries): State<Queries>, call: Call) -> Response {
    let text = match queries.logs().delete_generation(&call.caller.tenant) {
        0 => "\"\"\n".to_owned(),
        number => format!("\"{number}\"\n"),
    };
    reply::json(text.into_bytes())
}

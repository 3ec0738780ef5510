//! `_internal/capabilities`: the protocols that carbonapi may use.

use axum::response::Response;
use sandur_graphite::{CarbonserverForm, capabilities as described};

use super::answer::{failure, known};
use super::parameters::GraphiteCall;
use crate::failed_request::Failure;
use crate::route::{Access, GET_POST, Group, Handler, Route, parameter};

/// The row of this endpoint in the table of routes.
pub static ROUTE: Route = Route {
    methods: GET_POST,
    paths: paths!("/_internal/capabilities"),
    scope: Access::Credential,
    does: "The protocols that carbonapi may use.",
    parameters: &[parameter("format", "`json`, or `carbonapi_v3_pb` (default)")],
    answers: "200, in carbonserver's format.",
    handler: |request, app| capabilities.call(request, app),
    ..Route::of(Group::Graphite)
};

async fn capabilities(call: GraphiteCall) -> Result<Response, Failure> {
    let form = CarbonserverForm::named(call.format().unwrap_or("carbonapi_v3_pb"));
    known(Ok(described(form.map_err(|error| failure(&error))?, "sandur")))
}

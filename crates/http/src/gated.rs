//! Wraps routes in the gate of a listener.

use std::sync::Arc;

use axum::Extension;
use axum::extract::{Request, State};
use axum::middleware::from_fn_with_state;
use axum::response::{IntoResponse, Response};
use axum::routing::{MethodFilter, MethodRouter, on};

use sandur_base::BoxFuture;

use super::app::App;
use super::gate::{Gate, Guarded, admit};
use super::role_gate::refusal;
use super::route::{OfSeveral, Route};

impl Route {
    /// The service of the route for one of its paths, guarded by the gate.
    pub fn service(&'static self, gate: &Arc<Gate>) -> MethodRouter<App> {
        let mut filters = self.methods.iter().map(|verb| verb.filter());
        let first = filters.next().expect("a route takes at least one method");
        let answer =
            |State(app): State<App>, request: Request| match refusal(self, app.settings.cluster.roles) {
                Some(failure) => Box::pin(async { failure.into_response() }) as BoxFuture<'static, Response>,
                None => (self.handler)(request, app),
            };
        let service = on(filters.fold(first, MethodFilter::or), answer);
        let service = if self.several_tenants { service.layer(Extension(OfSeveral)) } else { service };
        let guarded = Guarded { gate: Arc::clone(gate), route: self };
        service.route_layer(from_fn_with_state(guarded, admit))
    }
}

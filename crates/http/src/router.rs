//! The router of all routes, and what is done for every request: counting, warnings in headers, catching
//! panics, and the answers for unknown paths and methods.

use std::any::Any;
use std::collections::HashMap;
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, LazyLock};

use axum::Router;
use axum::extract::{MatchedPath, Request, State};
use axum::http::{Method, StatusCode};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use futures_util::FutureExt;
use sandur_base::ErrorKind;
use sandur_service::AnsweredBy;

use super::app::App;
use super::gate::Gate;
use super::route::{Route, Surface};
use super::routes::ROUTES;
use super::warned;
use crate::failed_request::Failure;
use crate::server_metrics::RequestLabels;

/// The routes of a listener, guarded by its gate.
pub fn router(app: App, surface: Surface, gate: Gate) -> Router {
    let gate = Arc::new(gate);
    let served = ROUTES.iter().copied().filter(|route| surface.serves(route));
    let paths = served.flat_map(|route| route.paths.iter().map(move |path| (*path, route)));
    paths
        .fold(Router::new(), |router, (path, route)| router.route(path, route.service(&gate)))
        .fallback(|| async { Failure::new(ErrorKind::NotFound, "404 page not found\n") })
        .layer(from_fn_with_state(app.clone(), count))
        .with_state(app)
}

async fn count(State(app): State<App>, mut request: Request, next: Next) -> Response {
    let began = app.env.monotonic();
    let route = request.extensions().get::<MatchedPath>().map_or("other", MatchedPath::as_str).to_owned();
    let scope = scope_of(&route, request.method());
    let answered_by = AnsweredBy::default();
    request.extensions_mut().insert(answered_by.clone());
    let method = match request.method().as_str() {
        known @ ("GET" | "POST" | "PUT" | "DELETE" | "HEAD" | "OPTIONS") => known.to_owned(),
        _ => "other".to_owned(),
    };
    // If the client disconnects, this future is dropped, and the drop counts the request as 499.
    let mut counted =
        Counted { app: app.clone(), route, method, scope, began, status: StatusCode::from_u16(499).ok() };
    let mut response = match AssertUnwindSafe(next.run(request)).catch_unwind().await {
        Ok(response) => response,
        Err(panic) => panicked(&counted.route, &*panic),
    };
    counted.status = Some(response.status());
    warned::show(&answered_by, response.headers_mut());
    response
}

/// The scope of the route for a method at a path; `none` where there is none.
fn scope_of(path: &str, method: &Method) -> &'static str {
    static BY_PATH: LazyLock<HashMap<&str, Vec<&Route>>> = LazyLock::new(|| {
        let mut by_path = HashMap::<&str, Vec<&Route>>::new();
        for route in ROUTES {
            route.paths.iter().for_each(|path| by_path.entry(path).or_default().push(route));
        }
        by_path
    });
    // Routes for GET answer HEAD as well.
    let method = if method == Method::HEAD { &Method::GET } else { method };
    let takes = |route: &&&Route| route.methods.iter().any(|verb| verb.name() == method.as_str());
    let route = BY_PATH.get(path).and_then(|routes| routes.iter().find(takes));
    route.map_or("none", |route| route.scope.name())
}

/// Answers a request that panicked with 500 and logs the panic; the connection stays open.
fn panicked(route: &str, panic: &(dyn Any + Send)) -> Response {
    let message = panic.downcast_ref::<&str>().map(|t| (*t).to_owned());
    let message = message.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_default();
    tracing::error!(route, message, "a request panicked");
    Failure::new(ErrorKind::Internal, format!("internal error: {message}; please report it")).into_response()
}

struct Counted {
    app: App,
    route: String,
    method: String,
    scope: &'static str,
    began: std::time::Duration,
    status: Option<StatusCode>,
}

impl Drop for Counted {
    fn drop(&mut self) {
        let took = self.app.env.monotonic().saturating_sub(self.began);
        let labels = RequestLabels {
            route: std::mem::take(&mut self.route),
            method: std::mem::take(&mut self.method),
            scope: self.scope,
            status: self.status.map_or(0, |s| s.as_u16()),
        };
        self.app.metrics.answered(labels, took);
    }
}

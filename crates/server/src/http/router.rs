//! All routes, and what happens around every request: counting, and the answers for paths and
//! methods that do not exist.

use axum::Router;
use axum::extract::{MatchedPath, Request, State};
use axum::http::StatusCode;
use axum::middleware::{Next, from_fn_with_state};
use axum::response::Response;
use sandur_base::ErrorKind;

use super::app::App;
use super::failure::Failure;
use super::metrics::RequestLabels;
use super::{admin, loki};

/// The whole HTTP surface.
pub fn router(app: App) -> Router {
    Router::new()
        .merge(loki::routes())
        .merge(admin::routes())
        .fallback(|| async { Failure::new(ErrorKind::NotFound, "404 page not found\n") })
        .layer(from_fn_with_state(app.clone(), count))
        .with_state(app)
}

async fn count(State(app): State<App>, request: Request, next: Next) -> Response {
    let began = app.env.monotonic();
    let route = request.extensions().get::<MatchedPath>().map_or("other", MatchedPath::as_str).to_owned();
    let method = match request.method().as_str() {
        known @ ("GET" | "POST" | "PUT" | "DELETE" | "HEAD" | "OPTIONS") => known.to_owned(),
        _ => "other".to_owned(),
    };
    // Counted by its drop when the client goes away in the middle.
    let mut counted =
        Counted { app: app.clone(), route, method, began, status: StatusCode::from_u16(499).ok() };
    let response = next.run(request).await;
    counted.status = Some(response.status());
    response
}

struct Counted {
    app: App,
    route: String,
    method: String,
    began: std::time::Duration,
    status: Option<StatusCode>,
}

impl Drop for Counted {
    fn drop(&mut self) {
        let took = self.app.env.monotonic().saturating_sub(self.began);
        let labels = RequestLabels {
            route: std::mem::take(&mut self.route),
            method: std::mem::take(&mut self.method),
            status: self.status.map_or(0, |s| s.as_u16()),
        };
        self.app.metrics.answered(labels, took);
    }
}

//! `ingester/shutdown`: flushes and stops.

use std::sync::atomic::Ordering;

use axum::extract::State;
use axum::response::Response;
use axum::routing::on;
use sandur_base::ErrorKind;

use crate::http::app::App;
use crate::http::call::Call;
use crate::http::failure::Failure;
use crate::http::reply;
use crate::http::route::{GET_POST, Group, Route, parameter};

/// This endpoint.
pub static ROUTE: Route = Route {
    methods: GET_POST,
    paths: &["/ingester/shutdown"],
    group: Group::Operations,
    does: "Takes no more pushes, flushes, and ends the process in order.",
    parameters: &[
        parameter("flush", "`false`: answer at once and flush while stopping; `true`"),
        parameter("terminate", "`false`: flush and take no more pushes, but go on answering queries; `true`"),
        parameter("delete_ring_tokens", "has no meaning here"),
    ],
    answers: "204.",
    fails: "503 when it is stopping already, or the store cannot be written.",
    handler: |verbs| on(verbs, shutdown),
};

async fn shutdown(State(app): State<App>, call: Call) -> Result<Response, Failure> {
    // The first call does it; another one cannot undo or repeat it.
    if !app.ready.swap(false, Ordering::Relaxed) || app.stopping.is_triggered() {
        let text = "Ingester is stopping or already stopped.";
        return Err(Failure::new(ErrorKind::Unavailable, text));
    }
    let wanted = |name: &str| call.params.get(name).is_none_or(|value| value != "false");
    if !wanted("terminate") {
        app.intake.shutdown().await?;
    } else {
        if wanted("flush") {
            app.intake.flush().await.inspect_err(|_| app.ready.store(true, Ordering::Relaxed))?;
        }
        tracing::info!("stopping: asked to by a request");
        app.shutdown.trigger();
    }
    Ok(reply::empty())
}

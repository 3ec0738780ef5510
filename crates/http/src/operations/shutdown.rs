//! `ingester/shutdown`: flushes and stops.

use std::sync::PoisonError;
use std::sync::atomic::Ordering;

use axum::extract::State;
use axum::response::Response;
use axum::routing::on;
use sandur_base::ErrorKind;
use tokio::sync::oneshot;

use crate::app::App;
use crate::failed_request::Failure;
use crate::params::Params;
use crate::reply;
use crate::route::{Access, Group, POST, Route, parameter};

/// The row of this endpoint in the table of routes.
pub static ROUTE: Route = Route {
    methods: POST,
    paths: &["/ingester/shutdown"],
    group: Group::Operations,
    scope: Access::Admin,
    does: "Refuses further pushes, flushes, and shuts the process down cleanly, even if the client does not \
        wait.",
    parameters: &[
        parameter("flush", "`false`: answer at once and flush while stopping; `true`"),
        parameter(
            "terminate",
            "`false`: flush and refuse further pushes, but keep answering queries; `true`",
        ),
        parameter("delete_ring_tokens", "accepted without effect"),
    ],
    answers: "204.",
    fails: "503 when it is stopping already, or the store cannot be written.",
    several_tenants: false,
    handler: |verbs| on(verbs, shutdown),
};

async fn shutdown(State(app): State<App>, params: Params) -> Result<Response, Failure> {
    // The first call does the work. Further calls cannot undo or repeat it unless it failed.
    if !app.ready.swap(false, Ordering::Relaxed) || app.stopping.is_triggered() {
        let text = "Ingester is stopping or already stopped.";
        return Err(Failure::new(ErrorKind::Unavailable, text));
    }
    let wanted = |name: &str| params.get(name).is_none_or(|value| value != "false");
    let (flush, terminate) = (wanted("flush"), wanted("terminate"));
    let (sender, outcome) = oneshot::channel();
    let own = app.clone();
    // The work runs to its end even if the client disconnects.
    let work = app.env.spawn("shutdown by request", async move {
        let ended = end(&own, flush, terminate).await;
        if ended.is_err() {
            own.ready.store(true, Ordering::Relaxed);
        }
        let _ = sender.send(ended);
    });
    *app.ending.lock().unwrap_or_else(PoisonError::into_inner) = Some(work);
    let lost = |_| Failure::new(ErrorKind::Internal, "the shutdown failed; the reason is in the log");
    outcome.await.map_err(lost)??;
    Ok(reply::empty())
}

async fn end(app: &App, flush: bool, terminate: bool) -> Result<(), Failure> {
    if !terminate {
        return Ok(app.writes.intake().shutdown().await?);
    }
    if flush {
        app.writes.intake().flush().await?;
    }
    tracing::info!("stopping: requested over HTTP");
    app.shutdown.trigger();
    Ok(())
}

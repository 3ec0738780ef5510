//! `ingester/shutdown`: flushes and stops.
//!
//! Every shutdown flushes, so there is little to prepare for one: an early flush shortens the last one.

use std::sync::PoisonError;
use std::sync::atomic::Ordering;

use axum::extract::State;
use axum::http::Method;
use axum::response::Response;
use sandur_base::ErrorKind;
use tokio::sync::oneshot;

use crate::app::App;
use crate::failed_request::Failure;
use crate::params::Params;
use crate::reply;
use crate::route::{Access, Group, Handler, POST, Route, Verb, parameter};

/// Flushes and stops.
pub static SHUTDOWN: Route = Route {
    methods: POST,
    paths: &["/ingester/shutdown"],
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
    handler: |request, app| shutdown.call(request, app),
    ..Route::of(Group::Operations)
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

/// Announces that this process will be scaled down.
pub static PREPARE: Route = Route {
    methods: &[Verb::Get, Verb::Post, Verb::Delete],
    paths: &["/ingester/prepare_shutdown"],
    scope: Access::Admin,
    does: "POST flushes and marks this process as about to be scaled down, DELETE removes the mark, GET \
           shows it. The mark changes nothing else: every stop flushes.",
    answers: "204; with GET 200, `set` or `unset`.",
    fails: "503 when the store cannot be written.",
    handler: |request, app| prepare.call(request, app),
    ..Route::of(Group::Operations)
};

async fn prepare(State(app): State<App>, method: Method) -> Result<Response, Failure> {
    match method {
        Method::POST => {
            app.writes.intake().flush().await?;
            app.prepared.store(true, Ordering::Relaxed);
            Ok(reply::empty())
        }
        Method::DELETE => {
            app.prepared.store(false, Ordering::Relaxed);
            Ok(reply::empty())
        }
        _ => Ok(reply::text(if app.prepared.load(Ordering::Relaxed) { "set" } else { "unset" })),
    }
}

//! `ready`: whether the process is ready for requests.
//!
//! Pushes and queries are reported separately, because a store may fail for writes and still answer
//! reads, and vice versa. Without `for` the answer is 503 only when neither works, so that a load
//! balancer does not remove a process that can still do one of both. Decision 0023 has the reasons.

use std::time::Duration;

use axum::extract::State;
use axum::response::Response;
use sandur_base::ErrorKind;
use sandur_base::units::format_duration;
use sandur_model::Role;

use crate::app::{App, AppState};
use crate::failed_request::Failure;
use crate::params::Params;
use crate::reply;
use crate::route::{Access, GET, Group, Handler, Route, parameter};

/// The row of this endpoint in the table of routes.
pub static ROUTE: Route = Route {
    methods: GET,
    paths: &["/ready", "/-/ready"],
    scope: Access::Open,
    does: "Whether the process is ready for requests.",
    parameters: &[parameter(
        "for",
        "`push`: whether pushes can be acknowledged; `query`: whether the view of what other processes \
         stored is at most `query.max_view_age` old; by default whether either is true",
    )],
    answers: "200, the text `ready`, or `ready (...)` with what does not work: pushes (`pushes are refused: \
              REASON`), the view of other processes (`answers may lack rows: REASON`), flushes to blocks \
              (`flushes fail for DURATION: ...`).",
    fails: "503 with the reason and `Retry-After`, also while the server starts, stops or drains, and for \
            work that `cluster.roles` excludes; 400: an unknown \
            value of `for`.",
    handler: |request, app| ready.call(request, app),
    ..Route::of(Group::Operations)
};

/// The kind of requests that a readiness check is about.
enum ReadyFor {
    Push,
    Query,
    Any,
}

impl ReadyFor {
    fn read(params: &Params) -> Result<Self, Failure> {
        match params.get("for") {
            None | Some("") => Ok(Self::Any),
            Some("push") => Ok(Self::Push),
            Some("query") => Ok(Self::Query),
            Some(_) => Err(Failure::invalid("for is neither 'push' nor 'query'; leave it out for both\n")),
        }
    }
}

async fn ready(State(app): State<App>, params: Params) -> Result<Response, Failure> {
    let wanted = ReadyFor::read(&params)?;
    if !app.is_ready() {
        return Err(not_ready("starting or stopping"));
    }
    if app.writes.intake().is_draining() {
        return Err(not_ready("this node drains: it waits to be stopped"));
    }
    let pushes = pushes(&app);
    let view = queries(&app);
    let failure = match (wanted, &pushes, &view) {
        (ReadyFor::Push, Err(reason), _) | (ReadyFor::Query, _, Err(reason)) => Some(reason.clone()),
        // A process that by its roles does neither is ready to do its other work.
        (ReadyFor::Any, ..) if !has(&app, Role::Ingest) && !has(&app, Role::Query) => None,
        (ReadyFor::Any, Err(refused), Err(stale)) => Some(format!("{refused}; {stale}")),
        _ => None,
    };
    if let Some(reason) = failure {
        return Err(not_ready(&reason));
    }
    let limits: Vec<String> = [pushes.err(), view.err(), flushes(&app)].into_iter().flatten().collect();
    Ok(reply::text(match limits.is_empty() {
        true => "ready\n".to_owned(),
        false => format!("ready ({})\n", limits.join("; ")),
    }))
}

fn has(app: &AppState, role: Role) -> bool {
    app.settings.cluster.roles.has(role)
}

/// Why pushes are refused, if they are.
fn pushes(app: &AppState) -> Result<(), String> {
    if !has(app, Role::Ingest) {
        return Err("pushes are refused: the process has no role 'ingest'".to_owned());
    }
    let able = app.writes.intake().writable();
    able.map_err(|refusal| format!("pushes are refused: {}", refusal.message))
}

/// Why answers are refused or may lack rows, if so.
fn queries(app: &AppState) -> Result<(), String> {
    if !has(app, Role::Query) {
        return Err("queries are refused: the process has no role 'query'".to_owned());
    }
    let fresh = app.writes.intake().has_fresh_view();
    fresh.map_err(|stale| format!("answers may lack rows: {}", stale.message))
}

fn not_ready(reason: &str) -> Failure {
    Failure::new(ErrorKind::Unavailable, format!("not ready: {reason}\n"))
}

/// The note about failing flushes, if they fail.
fn flushes(app: &AppState) -> Option<String> {
    let since = app.writes.intake().flushes_fail_for()?;
    let since = format_duration(Duration::from_secs(since.as_secs()));
    Some(format!(
        "flushes fail for {since}: rows are safe in the WAL, and fill memory_limit until one succeeds; the \
         log says why"
    ))
}

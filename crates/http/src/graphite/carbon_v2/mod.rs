//! carbonserver's gRPC: the service `CarbonV2` of carbonapi's second protocol, whose messages are the
//! same as over HTTP.

pub mod render;

use std::convert::Infallible;

use axum::extract::{FromRequest, Request, State};
use axum::response::Response;
use sandur_graphite::{
    CarbonserverForm, FindRequest, ListingForm, ListingRequest, Rendered, Zone, find as nodes,
    info as info_of, read_globs, read_info,
};
use sandur_memory::Reservation;
use sandur_service::Queries;
use sandur_service::graphite::GraphiteRequest;

use crate::app::App;
use crate::failed_request::Failure;
use crate::graphite::answer::{done, failure, named, now};
use crate::graphite::parameters::GraphiteCall;
use crate::grpc;
use crate::route::{Access, Group, Handler, POST, Route};

/// Failures in addition to those of every call.
pub const FAILS: &str = "`INVALID_ARGUMENT`: an invalid message, a limit; `RESOURCE_EXHAUSTED`; \
                         `UNAVAILABLE`. 401 and 403 as for `LogsService/Export`.";

/// The message of a call, or why it cannot be read: that is answered in the trailers of gRPC.
pub struct Opened(pub Result<GraphiteCall, Failure>);

impl FromRequest<App> for Opened {
    type Rejection = Infallible;

    async fn from_request(request: Request, app: &App) -> Result<Self, Infallible> {
        let opened = async {
            let request = grpc::open(&app.env, app.settings.http.body_idle_timeout, request).await?;
            GraphiteCall::from_request(request, app).await
        };
        Ok(Self(opened.await))
    }
}

/// Answers with one message.
pub fn one(outcome: Result<(Rendered, Reservation), Failure>) -> Response {
    match outcome {
        Ok((rendered, memory)) => grpc::messages(vec![rendered.body.into()], Some(memory)),
        Err(failure) => grpc::failure(&failure),
    }
}

/// The nodes that match a pattern.
pub static FIND: Route = Route {
    methods: POST,
    paths: &["/carbonapi_v2_grpc.CarbonV2/Find"],
    scope: Access::Read,
    does: "Nodes of the tree of paths by carbonserver's gRPC; the request is a `GlobRequest` of carbonapi's \
           second protocol.",
    answers: "`OK` and a `GlobResponse`.",
    fails: FAILS,
    handler: |request, app| find.call(request, app),
    ..Route::of(Group::Graphite)
};

async fn find(State(queries): State<Queries>, Opened(call): Opened) -> Response {
    one(found(&queries, call).await)
}

async fn found(
    queries: &Queries,
    call: Result<GraphiteCall, Failure>,
) -> Result<(Rendered, Reservation), Failure> {
    let call = call?;
    // A `GlobRequest` is encoded like a `MultiGlobRequest` of one pattern without times.
    let (patterns, ..) = read_globs(&call.body).map_err(|error| failure(&error))?;
    let query = patterns.into_iter().next().unwrap_or_default();
    let pairs = [("query".to_owned(), query), ("format".to_owned(), "carbonapi_v2_pb".to_owned())];
    let request = FindRequest::read(&pairs, now(queries), &Zone::utc()).map_err(|error| failure(&error))?;
    let described = GraphiteRequest { kind: "find", text: request.query.clone(), times: None };
    done(queries, &call, described, async |series, context| nodes(series, context, &request).await).await
}

/// All paths.
pub static LIST: Route = Route {
    methods: POST,
    paths: &["/carbonapi_v2_grpc.CarbonV2/List"],
    scope: Access::Read,
    does: "All paths by carbonserver's gRPC, in one message.",
    answers: "`OK` and a `ListMetricsResponse`.",
    fails: FAILS,
    handler: |request, app| list.call(request, app),
    ..Route::of(Group::Graphite)
};

async fn list(State(queries): State<Queries>, Opened(call): Opened) -> Response {
    one(listed(&queries, call, ListingForm::Names(CarbonserverForm::Older)).await)
}

/// Reads a listing into one message; each piece is reserved.
pub async fn listed(
    queries: &Queries,
    call: Result<GraphiteCall, Failure>,
    form: ListingForm,
) -> Result<(Rendered, Reservation), Failure> {
    let call = call?;
    let wanted = ListingRequest { pattern: None, leaves_only: false, form };
    let described = named("list", &call, &[]);
    done(queries, &call, described, async |series, context| {
        let mut listing = series.listing(context, wanted, now(queries)).await?;
        let (mut body, mut held) = (Vec::new(), Vec::new());
        while !listing.is_over() {
            let piece = listing.piece().await?;
            // Twice the size, since the body doubles its capacity when it grows.
            let memory = context.budget().reserve(2 * piece.len() as u64);
            held.push(memory.map_err(sandur_query::Error::from)?);
            body.extend_from_slice(&piece);
        }
        Ok(Rendered { content_type: form.content_type(), body })
    })
    .await
}

/// The storage schema of a path.
pub static INFO: Route = Route {
    methods: POST,
    paths: &["/carbonapi_v2_grpc.CarbonV2/Info"],
    scope: Access::Read,
    does: "Steps, retentions and aggregation of a path by carbonserver's gRPC, according to the rules of \
           `graphite.schemas` and `graphite.aggregation`.",
    answers: "`OK` and an `InfoResponse`.",
    fails: FAILS,
    handler: |request, app| info.call(request, app),
    ..Route::of(Group::Graphite)
};

async fn info(State(queries): State<Queries>, Opened(call): Opened) -> Response {
    one(answer(&queries, call).await)
}

async fn answer(
    queries: &Queries,
    call: Result<GraphiteCall, Failure>,
) -> Result<(Rendered, Reservation), Failure> {
    let call = call?;
    let names = read_info(&call.body).map_err(|error| failure(&error))?;
    let name = names.into_iter().next().unwrap_or_default();
    if name.is_empty() {
        return Err(Failure::invalid("the request names no series"));
    }
    let request = GraphiteRequest { kind: "info", text: name.clone(), times: None };
    let now = queries.graphite_rules();
    done(queries, &call, request, async |_, _| info_of(CarbonserverForm::Older, &name, now.of(&name))).await
}

/// All paths with the size and age of their files.
pub static STATS: Route = Route {
    methods: POST,
    paths: &["/carbonapi_v2_grpc.CarbonV2/Stats"],
    scope: Access::Read,
    does: "All paths as in `/metrics/details`, by carbonserver's gRPC, in one message.",
    answers: "`OK` and a `MetricDetailsResponse`.",
    fails: FAILS,
    handler: |request, app| stats.call(request, app),
    ..Route::of(Group::Graphite)
};

async fn stats(State(queries): State<Queries>, Opened(call): Opened) -> Response {
    one(listed(&queries, call, ListingForm::Details(CarbonserverForm::Older)).await)
}

/// The version of the protocol.
pub static VERSION: Route = Route {
    methods: POST,
    paths: &["/carbonapi_v2_grpc.CarbonV2/Version"],
    scope: Access::Credential,
    does: "The version of carbonapi's protocol that carbonserver's gRPC uses.",
    answers: "`OK` and a `ProtocolVersionResponse` of `2`.",
    fails: FAILS,
    handler: |request, app| version.call(request, app),
    ..Route::of(Group::Graphite)
};

async fn version(Opened(call): Opened) -> Response {
    match call {
        Ok(_) => grpc::answer(b"\x0a\x012"),
        Err(failure) => grpc::failure(&failure),
    }
}

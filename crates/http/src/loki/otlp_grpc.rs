//! Stores log records by OTLP over gRPC: `LogsService/Export`.

use axum::extract::{Request, State};
use axum::response::Response;
use sandur_ingest::Refused;

use crate::app::App;
use crate::failed_request::Failure;
use crate::grpc;
use crate::receive::push_lines;
use crate::route::{Access, Group, Handler, POST, Route};

/// The row of this endpoint in the table of routes.
pub static ROUTE: Route = Route {
    methods: POST,
    paths: &["/opentelemetry.proto.collector.logs.v1.LogsService/Export"],
    scope: Access::Write,
    does: "Stores log records by OTLP over gRPC (HTTP/2, unary; also on `otlp_grpc_listen`); answers when \
           they are durable and can be queried. The message may be compressed with gzip, zstd, snappy or \
           deflate.",
    answers: "`OK` and an `ExportLogsServiceResponse`, with `partial_success` when records break a limit and \
              the others are stored.",
    fails: "`INVALID_ARGUMENT`; `RESOURCE_EXHAUSTED`: too large, or with `RetryInfo` a rate; `UNAVAILABLE` \
            with `RetryInfo`; `UNIMPLEMENTED`: another compression. Without a valid credential the HTTP \
            status is 401 or 403, which clients report as `UNAUTHENTICATED` and `PERMISSION_DENIED`.",
    handler: |request, app| export.call(request, app),
    ..Route::of(Group::Write)
};

async fn export(State(app): State<App>, request: Request) -> Response {
    match store(&app, request).await {
        Ok(refused) => grpc::answer(&grpc::export_response(&refused)),
        Err(failure) => grpc::failure(&failure),
    }
}

async fn store(app: &App, request: Request) -> Result<Refused, Failure> {
    let request = grpc::open(&app.env, app.settings.http.body_idle_timeout, request).await?;
    let (parts, body) = request.into_parts();
    push_lines(app, &parts, body, sandur_ingest::otlp_logs_within).await
}

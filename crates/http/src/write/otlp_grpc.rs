//! Stores metrics by OTLP over gRPC: `MetricsService/Export`.

use axum::extract::{Request, State};
use axum::response::Response;
use sandur_ingest::Refused;

use crate::app::App;
use crate::failed_request::Failure;
use crate::grpc;
use crate::receive::push_samples;
use crate::route::{Access, Group, Handler, POST, Route};

/// The row of this endpoint in the table of routes.
pub static ROUTE: Route = Route {
    methods: POST,
    paths: &["/opentelemetry.proto.collector.metrics.v1.MetricsService/Export"],
    scope: Access::Write,
    does: "Stores metrics by OTLP over gRPC, as `LogsService/Export` stores log records.",
    answers: "`OK` and an `ExportMetricsServiceResponse`, with `partial_success` when points break a limit \
              and the others are stored.",
    fails: "like `LogsService/Export`.",
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
    Ok(push_samples(app, &parts, body, sandur_ingest::otlp_metrics).await?.refused)
}

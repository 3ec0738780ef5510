//! `write`: stores samples by Prometheus's remote write, versions 1.0 and 2.0.

use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use sandur_ingest::{RemoteWriteVersion, Written};
use sandur_service::writes::Stored;

use crate::app::App;
use crate::failed_request::Failure;
use crate::receive::{headers_of, push_samples};
use crate::reply;
use crate::route::{Access, Group, Handler, POST, Route};

/// The row of this endpoint in the table of routes.
pub static ROUTE: Route = Route {
    methods: POST,
    paths: &["/api/v1/write", "/prometheus/api/v1/write", "/api/v1/push"],
    scope: Access::Write,
    does: "Stores samples by remote write 1.0 and 2.0 (the content type says which); answers when they are \
           durable and can be queried. The body is protobuf in a snappy block.",
    answers: "204; of version 2.0 with `X-Prometheus-Remote-Write-Samples-Written` and the same for \
              `Histograms` and `Exemplars`.",
    fails: "400: some samples break a limit or have another value for a timestamp in memory (the text names \
            them; the others are stored), or the body cannot be decoded; 413; 415: another content type or \
            encoding; 429: a rate; 503.",
    handler: |request, app| write.call(request, app),
    ..Route::of(Group::Write)
};

const WRITTEN: [HeaderName; 3] = [
    HeaderName::from_static("x-prometheus-remote-write-samples-written"),
    HeaderName::from_static("x-prometheus-remote-write-histograms-written"),
    HeaderName::from_static("x-prometheus-remote-write-exemplars-written"),
];

/// `POST /api/v1/write`.
async fn write(State(app): State<App>, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    let headers = headers_of(&parts.headers);
    let version = match sandur_ingest::remote_write_version(headers.borrowed()) {
        Ok(version) => version,
        Err(error) => {
            return Failure::invalid(error.to_string())
                .with_status(StatusCode::UNSUPPORTED_MEDIA_TYPE)
                .into_response();
        }
    };
    let (written, mut response) = match push_samples(&app, &parts, body, sandur_ingest::remote_write).await {
        Ok(Stored { written, refused }) => match refused.text() {
            None => (written, reply::empty()),
            Some(text) => (written, Failure::invalid(text).into_response()),
        },
        Err(failure) => (Written::default(), failure.into_response()),
    };
    if version == RemoteWriteVersion::V2 {
        show_written(response.headers_mut(), written);
    }
    response
}

/// Adds the counts of what was written, which senders of version 2.0 compare with what they sent.
fn show_written(headers: &mut HeaderMap, written: Written) {
    let counts = [written.samples, written.histograms, written.exemplars];
    for (name, count) in WRITTEN.into_iter().zip(counts) {
        headers.insert(name, HeaderValue::from(count));
    }
}

//! `import/prometheus`: stores samples as text, as VictoriaMetrics accepts them.

use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::response::Response;
use sandur_ingest::ImportOptions;

use crate::app::App;
use crate::failed_request::Failure;
use crate::params::Params;
use crate::receive::push_samples;
use crate::refused_parts;
use crate::reply;
use crate::route::{Access, Group, Handler, Route, Verb, parameter};

/// The row of this endpoint in the table of routes.
pub static ROUTE: Route = Route {
    methods: &[Verb::Post, Verb::Put],
    paths: &["/api/v1/import/prometheus", "/prometheus/api/v1/import/prometheus"],
    scope: Access::Write,
    does: "Stores samples of a text in Prometheus's format, or in OpenMetrics when the content type is \
           `application/openmetrics-text`; answers when they are durable and can be queried. The body may be \
           compressed.",
    parameters: &[
        parameter("extra_label", "`name=value`; a label that is added to every series; may be repeated"),
        parameter(
            "timestamp",
            "timestamp of samples without one, milliseconds since the epoch; by default \
            now",
        ),
    ],
    answers: "204.",
    fails: "400: some lines cannot be read, break a limit or have another value for a timestamp in memory \
            (the text names them; the others are stored); with the header `X-Sandur-Refused: lines` the \
            answer is JSON that also says which lines were refused, \
            `{\"message\":\"...\",\"refused\":[[first,count,\"reason\"],...]}`, counted from 0 (with more \
            than 10,000 separate runs the answer is the text); 413; 429: a rate; 503.",
    handler: |request, app| import.call(request, app),
    ..Route::of(Group::Write)
};

async fn import(State(app): State<App>, request: Request) -> Result<Response, Failure> {
    let params = Params::read(b"", request.uri().query().unwrap_or("").as_bytes());
    let mut options = options(&params)?;
    options.name_lines = refused_parts::are_asked(request.headers(), "lines");
    store(&app, request, options).await
}

/// Parses the options in a URL.
fn options(params: &Params) -> Result<ImportOptions, Failure> {
    let extra_labels = params.all("extra_label").map(|label| {
        let pair = label.split_once('=').filter(|(name, _)| !name.is_empty());
        let pair =
            pair.ok_or_else(|| Failure::invalid(format!("extra_label '{label}' is not name=value")))?;
        Ok((pair.0.to_owned(), pair.1.to_owned()))
    });
    let extra_labels = extra_labels.collect::<Result<Vec<_>, Failure>>()?;
    let time = params.get("timestamp").filter(|text| !text.is_empty());
    let time = time.map(|text| {
        let refused = |_| Failure::invalid(format!("timestamp '{text}' is no number of milliseconds"));
        text.parse::<i64>().map_err(refused)
    });
    Ok(ImportOptions { extra_labels, time_ms: time.transpose()?, ..ImportOptions::default() })
}

/// Stores the samples in the body of a request.
pub async fn store(app: &App, request: Request, options: ImportOptions) -> Result<Response, Failure> {
    let (parts, body) = request.into_parts();
    let names_lines = options.name_lines;
    let decode = move |samples: sandur_ingest::SamplePush<'_>, body, lent| {
        sandur_ingest::import(samples, &options, body, lent)
    };
    let stored = push_samples(app, &parts, body, decode).await?;
    let Some(text) = stored.refused.text() else { return Ok(reply::empty()) };
    match stored.refused.runs().filter(|_| names_lines) {
        Some(runs) => Ok(refused_parts::answer(runs, &text)),
        None => Err(Failure::invalid(text).with_status(StatusCode::BAD_REQUEST)),
    }
}

//! Labels, label values and series: what the index knows.

use std::sync::Arc;

use axum::extract::{Path, State};
use axum::response::Response;
use sandur_model::{Labels, TimeRange};

use super::selector;
use crate::http::app::App;
use crate::http::call::Call;
use crate::http::failure::Failure;
use crate::http::marshal::json;
use crate::http::reply;

/// `labels`: names of labels in the range, of streams that match `query` if it is given.
pub async fn names(State(app): State<App>, call: Call) -> Result<Response, Failure> {
    let (start, end) = call.params.bounds(app.env.now_ns())?;
    let matchers = selector::optional(call.params.query())?;
    let context = app.query_context(&call.tenant);
    let names = app.source.label_names(&context, matchers, TimeRange::inclusive(start, end)).await?;
    Ok(strings(&names))
}

/// `label/NAME/values`.
pub async fn values(
    State(app): State<App>,
    Path(name): Path<String>,
    call: Call,
) -> Result<Response, Failure> {
    let (start, end) = call.params.bounds(app.env.now_ns())?;
    let matchers = selector::optional(call.params.query())?;
    let context = app.query_context(&call.tenant);
    let range = TimeRange::inclusive(start, end);
    let values = app.source.label_values(&context, name, matchers, range).await?;
    Ok(strings(&values))
}

/// Loki leaves `data` out when there is nothing.
fn strings(items: &[String]) -> Response {
    let mut body = b"{\"status\":\"success\"".to_vec();
    if !items.is_empty() {
        body.extend_from_slice(b",\"data\":");
        json::strings(&mut body, items.iter().map(String::as_str));
    }
    body.extend_from_slice(b"}\n");
    reply::json(body)
}

/// `series`: label sets of streams that match any `match[]` (or `match`).
pub async fn series(State(app): State<App>, call: Call) -> Result<Response, Failure> {
    let (start, end) = call.params.bounds(app.env.now_ns())?;
    let mut any_of = Vec::new();
    for text in call.params.all("match[]").chain(call.params.all("match")) {
        any_of.push(selector::optional(text)?);
    }
    let context = app.query_context(&call.tenant);
    let streams = app.source.streams(&context, any_of, TimeRange::inclusive(start, end)).await?;
    let bytes: u64 = streams.iter().map(|s| (s.text_bytes() + s.len() * 6 + 3) as u64).sum();
    let memory = context.budget().reserve(bytes).map_err(sandur_query::Error::from)?;
    Ok(reply::large_json(&app, &call, series_body(&streams), Some(memory)).await)
}

fn series_body(streams: &[Arc<Labels>]) -> Vec<u8> {
    let mut body = b"{\"status\":\"success\",\"data\":[".to_vec();
    for (n, stream) in streams.iter().enumerate() {
        if n > 0 {
            body.push(b',');
        }
        json::labels(&mut body, stream.iter());
    }
    body.extend_from_slice(b"]}\n");
    body
}

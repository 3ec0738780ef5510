//! `search`: names of metrics, and names and values of labels, that match a search.

use std::collections::HashMap;

use axum::extract::State;
use axum::response::Response;
use sandur_model::MetricMetadata;
use sandur_query::{MetadataSelection, SampleSource, all_texts};
use sandur_service::Queries;

use super::queries::refuse;
use super::refused::Refused;
use super::search::{Hit, PARAMETERS, Search, Write, answer, truth};
use crate::call::Call;
use crate::marshal::json;
use crate::route::{Access, GET_POST, Group, Handler, Route};

/// Names of metrics.
pub static METRIC_NAMES: Route = Route {
    methods: GET_POST,
    paths: &["/api/v1/search/metric_names", "/prometheus/api/v1/search/metric_names"],
    scope: Access::Read,
    does: "Names of metrics that match a search; with `include_metadata=true` with type, help and unit.",
    parameters: &PARAMETERS,
    answers: "200, lines of JSON: `{\"results\":[{\"name\":\"up\"},..]}`, then \
              `{\"status\":\"success\",\"has_more\":false}`.",
    fails: "400 `bad_data`.",
    several_tenants: true,
    handler: |request, app| names.call(request, app),
    ..Route::of(Group::Metrics)
};

async fn names(State(queries): State<Queries>, call: Call) -> Result<Response, Refused> {
    let context = queries.samples_context(&call.caller.tenant, None);
    let search = Search::read(&queries, &context, &call, "metric_names").await?;
    let with_metadata = truth(&call.params, "include_metadata", false)?;
    let request = search.request.series().values("__name__");
    let work = async {
        let (names, memory) = all_texts(&queries.samples(), &context, request).await?;
        if !with_metadata {
            return Ok((names, memory, write_name()));
        }
        let selection = MetadataSelection { limit_per_family: Some(1), ..MetadataSelection::default() };
        let metadata = queries.samples().metadata(&context, selection).await?;
        let held = metadata.held;
        let of: HashMap<Box<str>, MetricMetadata> =
            metadata.metrics.into_iter().map(|one| (one.family.clone(), one)).collect();
        let write: Write = Box::new(move |out: &mut Vec<u8>, hit: &Hit| {
            let _ = &held;
            write_with(out, hit, of.get(hit.text.as_str()));
        });
        Ok((names, memory, write))
    };
    answer((&queries, &call), &context, search, work).await
}

fn write_with(out: &mut Vec<u8>, hit: &Hit, metadata: Option<&MetricMetadata>) {
    out.extend_from_slice(b"\"name\":");
    json::utf8(out, &hit.text);
    let Some(metadata) = metadata else { return };
    for (key, value) in
        [("type", metadata.kind.as_str()), ("help", &*metadata.help), ("unit", &*metadata.unit)]
    {
        if !value.is_empty() {
            json::push(out, format_args!(",\"{key}\":"));
            json::utf8(out, value);
        }
    }
}

/// Names of labels.
pub static LABEL_NAMES: Route = Route {
    methods: GET_POST,
    paths: &["/api/v1/search/label_names", "/prometheus/api/v1/search/label_names"],
    scope: Access::Read,
    does: "Names of labels that match a search.",
    parameters: &PARAMETERS,
    answers: "200, lines of JSON: `{\"results\":[{\"name\":\"job\"},..]}`, then \
              `{\"status\":\"success\",\"has_more\":false}`.",
    fails: "400 `bad_data`.",
    several_tenants: true,
    handler: |request, app| label_names.call(request, app),
    ..Route::of(Group::Metrics)
};

async fn label_names(State(queries): State<Queries>, call: Call) -> Result<Response, Refused> {
    let context = queries.samples_context(&call.caller.tenant, None);
    let search = Search::read(&queries, &context, &call, "label_names").await?;
    let request = search.request.series().names();
    let work = async {
        let (names, memory) = all_texts(&queries.samples(), &context, request).await?;
        Ok((names, memory, write_name()))
    };
    answer((&queries, &call), &context, search, work).await
}

/// Writes a result as a name.
fn write_name() -> Write {
    Box::new(|out: &mut Vec<u8>, hit: &Hit| {
        out.extend_from_slice(b"\"name\":");
        json::utf8(out, &hit.text);
    })
}

/// Values of a label.
pub static LABEL_VALUES: Route = Route {
    methods: GET_POST,
    paths: &["/api/v1/search/label_values", "/prometheus/api/v1/search/label_values"],
    scope: Access::Read,
    does: "Values of the label `label` that match a search.",
    parameters: &PARAMETERS,
    answers: "200, lines of JSON: `{\"results\":[{\"value\":\"node\"},..]}`, then \
              `{\"status\":\"success\",\"has_more\":false}`.",
    fails: "400 `bad_data`.",
    several_tenants: true,
    handler: |request, app| values.call(request, app),
    ..Route::of(Group::Metrics)
};

async fn values(State(queries): State<Queries>, call: Call) -> Result<Response, Refused> {
    let context = queries.samples_context(&call.caller.tenant, None);
    let search = Search::read(&queries, &context, &call, "label_values").await?;
    let label = call.params.get("label").ok_or_else(|| refuse("missing required parameter \"label\""))?;
    let request = search.request.series().values(label);
    let work = async {
        let (values, memory) = all_texts(&queries.samples(), &context, request).await?;
        let write: Write = Box::new(|out: &mut Vec<u8>, hit: &Hit| {
            out.extend_from_slice(b"\"value\":");
            json::utf8(out, &hit.text);
        });
        Ok((values, memory, write))
    };
    answer((&queries, &call), &context, search, work).await
}

//! `search/label_values`: values of a label that match a search.

use axum::extract::State;
use axum::response::Response;
use axum::routing::on;
use sandur_query::all_texts;
use sandur_service::Queries;

use super::queries::refuse;
use super::refused::Refused;
use super::search::{Hit, PARAMETERS, Search, Write, answer};
use crate::call::Call;
use crate::marshal::json;
use crate::route::{Access, GET_POST, Group, Route};

/// The row of this endpoint in the table of routes.
pub static ROUTE: Route = Route {
    methods: GET_POST,
    paths: &["/api/v1/search/label_values", "/prometheus/api/v1/search/label_values"],
    group: Group::Metrics,
    scope: Access::Read,
    does: "Values of the label `label` that match a search.",
    parameters: &PARAMETERS,
    answers: "200, lines of JSON: `{\"results\":[{\"value\":\"node\"},..]}`, then \
              `{\"status\":\"success\",\"has_more\":false}`.",
    fails: "400 `bad_data`.",
    several_tenants: true,
    handler: |verbs| on(verbs, values),
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

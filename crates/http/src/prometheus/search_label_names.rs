//! `search/label_names`: names of labels that match a search.

use axum::extract::State;
use axum::response::Response;
use axum::routing::on;
use sandur_query::all_texts;
use sandur_service::Queries;

use super::refused::Refused;
use super::search::{Hit, PARAMETERS, Search, Write, answer};
use crate::call::Call;
use crate::marshal::json;
use crate::route::{Access, GET_POST, Group, Route};

/// The row of this endpoint in the table of routes.
pub static ROUTE: Route = Route {
    methods: GET_POST,
    paths: &["/api/v1/search/label_names", "/prometheus/api/v1/search/label_names"],
    group: Group::Metrics,
    scope: Access::Read,
    does: "Names of labels that match a search.",
    parameters: &PARAMETERS,
    answers: "200, lines of JSON: `{\"results\":[{\"name\":\"job\"},..]}`, then \
              `{\"status\":\"success\",\"has_more\":false}`.",
    fails: "400 `bad_data`.",
    several_tenants: true,
    handler: |verbs| on(verbs, names),
};

async fn names(State(queries): State<Queries>, call: Call) -> Result<Response, Refused> {
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
pub fn write_name() -> Write {
    Box::new(|out: &mut Vec<u8>, hit: &Hit| {
        out.extend_from_slice(b"\"name\":");
        json::utf8(out, &hit.text);
    })
}

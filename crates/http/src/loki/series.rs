//! `series`: label sets of streams.

use std::sync::Arc;

use axum::extract::State;
use axum::response::Response;
use sandur_base::ErrorKind;
use sandur_model::Labels;
use sandur_query::{QueryStats, SeriesRequest, all_series};
use sandur_service::Queries;
use sandur_service::logql::selector;
use sandur_service::query_log::Asked;

use crate::call::Call;
use crate::failed_request::Failure;
use crate::logged::logged;
use crate::marshal::json;
use crate::reply;
use crate::route::{Access, END, GET_POST, Group, Handler, Route, SINCE, START, parameter};

/// The row of this endpoint in the table of routes.
pub static ROUTE: Route = Route {
    methods: GET_POST,
    paths: &["/loki/api/v1/series", "/api/prom/series"],
    scope: Access::Read,
    does: "Label sets of the streams that match any selector.",
    parameters: &[
        parameter("match[]", "a selector; may be repeated; also `match`; by default every stream"),
        START,
        END,
        SINCE,
    ],
    answers: "200, `{\"status\":\"success\",\"data\":[{\"app\":\"api\"},..]}`.",
    fails: "400: more streams than `cardinality_limit`.",
    several_tenants: true,
    handler: |request, app| series.call(request, app),
    ..Route::of(Group::Index)
};

/// `series`: label sets of streams that match any `match[]` (or `match`).
async fn series(State(queries): State<Queries>, call: Call) -> Result<Response, Failure> {
    let context = queries.logs_context(&call.caller.tenant);
    let (times, range) = call.range(&queries, &context)?;
    let selectors = || call.params.all("match[]").chain(call.params.all("match"));
    let any_of = selector::each_optional(&context, &queries.limits(&call.caller.tenant), selectors()).await?;
    let asked = Asked::series(selectors(), times);
    let work = async {
        let (streams, held) =
            all_series(queries.logs(), &context, SeriesRequest::any_of(any_of, range)).await?;
        let (found, most) = (streams.len() as u64, queries.limits(&call.caller.tenant).cardinality_limit);
        if most > 0 && found > most {
            let text = format!(
                "cardinality limit exceeded for series{{}}; {found} entries, more than limit of {most}"
            );
            return Err(Failure::new(ErrorKind::Limit, text));
        }
        QueryStats::add(&context.stats().entries_returned, found);
        Ok((streams, held))
    };
    let ((streams, _held), _) = logged((&queries, &call.caller), &context, asked, work).await?;
    let bytes: u64 = streams.iter().map(|s| (s.text_bytes() + s.len() * 6 + 3) as u64).sum();
    let memory = context.budget().reserve(bytes).map_err(sandur_query::Error::from)?;
    Ok(reply::large_json(queries.env(), &call, series_body(&streams, &context.warnings()), Some(memory))
        .await)
}

fn series_body(streams: &[Arc<Labels>], warnings: &[String]) -> Vec<u8> {
    let mut body = b"{\"status\":\"success\"".to_vec();
    json::warnings(&mut body, warnings);
    body.extend_from_slice(b",\"data\":[");
    for (n, stream) in streams.iter().enumerate() {
        if n > 0 {
            body.push(b',');
        }
        json::labels(&mut body, stream.iter());
    }
    body.extend_from_slice(b"]}\n");
    body
}

//! `query_exemplars`: exemplars of the series that a query selects.

use axum::extract::State;
use axum::response::Response;
use sandur_query::{SampleSource, SeriesExemplars, SeriesRequest};
use sandur_service::Queries;
use sandur_service::promql;
use sandur_service::query_log::{Asked, Times};

use super::numbers;
use super::params;
use super::queries::{QUERY, refuse};
use super::refused::Refused;
use super::reply::success_json;
use super::selectors::{END, START, listed};
use crate::call::Call;
use crate::marshal::json;
use crate::route::{Access, GET_POST, Group, Handler, Route};

/// The row of this endpoint in the table of routes.
pub static ROUTE: Route = Route {
    methods: GET_POST,
    paths: &["/api/v1/query_exemplars", "/prometheus/api/v1/query_exemplars"],
    scope: Access::Read,
    does: "Exemplars of the series that the selectors of a query select.",
    parameters: &[QUERY, START, END],
    answers: "200, \
              `[{\"seriesLabels\":{..},\"exemplars\":[{\"labels\":{..},\"value\":\"6\",\
                   \"timestamp\":1.5}]}]` as `data`.",
    fails: "400 `bad_data`.",
    several_tenants: true,
    handler: |request, app| exemplars.call(request, app),
    ..Route::of(Group::Metrics)
};

async fn exemplars(State(queries): State<Queries>, call: Call) -> Result<Response, Refused> {
    let context = queries.samples_context(&call.caller.tenant, None);
    let (first, last) = params::bounds(&call.params, (i64::MIN, i64::MAX))?;
    if last < first {
        return Err(refuse("end timestamp must not be before start timestamp"));
    }
    let text = call.params.query();
    let parsed = promql::parse(&context, text).await;
    let expr = parsed.map_err(|error| Refused::reading(error, str::to_owned))?;
    let any_of: Vec<_> = expr.selectors().into_iter().map(|selector| selector.matchers.clone()).collect();
    if any_of.is_empty() {
        return Ok(success_json("[]"));
    }
    let wanted = SeriesRequest::any_of(any_of, params::range((first, last)));
    let times = Times { start_ns: wanted.range.start, end_ns: wanted.range.end.saturating_sub(1) };
    let asked = Asked::other("exemplars", text, times).of_metrics();
    let work = async {
        let found = queries.samples().exemplars(&context, wanted).await?;
        Ok((found.series, found.held))
    };
    listed((&queries, &call), (&context, asked), (None, write), work).await
}

fn write(out: &mut Vec<u8>, series: &SeriesExemplars) {
    out.extend_from_slice(b"{\"seriesLabels\":");
    json::labels(out, series.labels.iter());
    out.extend_from_slice(b",\"exemplars\":[");
    for (n, exemplar) in series.exemplars.iter().enumerate() {
        out.extend_from_slice(if n == 0 { b"{\"labels\":" } else { b",{\"labels\":" });
        json::labels(out, exemplar.labels.iter());
        out.extend_from_slice(b",\"value\":");
        numbers::quoted(out, exemplar.value);
        out.extend_from_slice(b",\"timestamp\":");
        numbers::seconds(out, exemplar.timestamp);
        out.push(b'}');
    }
    out.extend_from_slice(b"]}");
}

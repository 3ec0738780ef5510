//! `patterns`: the log templates of streams, with the number of lines of each.

use axum::extract::State;
use axum::response::Response;
use sandur_logql::{PatternSeries, PatternsRequest};
use sandur_model::TimeRange;
use sandur_service::Queries;
use sandur_service::logql::selector;
use sandur_service::query_log::Asked;

use crate::call::Call;
use crate::failed_request::Failure;
use crate::logged::logged;
use crate::marshal::json;
use crate::reply;
use crate::route::{Access, END, GET_POST, Group, Handler, Route, SINCE, START, STEP, parameter};

/// The row of this endpoint in the table of routes.
pub static ROUTE: Route = Route {
    methods: GET_POST,
    paths: &["/loki/api/v1/patterns"],
    scope: Access::Read,
    does: "The log templates of the streams' lines, with the number of lines of each by step. A template can \
           be used after `|>` and matches its lines. Of large selections a sample is read.",
    parameters: &[parameter("query", "a selector; required"), START, END, SINCE, STEP],
    answers: "200, \
              `{\"status\":\"success\",\"data\":[{\"pattern\",\"level\",\"samples\":[[seconds,lines]]}]}`, \
              most lines first, at most 300; a step is at least 10 s.",
    fails: "400: not a selector, more than 11,000 points.",
    several_tenants: true,
    handler: |request, app| patterns.call(request, app),
    ..Route::of(Group::Discovery)
};

async fn patterns(State(queries): State<Queries>, call: Call) -> Result<Response, Failure> {
    let context = queries.logs_context(&call.caller.tenant);
    let (times, range) = call.range(&queries, &context)?;
    let step_ns = call.params.step(times.start_ns, times.end_ns)?;
    let matchers =
        selector::required(&context, &queries.limits(&call.caller.tenant), call.params.query()).await?;
    let asked = Asked::other("patterns", call.params.query(), times);
    let work = async {
        let turn = context.turn().await?;
        // The end is exclusive, as in queries of lines.
        let range = TimeRange::new(range.start, range.end.saturating_sub(1));
        let request = PatternsRequest { matchers, range, step_ns };
        let found = sandur_logql::patterns(queries.logs(), &context, request).await?;
        drop(turn);
        Ok(found)
    };
    let (found, _) = logged((&queries, &call.caller), &context, asked, work).await?;
    let memory = context.budget().reserve(body_bytes(&found)).map_err(sandur_query::Error::from)?;
    Ok(reply::large_json(queries.env(), &call, body(&found), Some(memory)).await)
}

/// Estimated bytes of the answer and of what it is made from.
fn body_bytes(found: &[PatternSeries]) -> u64 {
    const PER_SAMPLE: usize = 40;
    let one = |series: &PatternSeries| 2 * series.pattern.len() + 64 + series.samples.len() * PER_SAMPLE;
    found.iter().map(one).sum::<usize>() as u64
}

fn body(found: &[PatternSeries]) -> Vec<u8> {
    let mut body = b"{\"status\":\"success\",\"data\":[".to_vec();
    for (n, series) in found.iter().enumerate() {
        body.extend_from_slice(if n == 0 { b"{\"pattern\":" } else { b",{\"pattern\":" });
        json::utf8(&mut body, &series.pattern);
        json::push(&mut body, format_args!(",\"level\":\"{}\",\"samples\":[", series.level.as_str()));
        for (n, (seconds, lines)) in series.samples.iter().enumerate() {
            let comma = if n == 0 { "" } else { "," };
            json::push(&mut body, format_args!("{comma}[{seconds},{lines}]"));
        }
        body.extend_from_slice(b"]}");
    }
    body.extend_from_slice(b"]}\n");
    body
}

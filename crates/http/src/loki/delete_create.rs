//! `delete`: creates a delete request. Lines are hidden immediately and removed later.

use std::time::Duration;

use axum::extract::State;
use axum::http::{HeaderName, HeaderValue};
use axum::response::Response;

use super::deletes;
use crate::app::App;
use crate::call::Call;
use crate::failed_request::Failure;
use crate::reply;
use crate::route::{Access, Group, Handler, Route, Verb, parameter};

/// The row of this endpoint in the table of routes.
pub static ROUTE: Route = Route {
    methods: &[Verb::Put, Verb::Post],
    paths: &["/loki/api/v1/delete"],
    scope: Access::Delete,
    does: "Deletes lines: when it answers, queries do not return them any more; they are removed from the \
           store when the request cannot be cancelled any more.",
    parameters: &[
        parameter("query", "a log query; the lines that it returns are deleted; required"),
        parameter("start", "first instant: ten-digit seconds or RFC 3339; required"),
        parameter("end", "last instant, inclusive; by default now, not later"),
        parameter("max_interval", "checked as in Loki, without other effect: requests are not split"),
    ],
    answers: "204; the header `X-Delete-Request-ID` has the request's id.",
    fails: "400: a parameter, too many open requests, or a query that needs too much memory to compile; 403: \
            `deletion_mode` is `disabled`.",
    handler: |request, app| create.call(request, app),
    ..Route::of(Group::Deletes)
};

const REQUEST_ID: HeaderName = HeaderName::from_static("x-delete-request-id");
const BAD_START: &str = "invalid start time: require unix seconds or RFC3339 format\n";
const BAD_END: &str = "invalid end time: require unix seconds or RFC3339 format\n";

async fn create(State(app): State<App>, call: Call) -> Result<Response, Failure> {
    let requests = deletes::of(&app.writes, &call.caller.tenant, sandur_model::Signal::Logs)?;
    let (params, now_ns) = (&call.params, app.env.now_ns());
    let query = params.get("query").ok_or_else(|| Failure::invalid("query not set\n"))?;
    super::deletes::check_length(query)?;
    let has_filter =
        requests.check(&call.caller.tenant, query).await.map_err(|failure| as_line(failure.into()))?;
    let start = params.get("start").ok_or_else(|| Failure::invalid("start time not set\n"))?;
    let start_ms = deletes::instant_ms(Some(start), now_ns).ok_or_else(|| Failure::invalid(BAD_START))?;
    let end_ms = deletes::instant_ms(params.get("end"), now_ns).ok_or_else(|| Failure::invalid(BAD_END))?;
    if end_ms > now_ns / 1_000_000 {
        return Err(Failure::invalid("deletes in the future are not allowed\n"));
    }
    if start_ms >= end_ms {
        return Err(Failure::invalid("start time can't be greater than or equal to end time\n"));
    }
    if let Some(interval) = params.get("max_interval").filter(|_| has_filter) {
        let most = app.settings.compaction.delete_max_interval;
        check_interval(interval, most, end_ms.saturating_sub(start_ms))?;
    }
    let id = requests.create(&call.caller.tenant, query, start_ms, end_ms).await?.to_string();
    tracing::info!(tenant = %call.caller.tenant, id, query, start_ms, end_ms, "lines are to be deleted");
    let mut response = reply::empty();
    let value = HeaderValue::from_str(&id).expect("an id has only letters and digits");
    response.headers_mut().insert(REQUEST_ID, value);
    Ok(response)
}

/// Appends a line break to the text of a failure, as Loki does for this endpoint.
fn as_line(mut failure: Failure) -> Failure {
    failure.message.push('\n');
    failure
}

/// Checks `max_interval` as Loki does. Loki splits requests by it; here it has no other effect.
fn check_interval(text: &str, most: Duration, length_ms: i64) -> Result<(), Failure> {
    let interval = sandur_model::go_text::parse_go_duration(text).ok().filter(|ns| *ns >= 1_000_000_000);
    let unit = "invalid max_interval: valid time units are 's', 'm', 'h'\n";
    let interval = interval.ok_or_else(|| Failure::invalid(unit))?;
    let most_ns = i64::try_from(most.as_nanos()).unwrap_or(i64::MAX);
    if most_ns > 0 && interval > most_ns {
        let most = sandur_model::go_text::format_go_duration(most_ns);
        return Err(Failure::invalid(format!("max_interval can't be greater than {most}\n")));
    }
    let length_ns = length_ms.saturating_mul(1_000_000);
    if interval > length_ns {
        let length = sandur_model::go_text::format_go_duration(length_ns);
        let text = format!("max_interval can't be greater than the interval to be deleted ({length})\n");
        return Err(Failure::invalid(text));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_are_refused_where_loki_refuses_them() {
        let refusal = |text, length_ms| {
            let day = Duration::from_secs(86_400);
            check_interval(text, day, length_ms).err().map(|failure| failure.message)
        };
        let week_ms = 7 * 86_400_000;
        assert_eq!(refusal("24h", week_ms), None);
        let units = "invalid max_interval: valid time units are 's', 'm', 'h'\n";
        for bad in ["1d", "999ms", "-1h", "soon"] {
            assert_eq!(refusal(bad, week_ms).as_deref(), Some(units), "{bad}");
        }
        assert_eq!(refusal("25h", week_ms).as_deref(), Some("max_interval can't be greater than 24h0m0s\n"));
        assert_eq!(
            refusal("2h", 3_600_000).as_deref(),
            Some("max_interval can't be greater than the interval to be deleted (1h0m0s)\n")
        );
    }
}

//! `query_range`: evaluates PromQL at each step of a range.

use axum::extract::State;
use axum::response::Response;
use sandur_promql::Times;
use sandur_service::Queries;

use super::params;
use super::queries::{LIMIT, LOOKBACK, POINTS_MAX, QUERY, STATS, TIMEOUT, answer, asked, refuse};
use super::refused::Refused;
use crate::call::Call;
use crate::params::Params;
use crate::route::{Access, GET_POST, Group, Handler, Route, parameter};

/// The row of this endpoint in the table of routes.
pub static ROUTE: Route = Route {
    methods: GET_POST,
    paths: &["/api/v1/query_range", "/prometheus/api/v1/query_range"],
    scope: Access::Read,
    does: "Evaluates PromQL at each step of a range. Steps that were evaluated before are not evaluated \
           again unless their samples changed.",
    parameters: &[
        QUERY,
        parameter("start", "first instant; required"),
        parameter("end", "last instant; required"),
        parameter("step", "seconds or a duration; required"),
        TIMEOUT,
        LIMIT,
        LOOKBACK,
        STATS,
    ],
    answers: "200, `matrix`, with `warnings` and `infos`.",
    fails: "400 `bad_data`, also for more than 11,000 points per series; 422 `execution`, also for limits; \
            429; 503 `timeout`.",
    several_tenants: true,
    handler: |request, app| range.call(request, app),
    ..Route::of(Group::Metrics)
};

async fn range(State(queries): State<Queries>, call: Call) -> Result<Response, Refused> {
    params::limit(&call.params)?;
    let asked = asked(&call, times(&call.params)?)?;
    answer(queries, call, asked).await
}

fn times(params: &Params) -> Result<Times, Refused> {
    let text = |name| params.get(name).unwrap_or("");
    let bound = |name| params::instant(text(name)).map_err(|reason| Refused::parameter(name, reason));
    let (start, end) = (bound("start")?, bound("end")?);
    if end < start {
        return Err(Refused::parameter("end", "end timestamp must not be before start time"));
    }
    let step = params::length(text("step")).map_err(|reason| Refused::parameter("step", reason))?;
    let step = step / 1_000_000;
    if step <= 0 {
        let text = "zero or negative query resolution step widths are not accepted. Try a positive integer";
        return Err(Refused::parameter("step", text));
    }
    if end.saturating_sub(start) / step > POINTS_MAX {
        return Err(refuse(
            "exceeded maximum resolution of 11,000 points per timeseries. Try decreasing the query \
             resolution (?step=XX)",
        ));
    }
    Ok(Times { start, end, step })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invalid_ranges_have_prometheus_error_texts() {
        let refusal = |text: &str| times(&Params::read(b"", text.as_bytes())).unwrap_err().message;
        for (text, message) in [
            ("", "invalid parameter \"start\": cannot parse \"\" to a valid timestamp"),
            ("start=1", "invalid parameter \"end\": cannot parse \"\" to a valid timestamp"),
            (
                "start=2&end=1&step=1",
                "invalid parameter \"end\": end timestamp must not be before start time",
            ),
            ("start=1&end=2", "invalid parameter \"step\": cannot parse \"\" to a valid duration"),
            (
                "start=1&end=2&step=0",
                "invalid parameter \"step\": zero or negative query resolution step widths are not \
                 accepted. Try a positive integer",
            ),
            (
                "start=0&end=148966367200.372&step=1",
                "exceeded maximum resolution of 11,000 points per timeseries. Try decreasing the query \
                 resolution (?step=XX)",
            ),
        ] {
            assert_eq!(refusal(text), message);
        }
        let fits = times(&Params::read(b"", b"start=0&end=11000&step=1")).unwrap();
        assert_eq!(fits, Times { start: 0, end: 11_000_000, step: 1_000 });
    }
}

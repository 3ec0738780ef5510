//! `/sandur/differences/series`: how the series that pass through a box of a plot differ from the others.

use axum::extract::State;
use axum::response::Response;
use sandur_promql::Times;
use sandur_service::Queries;
use sandur_service::promql::{PromqlQuery, PromqlRequest, SeriesBox};
use sandur_service::query_log::Outcome;

use super::params;
use super::queries::{LOOKBACK, POINTS_MAX, QUERY, TIMEOUT};
use super::refused::Refused;
use crate::call::Call;
use crate::operations::differences::{FIELDS_DEFAULT, body};
use crate::params::Params;
use crate::reply;
use crate::route::{Access, GET_POST, Group, Handler, Route, parameter};

/// The row of this endpoint in the table of routes.
pub static ROUTE: Route = Route {
    methods: GET_POST,
    paths: &["/sandur/differences/series"],
    scope: Access::Read,
    does: "Compares the series of a PromQL query that have a point inside a box of time and values with the \
           other series, and ranks the labels by how much the shares of their values differ. A difference \
           counts only if chance hardly explains it: it exceeds three standard deviations, and where few \
           rows decide, their probability is low, too.",
    parameters: &[
        QUERY,
        parameter("start", "first instant; required"),
        parameter("end", "last instant; required"),
        parameter(
            "step",
            "seconds or a duration; by default a 300th of the range, at least 1 s. The query is evaluated at \
             the multiples of the step in the range",
        ),
        parameter("box_start", "first instant of the box; by default `start`"),
        parameter("box_end", "last instant of the box; by default `end`"),
        parameter("box_min", "least value of the box; by default there is no bound"),
        parameter("box_max", "largest value of the box; by default there is no bound"),
        parameter("limit", "maximum number of labels; 100"),
        TIMEOUT,
        LOOKBACK,
    ],
    answers: "200, the format of `/sandur/differences` with numbers of series: all series are counted, so \
              `everyInside` and `everyOutside` are 1.",
    fails: "400 `bad_data`, also for more than 11,000 steps, or a box that is empty or outside of the \
            range; 422 `execution`, also for limits; 429; 503 `timeout`.",
    several_tenants: true,
    handler: |request, app| differences.call(request, app),
    ..Route::of(Group::Discovery)
};

/// Steps of a range without a step.
const STEPS_DEFAULT: i64 = 300;

async fn differences(State(queries): State<Queries>, call: Call) -> Result<Response, Refused> {
    let times = times(&call.params)?;
    let inside = box_of(&call.params, times)?;
    let fields = params::limit(&call.params)?.unwrap_or(FIELDS_DEFAULT as usize);
    let request = PromqlRequest {
        query: call.params.query().to_owned(),
        times,
        lookback_ms: params::lookback_ms(&call.params)?,
        points_max: POINTS_MAX as u64 + 1,
        limit: None,
        timeout: params::timeout(&call.params)?,
    };
    let query = PromqlQuery::begin(&queries, &call.caller, request);
    let outcome = query.differences(inside).await.map_err(Refused::from);
    let PromqlQuery { log, .. } = query;
    let cost = log.cost();
    match outcome {
        Ok(found) => {
            let body = body(&found, fields);
            log.end(&cost, Outcome::answered(body.len() as u64));
            Ok(reply::json(body))
        }
        Err(refused) => {
            log.end(&cost, Outcome::from(&refused));
            Err(refused)
        }
    }
}

fn instant(params: &Params, name: &str) -> Result<Option<i64>, Refused> {
    let read = |text| params::instant(text).map_err(|reason| Refused::parameter(name, reason));
    params.get(name).map(read).transpose()
}

fn times(params: &Params) -> Result<Times, Refused> {
    let required =
        |name| instant(params, name)?.ok_or_else(|| Refused::parameter(name, "the parameter is missing"));
    let (start, end) = (required("start")?, required("end")?);
    if end < start {
        return Err(Refused::parameter("end", "end timestamp must not be before start time"));
    }
    let length = end.saturating_sub(start);
    let step = match params.get("step") {
        None => (length / STEPS_DEFAULT).max(1_000),
        Some(text) => params::length(text).map_err(|reason| Refused::parameter("step", reason))? / 1_000_000,
    };
    if step <= 0 {
        return Err(Refused::parameter("step", "the step must be at least a millisecond"));
    }
    if length / step > POINTS_MAX {
        return Err(Refused::parameter("step", "the range has more than 11,000 steps: use a larger step"));
    }
    let (start, end) = steps_in(start, end, step);
    if start > end {
        return Err(Refused::parameter("step", "no multiple of the step is in the range"));
    }
    Ok(Times { start, end, step })
}

/// The box; it has to contain a step of the range.
fn box_of(params: &Params, times: Times) -> Result<SeriesBox, Refused> {
    let start = instant(params, "box_start")?.unwrap_or(times.start).max(times.start);
    let end = instant(params, "box_end")?.unwrap_or(times.end).min(times.end);
    let (first_ms, last_ms) = steps_in(start, end, times.step);
    if start > end || first_ms > last_ms {
        let text = "the box is empty, outside of the time range, or between two steps";
        return Err(Refused::parameter("box_start", text));
    }
    let bound = |name: &str| {
        let read = |text: &str| match text.parse::<f64>() {
            Ok(value) if !value.is_nan() => Ok(value),
            _ => Err(Refused::parameter(name, "the value is not a number")),
        };
        params.get(name).map(read).transpose()
    };
    let values = match (bound("box_min")?, bound("box_max")?) {
        (None, None) => None,
        (least, most) => Some((least.unwrap_or(f64::NEG_INFINITY), most.unwrap_or(f64::INFINITY))),
    };
    if values.is_some_and(|(least, most)| least > most) {
        return Err(Refused::parameter("box_min", "box_min must not be above box_max"));
    }
    Ok(SeriesBox { first_ms, last_ms, values })
}

/// The first and the last multiple of the step in a range.
fn steps_in(start: i64, end: i64, step: i64) -> (i64, i64) {
    let after = start.rem_euclid(step);
    let first = if after == 0 { start } else { start.saturating_add(step - after) };
    (first, end.saturating_sub(end.rem_euclid(step)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<SeriesBox, Refused> {
        let params = Params::read(b"", text.as_bytes());
        times(&params).and_then(|times| box_of(&params, times))
    }

    #[test]
    fn a_box_is_a_part_of_the_range_with_a_step() {
        let whole = read("start=0&end=600").unwrap();
        assert_eq!(whole, SeriesBox { first_ms: 0, last_ms: 600_000, values: None });
        let part = read("start=0&end=600&step=10&box_start=95&box_end=700&box_max=3").unwrap();
        assert_eq!(
            part,
            SeriesBox { first_ms: 100_000, last_ms: 600_000, values: Some((f64::NEG_INFINITY, 3.0)) }
        );
        for (text, part) in [
            ("end=1", "missing"),
            ("start=0&end=12000&step=1", "11,000 steps"),
            ("start=0&end=600&step=0", "at least a millisecond"),
            ("start=0&end=600&step=10&box_start=91&box_end=99", "between two steps"),
            ("start=1&end=9&step=10", "no multiple"),
            ("start=0&end=600&box_start=601&box_end=700", "outside"),
            ("start=0&end=600&box_min=2&box_max=1", "must not be above"),
            ("start=0&end=600&box_min=NaN", "not a number"),
        ] {
            let refused = read(text).unwrap_err();
            assert!(refused.message.contains(part), "{text}: {}", refused.message);
        }
        // The extremes do not overflow.
        let first = "-292273086-05-16T16:47:06Z";
        let _ = read(&format!("start={first}&end={first}&step=1&box_start=1e300"));
        let _ = read("start=1e300&end=1e300&step=1e9");
    }
}

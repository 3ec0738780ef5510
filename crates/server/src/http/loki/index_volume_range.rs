//! `index/volume_range`: bytes of each step by labels.

use std::collections::HashMap;
use std::sync::Arc;

use axum::extract::State;
use axum::response::Response;
use axum::routing::on;
use sandur_model::TimeRange;
use sandur_query::{QueryResult, Sample, Series};

use super::volume::{Pairs, VolumeRequest, answer, largest};
use crate::http::app::App;
use crate::http::call::Call;
use crate::http::failure::Failure;
use crate::http::query_log::{Asked, Times};
use crate::http::route::{END, GET_POST, Group, Route, SINCE, START, STEP, parameter};

/// This endpoint.
pub static ROUTE: Route = Route {
    methods: GET_POST,
    paths: &["/loki/api/v1/index/volume_range"],
    group: Group::Index,
    does: "Bytes of each step, by labels.",
    parameters: &[
        parameter("query", "a selector, or `{}` for every stream; required"),
        START,
        END,
        SINCE,
        STEP,
        parameter("targetLabels", "labels to group by, with commas; by default those of the selector"),
        parameter("aggregateBy", "`series` (default) or `labels`"),
        parameter("limit", "most groups; 100"),
    ],
    answers: "200, a matrix, largest first.",
    fails: "400 for more than 11,000 points, and when `limit` exceeds `volume_max_series`.",
    handler: |verbs| on(verbs, range),
};

/// `index/volume_range`: bytes of each step; a point stands at the end of its step.
async fn range(State(app): State<App>, call: Call) -> Result<Response, Failure> {
    let (start, end) = call.params.ordered_bounds(app.env.now_ns())?;
    let request = VolumeRequest::read(&app, &call)?;
    let step = call.params.step(start, end)?;
    let context = app.query_context(&call.tenant);
    let times = Times { start_ns: start, end_ns: end };
    let asked = Asked::volume(call.params.query(), times, step, request.limit as u32);
    let work = async {
        let mut sums: HashMap<Pairs, Vec<Sample>> = HashMap::new();
        for (from, to) in steps(start, end, step) {
            context.check()?;
            let volumes =
                app.source.volumes(&context, request.matchers.clone(), TimeRange::new(from, to)).await?;
            // Loki dates a step by its last millisecond, the last one by the end of the range.
            let timestamp_ms =
                if to > end { end.div_euclid(1_000_000) } else { to.div_euclid(1_000_000) - 1 };
            for (labels, bytes) in request.group(&volumes) {
                sums.entry(labels).or_default().push(Sample { timestamp_ms, value: bytes as f64 });
            }
        }
        let total = |samples: &Vec<Sample>| samples.iter().map(|s| s.value as u64).sum();
        let series = largest(sums, request.limit, total).into_iter();
        let series = series.map(|(labels, samples)| Series { labels: Arc::new(labels), samples });
        Ok(QueryResult::Matrix(series.collect()))
    };
    answer((&app, &call), &context, asked, work).await
}

/// Steps aligned to multiples of the step; the first and the last are cut to the range.
fn steps(start: i64, end: i64, step: i64) -> impl Iterator<Item = (i64, i64)> {
    let mut from = start;
    std::iter::from_fn(move || {
        if from > end {
            return None;
        }
        let boundary = from.div_euclid(step).saturating_add(1).saturating_mul(step);
        let piece = (from, boundary.min(end.saturating_add(1)));
        from = boundary;
        Some(piece)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_are_aligned_and_cover_the_range_once() {
        assert_eq!(steps(5, 31, 10).collect::<Vec<_>>(), [(5, 10), (10, 20), (20, 30), (30, 32)]);
        assert_eq!(steps(10, 10, 10).collect::<Vec<_>>(), [(10, 11)]);
    }
}

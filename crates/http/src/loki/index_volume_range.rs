//! `index/volume_range`: bytes in each step, by labels.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use axum::extract::State;
use axum::response::Response;
use sandur_memory::Reservation;
use sandur_model::{MatchOp, Matcher, TimeRange};
use sandur_query::{QueryContext, QueryResult, Sample, Series, SeriesRequest, all_texts};
use sandur_service::Queries;
use sandur_service::logql::{self, QueryKind};
use sandur_service::query_log::Asked;

use super::volume::{Pairs, VolumeRequest, answer, largest};
use crate::call::Call;
use crate::failed_request::Failure;
use crate::route::{Access, END, GET_POST, Group, Handler, Route, SINCE, START, STEP, parameter};

/// The row of this endpoint in the table of routes.
pub static ROUTE: Route = Route {
    methods: GET_POST,
    paths: &["/loki/api/v1/index/volume_range"],
    scope: Access::Read,
    does: "Bytes in each step, by labels. Steps end at multiples of `step`, inclusive; every line counts in \
           exactly one step.",
    parameters: &[
        parameter("query", "a selector, or `{}` for every stream; required"),
        START,
        END,
        SINCE,
        STEP,
        parameter(
            "targetLabels",
            "labels to group by, separated by commas; by default those of the selector",
        ),
        parameter("aggregateBy", "`series` (default) or `labels`"),
        parameter("limit", "maximum number of groups; 100"),
    ],
    answers: "200, a matrix, largest first; an empty vector when there is nothing.",
    fails: "400 for more than 11,000 points, and when `limit` exceeds `volume_max_series`; 429; 504.",
    several_tenants: true,
    handler: |request, app| range.call(request, app),
    ..Route::of(Group::Index)
};

async fn range(State(queries): State<Queries>, call: Call) -> Result<Response, Failure> {
    let context = queries.logs_context(&call.caller.tenant);
    let request = VolumeRequest::read(&queries, &context, &call).await?;
    let (times, range) = call.ordered_range(&queries, &context)?;
    let step = call.params.step(times.start_ns, times.end_ns)?;
    let asked = Asked::volume(call.params.query(), times, step, request.limit as u32);
    let work = async {
        let mut volumes = ByStep::begin(&queries, &context, &request, range).await?;
        for piece in pieces(range, step) {
            volumes.add(piece).await?;
        }
        let total = |samples: &BTreeMap<i64, f64>| samples.values().sum::<f64>() as u64;
        let series = largest(volumes.sums, request.limit, total).into_iter().map(|(labels, samples)| {
            let sample = |(timestamp_ms, value)| Sample { timestamp_ms, value };
            Series { labels: Arc::new(labels), samples: samples.into_iter().map(sample).collect() }
        });
        let series: Vec<Series> = series.collect();
        // Like Loki, an empty result is a vector.
        Ok(if series.is_empty() { QueryResult::Vector(series) } else { QueryResult::Matrix(series) })
    };
    answer((&queries, &call), &context, asked, work).await
}

/// Collects volumes by step and group.
struct ByStep<'a> {
    queries: &'a Queries,
    context: &'a QueryContext,
    request: &'a VolumeRequest,
    matchers: Vec<Matcher>,
    labels: Vec<String>,
    sums: HashMap<Pairs, BTreeMap<i64, f64>>,
    memory: Reservation,
}

impl<'a> ByStep<'a> {
    async fn begin(
        queries: &'a Queries,
        context: &'a QueryContext,
        request: &'a VolumeRequest,
        range: TimeRange,
    ) -> Result<Self, Failure> {
        let mut matchers = request.matchers.clone();
        let all = match request.takes_every_label() {
            true => {
                all_texts(queries.logs(), context, SeriesRequest::new(matchers.clone(), range).names())
                    .await?
                    .0
            }
            false => Vec::new(),
        };
        let labels = request.labels(all);
        if let [only] = labels.as_slice() {
            // Streams without the label are in no group, so they are not selected.
            let has = Matcher::new(only.as_str(), MatchOp::NotEqual, "");
            matchers.push(has.map_err(|error| Failure::invalid(error.to_string()))?);
        }
        let memory = context.budget().reserve(0).map_err(sandur_query::Error::from)?;
        Ok(Self { queries, context, request, matchers, labels, sums: HashMap::new(), memory })
    }

    async fn add(&mut self, piece: Piece) -> Result<(), Failure> {
        let of = (self.matchers.clone(), self.labels.clone());
        let source = self.queries.logs();
        let found = logql::bytes_by_labels(source, self.context, of, piece.kind, piece.window_ns).await?;
        let bytes = found.iter().map(|series| PER_SERIES + series.samples.len() as u64 * PER_SAMPLE).sum();
        self.memory.grow(bytes).map_err(sandur_query::Error::from)?;
        for series in found {
            for group in self.request.groups_of(&series.labels) {
                let sums = self.sums.entry(group).or_default();
                for sample in &series.samples {
                    *sums.entry(sample.timestamp_ms - piece.earlier_ms).or_default() += sample.value;
                }
            }
        }
        Ok(())
    }
}

/// Estimated bytes of a series and a sample while they are summed and in the answer.
const PER_SERIES: u64 = 1_024;
const PER_SAMPLE: u64 = 80;

/// Instants whose volumes are queried together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Piece {
    kind: QueryKind,
    /// Length of the window that ends at each instant.
    window_ns: i64,
    /// How much earlier than the instant its points are dated.
    earlier_ms: i64,
}

/// Divides the range into steps. Steps end at multiples of the step; their start is exclusive and their
/// end inclusive. The first and the last are cut to the range. Like Loki, a step is dated by its last
/// millisecond, the last one by the end of the range.
fn pieces(range: TimeRange, step_ns: i64) -> Vec<Piece> {
    let (start, end) = (range.start, range.end.saturating_sub(1));
    if range.is_empty() {
        return Vec::new();
    }
    let instant = |time_ns, window_ns, earlier_ms| {
        let kind = QueryKind::Instant { time_ns };
        Piece { kind, window_ns, earlier_ms }
    };
    let below = |at: i64| at.saturating_sub(at.rem_euclid(step_ns));
    let (first, last) = (below(start.saturating_add(step_ns - 1)), below(end));
    if first > end {
        return vec![instant(end, end - start + 1, 0)];
    }
    let mut pieces = Vec::new();
    if start < first {
        pieces.push(instant(first, first - start + 1, 1));
    }
    if first < last {
        let kind = QueryKind::Range { start_ns: first + step_ns, end_ns: last, step_ns };
        pieces.push(Piece { kind, window_ns: step_ns, earlier_ms: 1 });
    }
    if last < end {
        pieces.push(instant(end, end - last, 0));
    }
    pieces
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each instant of the range is in exactly one step, except a start that is a multiple of the step.
    #[test]
    fn steps_are_aligned_and_cover_the_range_once() {
        for (start, end) in
            [(5, 31), (10, 31), (5, 30), (10, 30), (11, 13), (10, 10), (5, 10), (5, 12), (-7, 3)]
        {
            let mut covered = Vec::new();
            for piece in pieces(TimeRange::inclusive(start, end), 10) {
                let ends = match piece.kind {
                    QueryKind::Instant { time_ns } => vec![time_ns],
                    QueryKind::Range { start_ns, end_ns, step_ns } => {
                        assert_eq!((step_ns, start_ns % 10, end_ns % 10), (10, 0, 0));
                        (start_ns..=end_ns).step_by(10).collect()
                    }
                };
                for to in ends {
                    covered.extend(to - piece.window_ns + 1..=to);
                    assert!(to % 10 == 0 || to == end, "{to} of {start}..={end}");
                    assert_eq!(piece.earlier_ms == 0, to == end && end % 10 != 0);
                }
            }
            let first = if start % 10 == 0 { start + 1 } else { start };
            assert_eq!(covered, (first..=end).collect::<Vec<_>>(), "{start}..={end}");
        }
        assert!(pieces(TimeRange::new(i64::MAX, i64::MAX), 10).is_empty());
    }
}

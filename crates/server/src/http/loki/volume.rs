//! `index/stats`, `index/volume` and `index/volume_range`: how much there is, without reading it.

use std::collections::HashMap;
use std::sync::Arc;

use axum::extract::State;
use axum::response::Response;
use sandur_base::ErrorKind;
use sandur_model::{Matcher, TimeRange};
use sandur_query::{QueryContext, QueryResult, Sample, Series, StreamVolume};

use super::selector;
use crate::http::app::App;
use crate::http::call::Call;
use crate::http::failure::Failure;
use crate::http::marshal::{Cost, Encoding, ResultCache, json, query_answer};
use crate::http::params::LIMIT_DEFAULT;
use crate::http::reply;

/// `index/stats`.
pub async fn stats(State(app): State<App>, call: Call) -> Result<Response, Failure> {
    let (start, end) = call.params.bounds(app.env.now_ns())?;
    let matchers = selector::required(call.params.query())?;
    let context = app.query_context(&call.tenant);
    let volumes = app.source.volumes(&context, matchers, TimeRange::inclusive(start, end)).await?;
    let sum = |field: fn(&StreamVolume) -> u64| volumes.iter().map(field).sum::<u64>();
    let mut body = Vec::new();
    json::push(
        &mut body,
        format_args!(
            "{{\"streams\":{},\"chunks\":{},\"bytes\":{},\"entries\":{}}}\n",
            volumes.len(),
            sum(|v| v.pages),
            sum(|v| v.bytes),
            sum(|v| v.lines)
        ),
    );
    Ok(reply::json(body))
}

/// What a volume request asks for.
struct Request {
    matchers: Vec<Matcher>,
    /// Labels that series keep; empty: those of the matchers, all for `{}`.
    targets: Vec<String>,
    by_label: bool,
    limit: usize,
}

impl Request {
    fn read(app: &App, call: &Call) -> Result<Self, Failure> {
        if call.params.query().trim().is_empty() {
            selector::required("")?;
        }
        let matchers = selector::optional(call.params.query())?;
        let targets = call.params.get("targetLabels").unwrap_or("").split(',');
        let targets = targets.map(str::trim).filter(|t| !t.is_empty()).map(str::to_owned).collect();
        let by_label = match call.params.get("aggregateBy") {
            None | Some("series") => false,
            Some("labels") => true,
            Some(_) => {
                return Err(Failure::invalid("invalid aggregation option"));
            }
        };
        let limit = call.params.limit(LIMIT_DEFAULT)?;
        let most = app.limits(&call.tenant).volume_max_series;
        if u64::from(limit) > most {
            let text =
                format!("max series limit per query exceeded, limit > volume_max_series ({limit} > {most})");
            return Err(Failure::new(ErrorKind::Limit, text));
        }
        Ok(Self { matchers, targets, by_label, limit: limit as usize })
    }

    fn is_target(&self, name: &str) -> bool {
        if !self.targets.is_empty() {
            return self.targets.iter().any(|t| t == name);
        }
        self.matchers.is_empty() || self.matchers.iter().any(|m| m.name() == name)
    }

    /// Bytes by series or label.
    fn group(&self, volumes: &[StreamVolume]) -> HashMap<Pairs, u64> {
        let mut sums: HashMap<Pairs, u64> = HashMap::new();
        for volume in volumes {
            let kept = volume.labels.iter().filter(|(name, _)| self.is_target(name));
            if self.by_label {
                for (name, _) in kept {
                    *sums.entry(vec![(name.into(), "".into())]).or_default() += volume.bytes;
                }
                continue;
            }
            let series: Pairs = kept.map(|(n, v)| (n.into(), v.into())).collect();
            if !series.is_empty() {
                *sums.entry(series).or_default() += volume.bytes;
            }
        }
        sums
    }
}

type Pairs = Vec<(Box<str>, Box<str>)>;

/// The largest groups: by falling value, then by name.
fn largest<T>(groups: HashMap<Pairs, T>, limit: usize, value: impl Fn(&T) -> u64) -> Vec<(Pairs, T)> {
    let mut all: Vec<(Pairs, T)> = groups.into_iter().collect();
    all.sort_by(|a, b| value(&b.1).cmp(&value(&a.1)).then_with(|| a.0.cmp(&b.0)));
    all.truncate(limit);
    all
}

/// `index/volume`: bytes of the whole range.
pub async fn instant(State(app): State<App>, call: Call) -> Result<Response, Failure> {
    let (start, end) = call.params.ordered_bounds(app.env.now_ns())?;
    let request = Request::read(&app, &call)?;
    let context = app.query_context(&call.tenant);
    let range = TimeRange::inclusive(start, end);
    let volumes = app.source.volumes(&context, request.matchers.clone(), range).await?;
    let groups = largest(request.group(&volumes), request.limit, |bytes| *bytes);
    let timestamp_ms = end.div_euclid(1_000_000);
    let series = groups.into_iter().map(|(labels, bytes)| Series {
        labels: Arc::new(labels),
        samples: vec![Sample { timestamp_ms, value: bytes as f64 }],
    });
    answer(&app, &call, &context, QueryResult::Vector(series.collect())).await
}

/// `index/volume_range`: bytes of each step; a point stands at the end of its step.
pub async fn range(State(app): State<App>, call: Call) -> Result<Response, Failure> {
    let (start, end) = call.params.ordered_bounds(app.env.now_ns())?;
    let request = Request::read(&app, &call)?;
    let step = call.params.step(start, end)?;
    let context = app.query_context(&call.tenant);
    let mut sums: HashMap<Pairs, Vec<Sample>> = HashMap::new();
    for (from, to) in steps(start, end, step) {
        context.check()?;
        let volumes =
            app.source.volumes(&context, request.matchers.clone(), TimeRange::new(from, to)).await?;
        // Loki dates a step by its last millisecond, the last one by the end of the range.
        let timestamp_ms = if to > end { end.div_euclid(1_000_000) } else { to.div_euclid(1_000_000) - 1 };
        for (labels, bytes) in request.group(&volumes) {
            sums.entry(labels).or_default().push(Sample { timestamp_ms, value: bytes as f64 });
        }
    }
    let total = |samples: &Vec<Sample>| samples.iter().map(|s| s.value as u64).sum();
    let series = largest(sums, request.limit, total).into_iter();
    let series = series.map(|(labels, samples)| Series { labels: Arc::new(labels), samples }).collect();
    answer(&app, &call, &context, QueryResult::Matrix(series)).await
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

async fn answer(
    app: &App,
    call: &Call,
    context: &QueryContext,
    result: QueryResult,
) -> Result<Response, Failure> {
    let cost = Cost {
        counters: context.stats().snapshot(),
        execution: context.elapsed(),
        result_cache: ResultCache::Volume,
    };
    let body = query_answer(&result, Encoding::Merged, &cost, &context.warnings());
    Ok(reply::large_json(app, call, body, None).await)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_are_aligned_and_cover_the_range_once() {
        assert_eq!(steps(5, 31, 10).collect::<Vec<_>>(), [(5, 10), (10, 20), (20, 30), (30, 32)]);
        assert_eq!(steps(10, 10, 10).collect::<Vec<_>>(), [(10, 11)]);
    }

    #[test]
    fn groups_are_sorted_by_value_then_name() {
        let pair = |v: &str| vec![(Box::from("app"), Box::from(v))];
        let groups = HashMap::from([(pair("b"), 5), (pair("a"), 5), (pair("c"), 9), (pair("d"), 1)]);
        let order: Vec<String> =
            largest(groups, 3, |v| *v).into_iter().map(|(l, _)| l[0].1.to_string()).collect();
        assert_eq!(order, ["c", "a", "b"]);
    }
}

//! What `index/volume` and `index/volume_range` share: parameters, grouping, answer.

use std::collections::HashMap;

use axum::response::Response;
use sandur_base::ErrorKind;
use sandur_model::Matcher;
use sandur_query::{QueryContext, QueryResult, QueryStats, StreamVolume};

use super::selector;
use crate::http::app::App;
use crate::http::call::Call;
use crate::http::failure::Failure;
use crate::http::marshal::{Encoding, query_answer};
use crate::http::params::LIMIT_DEFAULT;
use crate::http::query_log::{Asked, Outcome, QueryLog};
use crate::http::reply;

/// What a volume request asks for.
pub struct VolumeRequest {
    /// Conditions on streams.
    pub matchers: Vec<Matcher>,
    /// Labels that series keep; empty: those of the matchers, all for `{}`.
    targets: Vec<String>,
    by_label: bool,
    /// Most groups.
    pub limit: usize,
}

impl VolumeRequest {
    /// Reads the parameters.
    pub fn read(app: &App, call: &Call) -> Result<Self, Failure> {
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
    pub fn group(&self, volumes: &[StreamVolume]) -> HashMap<Pairs, u64> {
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

/// Names and values of a group.
pub type Pairs = Vec<(Box<str>, Box<str>)>;

/// The largest groups: by falling value, then by name.
pub fn largest<T>(groups: HashMap<Pairs, T>, limit: usize, value: impl Fn(&T) -> u64) -> Vec<(Pairs, T)> {
    let mut all: Vec<(Pairs, T)> = groups.into_iter().collect();
    all.sort_by(|a, b| value(&b.1).cmp(&value(&a.1)).then_with(|| a.0.cmp(&b.0)));
    all.truncate(limit);
    all
}

/// Does the work, logs it, and answers with its statistics.
pub async fn answer(
    (app, call): (&App, &Call),
    context: &QueryContext,
    asked: Asked,
    work: impl Future<Output = Result<QueryResult, Failure>>,
) -> Result<Response, Failure> {
    let log = QueryLog::begin(app, call, context, asked);
    let result = work.await;
    if let Ok(QueryResult::Matrix(series) | QueryResult::Vector(series)) = &result {
        QueryStats::add(&context.stats().entries_returned, series.len() as u64);
    }
    let cost = log.cost();
    let status = result.as_ref().map_or_else(|failure| failure.status.as_u16(), |_| 200);
    log.end(&cost, Outcome::of_status(status));
    let body = query_answer(&result?, Encoding::Merged, &cost, &context.warnings());
    Ok(reply::large_json(app, call, body, None).await)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_are_sorted_by_value_then_name() {
        let pair = |v: &str| vec![(Box::from("app"), Box::from(v))];
        let groups = HashMap::from([(pair("b"), 5), (pair("a"), 5), (pair("c"), 9), (pair("d"), 1)]);
        let order: Vec<String> =
            largest(groups, 3, |v| *v).into_iter().map(|(l, _)| l[0].1.to_string()).collect();
        assert_eq!(order, ["c", "a", "b"]);
    }
}

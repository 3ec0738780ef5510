//! What `index/volume` and `index/volume_range` share: parameters, grouping, answer.

use std::collections::HashMap;

use axum::response::Response;
use sandur_base::ErrorKind;
use sandur_model::{MatchOp, Matcher};
use sandur_query::{QueryContext, QueryResult, QueryStats, StreamVolume};
use sandur_service::Queries;
use sandur_service::logql::selector;
use sandur_service::query_log::Asked;

use crate::call::Call;
use crate::failed_request::Failure;
use crate::logged::logged;
use crate::marshal::{Encoding, estimate, query_answer};
use crate::params::LIMIT_DEFAULT;
use crate::reply;

/// Maximum number of labels to group by: each is a matcher on streams.
const TARGETS_MAX: usize = 1_000;

/// The parameters of a volume request.
pub struct VolumeRequest {
    /// Matchers on streams.
    pub matchers: Vec<Matcher>,
    /// Labels to group by; empty: those of the matchers, or all labels for `{}` and when aggregating by
    /// label.
    targets: Vec<String>,
    by_label: bool,
    /// Maximum number of groups.
    pub limit: usize,
}

impl VolumeRequest {
    /// Reads the parameters.
    pub async fn read(queries: &Queries, context: &QueryContext, call: &Call) -> Result<Self, Failure> {
        let targets = call.params.get("targetLabels").unwrap_or("").split(',');
        let targets: Vec<String> = targets
            .map(str::trim)
            .filter(|t| !t.is_empty())
            .map(str::to_owned)
            .take(TARGETS_MAX + 1)
            .collect();
        if targets.len() > TARGETS_MAX {
            return Err(Failure::invalid(format!("targetLabels has more than {TARGETS_MAX} labels")));
        }
        let by_label = match call.params.get("aggregateBy") {
            None | Some("series") => false,
            Some("labels") => true,
            Some(_) => {
                return Err(Failure::invalid("invalid aggregation option"));
            }
        };
        let limits = queries.limits(&call.caller.tenant);
        sandur_logql::check_selector_sizes([call.params.query()], targets.len() as u64, &limits)?;
        let mut matchers = match selector::is_every_stream(call.params.query()) {
            true => Vec::new(),
            false => selector::required_selecting(context, &limits, call.params.query()).await?,
        };
        for target in &targets {
            // As in Loki, streams without one of the labels do not count.
            if !matchers.iter().any(|matcher| matcher.name() == target) {
                let exists = Matcher::new(target.as_str(), MatchOp::NotEqual, "");
                matchers.push(exists.map_err(|e| Failure::invalid(e.to_string()))?);
            }
        }
        // As in Loki, 0 means the default.
        let limit = match call.params.get("limit") {
            Some("0") => LIMIT_DEFAULT,
            _ => call.params.limit(LIMIT_DEFAULT)?,
        };
        let most = queries.limits(&call.caller.tenant).volume_max_series;
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
        self.takes_every_label() || self.matchers.iter().any(|m| m.name() == name)
    }

    /// The labels to group by; `all` are the labels of the streams.
    pub fn labels(&self, all: Vec<String>) -> Vec<String> {
        let mut labels = if !self.targets.is_empty() {
            self.targets.clone()
        } else if self.takes_every_label() {
            all
        } else {
            self.matchers.iter().map(|matcher| matcher.name().to_owned()).collect()
        };
        labels.sort();
        labels.dedup();
        labels
    }

    /// Whether the groups depend on the names of all labels.
    pub fn takes_every_label(&self) -> bool {
        self.targets.is_empty() && (self.by_label || self.matchers.is_empty())
    }

    /// The groups to which a series with these labels belongs.
    pub fn groups_of(&self, labels: &[(Box<str>, Box<str>)]) -> Vec<Pairs> {
        let held = labels.iter().filter(|(_, value)| !value.is_empty());
        match self.by_label {
            true => held.map(|(name, _)| vec![(name.clone(), "".into())]).collect(),
            false => {
                Some(held.cloned().collect()).filter(|pairs: &Pairs| !pairs.is_empty()).into_iter().collect()
            }
        }
    }

    /// Bytes by group.
    pub fn group(&self, volumes: &[StreamVolume]) -> HashMap<Pairs, u64> {
        let mut sums: HashMap<Pairs, u64> = HashMap::new();
        for volume in volumes {
            let kept = volume.labels.iter().filter(|(name, _)| self.is_target(name));
            let pairs: Pairs = kept.map(|(n, v)| (n.into(), v.into())).collect();
            for group in self.groups_of(&pairs) {
                *sums.entry(group).or_default() += volume.bytes;
            }
        }
        sums
    }
}

/// Names and values of the labels of a group.
pub type Pairs = Vec<(Box<str>, Box<str>)>;

/// The largest groups, by descending value, then by name.
pub fn largest<T>(groups: HashMap<Pairs, T>, limit: usize, value: impl Fn(&T) -> u64) -> Vec<(Pairs, T)> {
    let mut all: Vec<(Pairs, T)> = groups.into_iter().collect();
    all.sort_by(|a, b| value(&b.1).cmp(&value(&a.1)).then_with(|| a.0.cmp(&b.0)));
    all.truncate(limit);
    all
}

/// Runs the work, logs the query, and answers with its statistics.
pub async fn answer(
    (queries, call): (&Queries, &Call),
    context: &QueryContext,
    asked: Asked,
    work: impl Future<Output = Result<QueryResult, Failure>>,
) -> Result<Response, Failure> {
    let counted = async {
        let result = work.await?;
        if let QueryResult::Matrix(series) | QueryResult::Vector(series) = &result {
            QueryStats::add(&context.stats().entries_returned, series.len() as u64);
        }
        Ok(result)
    };
    let (result, cost) = logged((queries, &call.caller), context, asked, counted).await?;
    let memory = context.budget().reserve(estimate(&result)).map_err(sandur_query::Error::from)?;
    let body = query_answer(&result, Encoding::Merged, &cost, &context.warnings());
    Ok(reply::large_json(queries.env(), call, body, Some(memory)).await)
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

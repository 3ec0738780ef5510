//! A request, as the log line describes it.

use sandur_logql::{Kind as QueryKind, Request as QueryText};
use sandur_promql::Times as MetricTimes;

use crate::cost::ResultCache;

/// Maximum bytes of a query's text that are logged.
const TEXT_BYTES_MAX: usize = 4_096;

/// The time range of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Times {
    /// Start, nanoseconds since the epoch.
    pub start_ns: i64,
    /// End, nanoseconds since the epoch.
    pub end_ns: i64,
}

/// The kind of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum What {
    /// `query` and `query_range`.
    Query,
    /// `labels` and `label/NAME/values`.
    Labels,
    /// `series`.
    Series,
    /// `index/stats`.
    Stats,
    /// `index/volume` and `index/volume_range`.
    Volume,
    /// Another request that is answered from the index or from a sample of entries.
    Other,
}

/// A request as it is logged.
pub struct Asked {
    pub(super) what: What,
    /// The type, as in Loki: `metric`, `filter`, `limited`, `labels`, `series`, `stats`, `volume`, or the
    /// name of the endpoint.
    pub(super) query_type: &'static str,
    pub(super) range_type: &'static str,
    /// The query, or the selectors of `series`.
    pub(super) text: String,
    /// Hash of the complete text, equal to Loki's.
    pub(super) hash: u32,
    pub(super) label: String,
    pub(super) times: Times,
    pub(super) step_ns: i64,
    pub(super) limit: u32,
    /// `logs` or `metrics`.
    pub(super) signal: &'static str,
}

impl Asked {
    fn new(what: What, query_type: &'static str, text: &str, times: Times) -> Self {
        Self {
            what,
            query_type,
            range_type: "range",
            text: text[..text.floor_char_boundary(TEXT_BYTES_MAX)].to_owned(),
            hash: sandur_logql::query_hash(text),
            label: String::new(),
            times,
            step_ns: 0,
            limit: 0,
            signal: "logs",
        }
    }

    /// A LogQL query of this type at an instant or over a range. `tags` are the tags of its client.
    pub fn query(request: &QueryText, query_type: &'static str, tags: &[(String, String)]) -> Self {
        let (range_type, times, step_ns) = match request.kind {
            QueryKind::Instant { time_ns } => ("instant", Times { start_ns: time_ns, end_ns: time_ns }, 0),
            QueryKind::Range { start_ns, end_ns, step_ns } => ("range", Times { start_ns, end_ns }, step_ns),
        };
        let is_sample =
            |(name, value): &(String, String)| [name, value].iter().any(|t| t.contains("datasample"));
        let query_type = match query_type {
            // Grafana's query builder samples lines with queries that look like filters.
            "filter" if tags.iter().any(is_sample) => "limited",
            other => other,
        };
        let asked = Self::new(What::Query, query_type, &request.query, times);
        Self { range_type, step_ns, limit: request.limit, ..asked }
    }

    /// A PromQL query at an instant or over a range.
    pub fn promql(query: &str, times: MetricTimes, limit: Option<usize>) -> Self {
        let ns = |ms: i64| ms.saturating_mul(sandur_model::MILLISECOND_NS);
        let range = Times { start_ns: ns(times.start), end_ns: ns(times.end) };
        let range_type = if times.step == 0 { "instant" } else { "range" };
        let limit = limit.map_or(0, |limit| u32::try_from(limit).unwrap_or(u32::MAX));
        let asked = Self::new(What::Query, "metric", query, range);
        Self { range_type, step_ns: ns(times.step), limit, ..asked }.of_metrics()
    }

    /// A request of Graphite's API: `render` reads values, other kinds read names.
    pub fn graphite(kind: &'static str, text: &str, times: Times) -> Self {
        let what = if kind == "render" { What::Query } else { What::Other };
        Self::new(what, kind, text, times).of_metrics()
    }

    /// Marks a request as one for samples.
    pub fn of_metrics(self) -> Self {
        Self { signal: "metrics", ..self }
    }

    /// A request for names of labels, or for the values of a label.
    pub fn labels(label: &str, query: &str, times: Times) -> Self {
        Self { label: label.to_owned(), ..Self::new(What::Labels, "labels", query, times) }
    }

    /// A request for the streams that match any selector.
    pub fn series<'a>(selectors: impl Iterator<Item = &'a str>, times: Times) -> Self {
        let text = selectors.collect::<Vec<_>>().join(":");
        Self::new(What::Series, "series", &text, times)
    }

    /// A request for the size of the selected streams.
    pub fn stats(query: &str, times: Times) -> Self {
        Self::new(What::Stats, "stats", query, times)
    }

    /// A request for the size of each group. A step of 0 means the complete range.
    pub fn volume(query: &str, times: Times, step_ns: i64, limit: u32) -> Self {
        let range_type = if step_ns == 0 { "instant" } else { "range" };
        Self { range_type, step_ns, limit, ..Self::new(What::Volume, "volume", query, times) }
    }

    /// A request to another endpoint.
    pub fn other(endpoint: &'static str, query: &str, times: Times) -> Self {
        Self::new(What::Other, endpoint, query, times)
    }

    /// Whether the request reads lines or samples.
    pub(super) fn is_query(&self) -> bool {
        self.what == What::Query
    }

    pub(super) fn result_cache(&self) -> ResultCache {
        match self.what {
            What::Query if self.query_type == "metric" && self.range_type == "instant" => {
                ResultCache::InstantMetric
            }
            What::Query | What::Other => ResultCache::Range,
            What::Labels => ResultCache::Labels,
            What::Series => ResultCache::Series,
            What::Stats => ResultCache::Stats,
            What::Volume => ResultCache::Volume,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::logql::ParsedQuery;

    #[test]
    fn queries_have_lokis_types() {
        let kind = |query: &str| {
            let kind = QueryKind::Range { start_ns: 0, end_ns: 1, step_ns: 1 };
            let direction = sandur_query::Direction::Backward;
            let request = QueryText { query: query.to_owned(), kind, limit: 1, direction, interval_ns: 0 };
            Asked::query(&request, ParsedQuery::of_text(query).query_type(), &[]).query_type
        };
        assert_eq!(kind(r#"{a="b"}"#), "limited");
        assert_eq!(kind(r#"{a="b"} |= "" | json"#), "limited");
        assert_eq!(kind(r#"{a="b"} |= "x""#), "filter");
        assert_eq!(kind(r#"{a="b"} | logfmt | level="x""#), "filter");
        assert_eq!(kind(r#"rate({a="b"} |= "x" [1m])"#), "metric");
        assert_eq!(kind("{a="), "");
    }
}

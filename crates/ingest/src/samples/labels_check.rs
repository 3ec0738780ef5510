//! Checks that labels of series are valid and within the limits. The messages are Mimir's, with the names
//! of our options.

use std::fmt;
use std::sync::Arc;

use sandur_model::{GRAPHITE_NODES_MAX, Labels, MetricLimits};

use super::name_cache::KnownName;
use super::series_cache::KnownSeries;
use crate::refused::Reason;

/// Why a series is refused: the reason, and the message for the client.
pub(crate) type Refusal = (Reason, String);

/// Most bytes of a name, value or series in a message.
const SHOWN_MAX: usize = 200;

/// The label that holds the metric name.
pub(crate) const METRIC_NAME: &str = "__name__";

/// Converts pairs as sent to labels. Names and values must be UTF-8, names neither empty nor repeated,
/// and one must be the metric name.
pub(crate) fn labels_of(pairs: &mut Vec<(&[u8], &[u8])>) -> Result<Labels, Refusal> {
    let mut valid: Vec<(&str, &str)> = Vec::with_capacity(pairs.len());
    for &(name, value) in pairs.iter() {
        match (std::str::from_utf8(name), std::str::from_utf8(value)) {
            (Ok(""), _) | (Err(_), _) => return Err(invalid_label(name, pairs)),
            (Ok(METRIC_NAME), Err(_)) => {
                let text = format!(
                    "received a series with invalid metric name: '{}' (err-mimir-metric-name-invalid)",
                    Shown(value)
                );
                return Err((Reason::MetricNameInvalid, text));
            }
            (Ok(name), Err(_)) => {
                let text = format!(
                    "received a series with invalid value in label '{}': it is not UTF-8, series: '{}' \
                     (err-mimir-label-value-invalid)",
                    Shown(name.as_bytes()),
                    ShownPairs(pairs)
                );
                return Err((Reason::LabelValueInvalid, text));
            }
            (Ok(name), Ok(value)) => valid.push((name, value)),
        }
    }
    valid.sort_unstable_by_key(|(name, _)| *name);
    if let Some(twice) = valid.windows(2).find(|two| two[0].0 == two[1].0) {
        let text = format!(
            "received a series with duplicate label name, label: '{}' series: '{}' \
             (err-mimir-duplicate-label-names)",
            Shown(twice[0].0.as_bytes()),
            ShownPairs(pairs)
        );
        return Err((Reason::DuplicateLabelNames, text));
    }
    let labels = Labels::from_pairs(valid);
    match labels.get(METRIC_NAME) {
        Some(_) => Ok(labels),
        None => {
            let text = format!(
                "received series has no metric name, series: '{}' (err-mimir-missing-metric-name)",
                ShownPairs(pairs)
            );
            Err((Reason::MissingMetricName, text))
        }
    }
}

fn invalid_label(name: &[u8], pairs: &[(&[u8], &[u8])]) -> Refusal {
    let text = format!(
        "received a series with an invalid label: '{}' series: '{}' (err-mimir-label-invalid)",
        Shown(name),
        ShownPairs(pairs)
    );
    (Reason::InvalidLabels, text)
}

/// Checks the labels of a series against the tenant's limits.
#[inline]
pub(crate) fn check_limits(series: &KnownSeries, limits: &MetricLimits) -> Result<(), Refusal> {
    match is_within(&KnownName::from(series), limits) {
        true => Ok(()),
        false => Err(beyond_limits(series, limits)),
    }
}

/// Whether the labels of a series are within the tenant's limits.
#[inline]
pub(crate) fn is_within(series: &KnownName, limits: &MetricLimits) -> bool {
    let within = |value: u32, limit: u64| limit == 0 || u64::from(value) <= limit;
    within(series.label_count - series.path_nodes, limits.max_label_names_per_series)
        && within(series.path_nodes, limits.max_graphite_path_nodes)
        && within(series.longest_name, limits.max_label_name_length)
        && within(series.longest_value, limits.max_label_value_length)
}

#[cold]
fn beyond_limits(series: &KnownSeries, limits: &MetricLimits) -> Refusal {
    let labels = Arc::clone(&series.labels);
    let shown = ShownSeries(&labels);
    let names_max = limits.max_label_names_per_series;
    let label_count = series.label_count - series.path_nodes;
    if names_max > 0 && u64::from(label_count) > names_max {
        let text = format!(
            "received a series whose number of labels exceeds the limit (actual: {}, limit: {names_max}) \
             series: '{shown}' (err-mimir-max-label-names-per-series). To adjust the related per-tenant \
             limit, configure limits.metrics.max_label_names_per_series",
            label_count,
        );
        return (Reason::TooManyLabels, text);
    }
    let nodes_max = limits.max_graphite_path_nodes;
    if nodes_max > 0 && u64::from(series.path_nodes) > nodes_max {
        let path = labels.get(METRIC_NAME).unwrap_or_default();
        let text = format!(
            "received a path of {} nodes, more than the limit of {nodes_max}: '{}'. Send shorter paths, or \
             raise limits.metrics.max_graphite_path_nodes, which may be {GRAPHITE_NODES_MAX} at most",
            series.path_nodes,
            Shown(path.as_bytes())
        );
        return (Reason::TooManyNodes, text);
    }
    let name_max = limits.max_label_name_length;
    let long_name = labels.iter().find(|(name, _)| name_max > 0 && name.len() as u64 > name_max);
    if let Some((name, _)) = long_name {
        let text = format!(
            "received a series whose label name length exceeds the limit, label: '{}' series: '{shown}' \
             (err-mimir-label-name-too-long). To adjust the related per-tenant limit, configure \
             limits.metrics.max_label_name_length (now {name_max})",
            Shown(name.as_bytes())
        );
        return (Reason::LabelNameTooLong, text);
    }
    let value_max = limits.max_label_value_length;
    let long_value = labels.iter().find(|(_, value)| value.len() as u64 > value_max);
    let (name, value) = long_value.unwrap_or_default();
    let text = format!(
        "received a series whose label value length of {} exceeds the limit of {value_max}, label: '{}', \
         value: '{}' (truncated) series: '{shown}' (err-mimir-label-value-too-long). To adjust the related \
         per-tenant limit, configure limits.metrics.max_label_value_length",
        value.len(),
        Shown(name.as_bytes()),
        Shown(value.as_bytes())
    );
    (Reason::LabelValueTooLong, text)
}

/// The beginning of bytes, as text.
pub(crate) struct Shown<'a>(pub(crate) &'a [u8]);

impl fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&String::from_utf8_lossy(&self.0[..self.0.len().min(SHOWN_MAX)]))
    }
}

struct ShownPairs<'a>(&'a [(&'a [u8], &'a [u8])]);

impl fmt::Display for ShownPairs<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let metric = self.0.iter().find(|(name, _)| *name == METRIC_NAME.as_bytes());
        let others = self.0.iter().filter(|(name, _)| *name != METRIC_NAME.as_bytes());
        write_series(f, metric.map(|(_, value)| *value), others.copied())
    }
}

/// A series in PromQL's syntax, truncated if it is long.
pub(crate) struct ShownSeries<'a>(pub(crate) &'a Labels);

impl fmt::Display for ShownSeries<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let others = self.0.iter().filter(|(name, _)| *name != METRIC_NAME);
        let others = others.map(|(name, value)| (name.as_bytes(), value.as_bytes()));
        write_series(f, self.0.get(METRIC_NAME).map(str::as_bytes), others)
    }
}

fn write_series<'a>(
    f: &mut fmt::Formatter<'_>,
    metric: Option<&[u8]>,
    others: impl Iterator<Item = (&'a [u8], &'a [u8])>,
) -> fmt::Result {
    if let Some(metric) = metric {
        write!(f, "{}", Shown(metric))?;
    }
    let mut left = SHOWN_MAX;
    for (n, (name, value)) in others.enumerate() {
        f.write_str(if n == 0 { "{" } else { ", " })?;
        if left < name.len() + value.len() {
            return f.write_str("...}");
        }
        left -= name.len() + value.len();
        write!(f, "{}={:?}", Shown(name), String::from_utf8_lossy(value))?;
        if n > 0 && left == 0 {
            break;
        }
    }
    if left < SHOWN_MAX { f.write_str("}") } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use sandur_model::{graphite_path_labels, graphite_tagged_labels};

    use super::*;

    /// Regression: paths of more than 29 nodes were refused for their number of labels.
    #[test]
    fn path_nodes_have_a_separate_limit() {
        let path =
            |nodes: usize| KnownSeries::new(graphite_path_labels(&vec!["n"; nodes].join(".")).unwrap());
        let limits = MetricLimits::default();
        for nodes in [1, 29, 30, 64] {
            assert_eq!(check_limits(&path(nodes), &limits), Ok(()), "{nodes}");
        }
        let few = MetricLimits { max_graphite_path_nodes: 3, ..limits.clone() };
        assert_eq!(check_limits(&path(3), &few), Ok(()));
        let (reason, text) = check_limits(&path(4), &few).unwrap_err();
        assert_eq!(reason, Reason::TooManyNodes);
        assert!(text.contains("4 nodes, more than the limit of 3: 'n.n.n.n'"), "{text}");
        assert!(text.contains("limits.metrics.max_graphite_path_nodes"), "{text}");
        // Tags count as ordinary labels.
        let tags: Vec<(String, &str)> = (0..40).map(|n| (format!("t{n}"), "x")).collect();
        let tagged = graphite_tagged_labels("a", tags.iter().map(|(tag, value)| (tag.as_str(), *value)));
        let (reason, _) = check_limits(&KnownSeries::new(tagged.unwrap()), &limits).unwrap_err();
        assert_eq!(reason, Reason::TooManyLabels);
    }
}

//! A target: its labels before and after relabelling, and its URL.

use std::time::Duration;

use sandur_base::units::{format_duration, parse_duration};
use url::Url;

use crate::config::JobConfig;
use sandur_targets::{LabelSet, TargetGroup, relabel};

/// The shortest scrape interval.
const INTERVAL_MIN: Duration = Duration::from_millis(100);

const ADDRESS: &str = "__address__";
const SCHEME: &str = "__scheme__";
const PATH: &str = "__metrics_path__";
const PARAM: &str = "__param_";
const INTERVAL: &str = "__scrape_interval__";
const TIMEOUT: &str = "__scrape_timeout__";

/// A target to scrape.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Target {
    pub(crate) url: String,
    /// The labels of its series.
    pub(crate) labels: LabelSet,
    /// The labels before relabelling.
    pub(crate) discovered: LabelSet,
    pub(crate) interval: Duration,
    pub(crate) timeout: Duration,
}

/// The result of relabelling an address.
pub(crate) enum Found {
    Target(Box<Target>),
    /// A rule drops it; with its labels before relabelling.
    Dropped(LabelSet),
}

/// Returns the targets of a group. An error names an address that cannot be a target.
pub(crate) fn targets(job: &JobConfig, group: &TargetGroup) -> Vec<Result<Found, String>> {
    group.targets.iter().map(|address| target(job, group, address)).collect()
}

fn target(job: &JobConfig, group: &TargetGroup, address: &str) -> Result<Found, String> {
    let mut labels: LabelSet = group.labels.clone();
    labels.insert(ADDRESS.to_owned(), address.to_owned());
    let defaults = [
        ("job".to_owned(), job.name.clone()),
        (SCHEME.to_owned(), job.scheme.clone()),
        (PATH.to_owned(), job.path.clone()),
        (INTERVAL.to_owned(), format_duration(job.interval)),
        (TIMEOUT.to_owned(), format_duration(job.timeout)),
    ];
    let params = job.params.iter().map(|(name, value)| (format!("{PARAM}{name}"), value.clone()));
    for (name, value) in defaults.into_iter().chain(params) {
        labels.entry(name).or_insert(value);
    }
    let discovered = labels.clone();
    if !relabel(&job.relabel, &mut labels) {
        return Ok(Found::Dropped(discovered));
    }
    let get = |name: &str| labels.get(name).map_or("", String::as_str);
    let url = url(job, &labels)?;
    let duration = |name: &str| {
        let text = get(name);
        let duration = parse_duration(text).ok().filter(|duration| *duration > Duration::ZERO);
        duration.ok_or_else(|| format!("{name} of {url} is '{text}', which is not a duration"))
    };
    let (interval, timeout) = (duration(INTERVAL)?, duration(TIMEOUT)?);
    if interval < INTERVAL_MIN {
        return Err(format!("the interval of {url} is less than {}", format_duration(INTERVAL_MIN)));
    }
    if timeout > interval {
        return Err(format!("the timeout of {url} is longer than its interval"));
    }
    let instance = get(ADDRESS).to_owned();
    labels.retain(|name, value| !name.starts_with("__") && !value.is_empty());
    labels.entry("instance".to_owned()).or_insert(instance);
    Ok(Found::Target(Box::new(Target { url, labels, discovered, interval, timeout })))
}

fn url(job: &JobConfig, labels: &LabelSet) -> Result<String, String> {
    let get = |name: &str| labels.get(name).map_or("", String::as_str);
    let (scheme, address, path) = (get(SCHEME), get(ADDRESS), get(PATH));
    if address.is_empty() || address.contains('/') {
        return Err(format!("'{address}' is not an address: write HOST:PORT"));
    }
    let text = format!("{scheme}://{address}{}{path}", if path.starts_with('/') { "" } else { "/" });
    let mut url = Url::parse(&text).map_err(|error| format!("{text} is not a URL: {error}"))?;
    // Rules may change the first value of a parameter.
    let mut firsts: Vec<&str> = Vec::new();
    let mut pairs: Vec<(&str, &str)> = Vec::new();
    for (name, value) in &job.params {
        let first = !firsts.contains(&name.as_str());
        firsts.push(name);
        let relabelled = labels.get(&format!("{PARAM}{name}")).map_or("", String::as_str);
        pairs.push((name, if first { relabelled } else { value }));
    }
    let added = labels.iter().filter_map(|(name, value)| Some((name.strip_prefix(PARAM)?, value.as_str())));
    pairs.extend(added.filter(|(name, _)| !firsts.contains(name)));
    if !pairs.is_empty() {
        url.query_pairs_mut().extend_pairs(pairs);
    }
    Ok(url.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::ScrapeFile;

    #[test]
    fn labels_determine_the_url_of_a_target() {
        let text = r#"
scrape_configs:
- job_name: probe
  metrics_path: /probe
  params: {module: [http]}
  static_configs: [{targets: ["https://example.org", skipped], labels: {env: prod}}]
  relabel_configs:
  - {source_labels: [__address__], regex: skipped, action: drop}
  - {source_labels: [__address__], target_label: __param_target}
  - {source_labels: [__param_target], target_label: instance}
  - {target_label: __address__, replacement: "prober:9115"}
"#;
        let file = ScrapeFile::parse(text).unwrap();
        let mut found = targets(&file.jobs[0], &file.jobs[0].groups[0]);
        assert!(matches!(found.pop(), Some(Ok(Found::Dropped(_)))));
        let Some(Ok(Found::Target(target))) = found.pop() else { panic!() };
        assert_eq!(target.url, "http://prober:9115/probe?module=http&target=https%3A%2F%2Fexample.org");
        let labels: Vec<String> = target.labels.iter().map(|(n, v)| format!("{n}={v}")).collect();
        assert_eq!(labels, ["env=prod", "instance=https://example.org", "job=probe"]);
    }
}

//! Reads one entry of `scrape_configs`.

use std::time::Duration;

use sandur_yaml::{ConfigError, Data, Keys, Node};

use super::auth;
use super::dns;
use super::job_config::JobConfig;
use super::kubernetes;

/// Defaults of jobs, from the `global` section.
#[derive(Clone, Copy, Debug)]
pub(super) struct Defaults {
    pub(super) interval: Duration,
    pub(super) timeout: Option<Duration>,
}

pub(super) const DEFAULT_TIMEOUT: Duration = Duration::from_secs(10);

/// Keys of Prometheus that are not honoured.
const FOREIGN: &[&str] = &[
    "keep_dropped_targets",
    "scrape_protocols",
    "fallback_scrape_protocol",
    "scrape_native_histograms",
    "always_scrape_classic_histograms",
    "scrape_classic_histograms",
    "convert_classic_histograms_to_nhcb",
    "native_histogram_bucket_limit",
    "native_histogram_min_bucket_factor",
    "metric_name_validation_scheme",
    "metric_name_escaping_scheme",
    "enable_compression",
    "scrape_failure_log_file",
    "oauth2",
    "proxy_url",
    "no_proxy",
    "proxy_from_environment",
    "proxy_connect_header",
    "follow_redirects",
    "enable_http2",
    "http_headers",
    "extra_scrape_metrics",
];

pub(super) fn read(
    node: &Node,
    defaults: Defaults,
    warnings: &mut Vec<String>,
) -> Result<JobConfig, ConfigError> {
    let mut keys = Keys::of(node)?;
    let line = keys.line;
    let name = keys.text("job_name")?.filter(|name| !name.is_empty());
    let name = name.ok_or_else(|| ConfigError::at(line, "job_name is missing".to_owned()))?;
    let interval = keys.duration("scrape_interval")?.unwrap_or(defaults.interval);
    let timeout = match keys.duration("scrape_timeout")? {
        Some(timeout) if timeout > interval => {
            let text = format!(
                "scrape timeout greater than scrape interval for scrape config with job name {name:?}"
            );
            return Err(ConfigError::at(line, text));
        }
        Some(timeout) => timeout,
        None => defaults.timeout.unwrap_or(DEFAULT_TIMEOUT).min(interval),
    };
    let mut job = JobConfig::new(name, interval, timeout);
    if let Some(path) = keys.text("metrics_path")? {
        job.path = path;
    }
    if let Some(node) = keys.take("scheme") {
        match &node.data {
            Data::Scalar(scheme) if matches!(scheme.as_str(), "http" | "https") => {
                job.scheme.clone_from(scheme)
            }
            _ => return Err(ConfigError::at(node.line, "scheme: expected http or https".to_owned())),
        }
    }
    job.params = params(&mut keys)?;
    job.honor_labels = keys.switch("honor_labels", false)?;
    job.honor_timestamps = keys.switch("honor_timestamps", true)?;
    job.track_timestamps_staleness = keys.switch("track_timestamps_staleness", false)?;
    job.auth = auth::auth(&mut keys, warnings)?;
    job.tls = auth::tls(&mut keys, warnings)?;
    job.body_size_limit = keys.size("body_size_limit")?;
    job.sample_limit = keys.count("sample_limit")?;
    job.label_limit = keys.count("label_limit")?;
    job.label_name_length_limit = keys.count("label_name_length_limit")?;
    job.label_value_length_limit = keys.count("label_value_length_limit")?;
    job.target_limit = keys.count("target_limit")?;
    if let Some(list) = keys.take("static_configs") {
        job.groups = sandur_targets::groups(list)?;
    }
    job.files = sandur_targets::files(&mut keys, warnings)?;
    job.dns = dns::read(&mut keys, warnings)?;
    job.kubernetes = kubernetes::read(&mut keys, warnings)?;
    job.relabel = sandur_targets::rules(&mut keys, "relabel_configs")?;
    job.metric_relabel = sandur_targets::rules(&mut keys, "metric_relabel_configs")?;
    keys.finish(FOREIGN, warnings)?;
    Ok(job)
}

/// Reads the URL parameters: a list of values for each name.
fn params(keys: &mut Keys<'_>) -> Result<Vec<(String, String)>, ConfigError> {
    let Some(node) = keys.take("params") else { return Ok(Vec::new()) };
    let Data::Map(pairs) = &node.data else {
        return Err(ConfigError::at(node.line, "params: expected names with lists of values".to_owned()));
    };
    let mut params = Vec::new();
    for (name, line, values) in pairs {
        let Data::List(values) = &values.data else {
            return Err(ConfigError::at(*line, format!("params: '{name}' needs a list of values")));
        };
        for value in values {
            match &value.data {
                Data::Scalar(text) => params.push((name.clone(), text.clone())),
                _ => return Err(ConfigError::at(value.line, "params: expected a text".to_owned())),
            }
        }
    }
    Ok(params)
}

//! Reads the `scrape_configs` of a Prometheus configuration file.
//!
//! An unknown key is an error that names its line. A key of Prometheus that is not honoured here is a
//! warning that names its line, so that an existing file can be used unchanged.

mod auth;
mod job;
mod keys;

use std::collections::BTreeMap;
use std::time::Duration;

pub use auth::{Auth, Tls};
use keys::Keys;

use crate::relabel::Relabel;
use crate::yaml::{Data, Node};

/// An error in a configuration file.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {what}")]
pub struct ConfigError {
    /// The line, from 1.
    pub line: usize,
    /// The reason.
    pub what: String,
}

impl ConfigError {
    pub(crate) fn at(line: usize, what: String) -> Self {
        Self { line, what }
    }
}

/// The parsed contents of a file.
#[derive(Clone, Debug, Default)]
pub struct ScrapeFile {
    /// Its jobs.
    pub jobs: Vec<JobConfig>,
    /// Warnings about keys that are not honoured, with their lines.
    pub warnings: Vec<String>,
}

/// A job: targets that are scraped with the same options.
#[derive(Clone, Debug)]
pub struct JobConfig {
    /// `job_name`.
    pub name: String,
    /// `scrape_interval`.
    pub interval: Duration,
    /// `scrape_timeout`.
    pub timeout: Duration,
    /// `metrics_path`.
    pub path: String,
    /// `scheme`.
    pub scheme: String,
    /// `params`.
    pub params: Vec<(String, String)>,
    /// `honor_labels`: whether labels of the scraped text take precedence over those of the target.
    pub honor_labels: bool,
    /// `honor_timestamps`: whether timestamps of the scraped text are used.
    pub honor_timestamps: bool,
    /// Whether series with explicit timestamps get stale markers too.
    pub track_timestamps_staleness: bool,
    /// The credentials.
    pub auth: Auth,
    /// How the certificates of targets are verified.
    pub tls: Tls,
    /// The largest body in bytes; 0: the general limit.
    pub body_size_limit: u64,
    /// The largest number of samples of a scrape; 0: no limit.
    pub sample_limit: u64,
    /// The largest number of labels of a series; 0: no limit.
    pub label_limit: u64,
    /// The largest length of a label's name in bytes; 0: no limit.
    pub label_name_length_limit: u64,
    /// The largest length of a label's value in bytes; 0: no limit.
    pub label_value_length_limit: u64,
    /// The largest number of targets of the job; 0: no limit.
    pub target_limit: u64,
    /// `static_configs`.
    pub groups: Vec<TargetGroup>,
    /// `file_sd_configs`.
    pub files: Vec<FileDiscovery>,
    /// `relabel_configs`.
    pub relabel: Vec<Relabel>,
    /// `metric_relabel_configs`.
    pub metric_relabel: Vec<Relabel>,
}

/// Targets with common labels.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TargetGroup {
    /// The addresses of the targets.
    pub targets: Vec<String>,
    /// The labels of the targets.
    pub labels: BTreeMap<String, String>,
}

/// Discovery of targets from files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileDiscovery {
    /// Path patterns, whose last part may contain `*`.
    pub patterns: Vec<String>,
    /// The interval between two reads.
    pub refresh: Duration,
}

/// Defaults of jobs, from the `global` section.
#[derive(Clone, Copy, Debug)]
struct Defaults {
    interval: Duration,
    timeout: Option<Duration>,
}

const DEFAULT_INTERVAL: Duration = Duration::from_secs(60);
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(10);

/// Keys of Prometheus's file and of its `global` section that are not about scraping.
const FOREIGN: &[&str] = &[
    "rule_files",
    "scrape_config_files",
    "alerting",
    "remote_write",
    "remote_read",
    "storage",
    "tracing",
    "otlp",
    "runtime",
];
const FOREIGN_GLOBAL: &[&str] = &[
    "evaluation_interval",
    "rule_query_offset",
    "external_labels",
    "query_log_file",
    "scrape_failure_log_file",
    "body_size_limit",
    "sample_limit",
    "label_limit",
    "label_name_length_limit",
    "label_value_length_limit",
    "target_limit",
    "keep_dropped_targets",
    "metric_name_validation_scheme",
    "metric_name_escaping_scheme",
    "scrape_protocols",
    "always_scrape_classic_histograms",
    "convert_classic_histograms_to_nhcb",
    "scrape_native_histograms",
    "extra_scrape_metrics",
];

impl ScrapeFile {
    /// Parses the text of a file.
    pub fn parse(text: &str) -> Result<Self, ConfigError> {
        let root = Node::parse(text)?;
        let mut file = Self::default();
        let mut keys = Keys::of(&root)?;
        let mut defaults = Defaults { interval: DEFAULT_INTERVAL, timeout: None };
        if let Some(global) = keys.take("global") {
            let mut global = Keys::of(global)?;
            defaults.interval = global.duration("scrape_interval")?.unwrap_or(DEFAULT_INTERVAL);
            defaults.timeout = global.duration("scrape_timeout")?;
            global.finish(FOREIGN_GLOBAL, &mut file.warnings)?;
        }
        for job in keys.list("scrape_configs")? {
            let job = job::read(job, defaults, &mut file.warnings)?;
            if file.jobs.iter().any(|known| known.name == job.name) {
                return Err(ConfigError::at(root.line, format!("job_name '{}' occurs twice", job.name)));
            }
            file.jobs.push(job);
        }
        keys.finish(FOREIGN, &mut file.warnings)?;
        Ok(file)
    }

    /// A file with jobs that scrape these addresses or URLs at an interval.
    pub fn of_targets(targets: &[String], interval: Duration) -> Result<Self, String> {
        let mut jobs: Vec<JobConfig> = Vec::new();
        for target in targets {
            let (scheme, rest) = target.split_once("://").unwrap_or(("http", target));
            let (address, path) = match rest.find('/') {
                Some(at) => rest.split_at(at),
                None => (rest, "/metrics"),
            };
            if address.is_empty() || !matches!(scheme, "http" | "https") {
                return Err(format!("'{target}' is not a target: write HOST:PORT or http://HOST:PORT/PATH"));
            }
            let same = |job: &&mut JobConfig| job.scheme == scheme && job.path == path;
            let job = match jobs.iter_mut().find(same) {
                Some(job) => job,
                None => {
                    let name = if jobs.is_empty() {
                        "scrape".to_owned()
                    } else {
                        format!("scrape-{}", jobs.len() + 1)
                    };
                    jobs.push(JobConfig {
                        scheme: scheme.to_owned(),
                        path: path.to_owned(),
                        groups: vec![TargetGroup::default()],
                        ..JobConfig::new(name, interval, interval.min(DEFAULT_TIMEOUT))
                    });
                    jobs.last_mut().ok_or("a job was just added")?
                }
            };
            job.groups[0].targets.push(address.to_owned());
        }
        Ok(Self { jobs, warnings: Vec::new() })
    }
}

impl JobConfig {
    /// A job with Prometheus's defaults.
    pub fn new(name: String, interval: Duration, timeout: Duration) -> Self {
        Self {
            name,
            interval,
            timeout,
            path: "/metrics".to_owned(),
            scheme: "http".to_owned(),
            params: Vec::new(),
            honor_labels: false,
            honor_timestamps: true,
            track_timestamps_staleness: false,
            auth: Auth::default(),
            tls: Tls::default(),
            body_size_limit: 0,
            sample_limit: 0,
            label_limit: 0,
            label_name_length_limit: 0,
            label_value_length_limit: 0,
            target_limit: 0,
            groups: Vec::new(),
            files: Vec::new(),
            relabel: Vec::new(),
            metric_relabel: Vec::new(),
        }
    }
}

/// Reads a list of target groups.
pub(crate) fn groups(list: &Node) -> Result<Vec<TargetGroup>, ConfigError> {
    let Data::List(items) = &list.data else {
        return Err(ConfigError::at(list.line, "expected a list of groups of targets".to_owned()));
    };
    let groups = items.iter().map(|item| {
        let mut keys = Keys::of(item)?;
        let targets = keys.texts("targets")?;
        let labels = keys.map("labels")?.into_iter().collect();
        keys.finish(&[], &mut Vec::new())?;
        Ok(TargetGroup { targets, labels })
    });
    groups.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_of_prometheus_is_read_unchanged() {
        let text = r#"
global:
  scrape_interval: 15s
  evaluation_interval: 15s
rule_files: ["a.yml"]
scrape_configs:
  - job_name: node
    honor_labels: true
    params: {module: [a, b]}
    basic_auth: {username: u, password: p}
    static_configs:
      - targets: ["a:9100", "b:9100"]
        labels: {env: prod}
    file_sd_configs:
      - files: ["targets/*.yml"]
        refresh_interval: 1m
    relabel_configs:
      - source_labels: [__address__]
        regex: (.*):9100
        target_label: host
    metric_relabel_configs:
      - {action: drop, source_labels: [__name__], regex: go_.*}
    body_size_limit: 10MB
  - job_name: pods
    scrape_interval: 30s
    scrape_timeout: 5s
    kubernetes_sd_configs: [{role: pod}]
"#;
        let file = ScrapeFile::parse(text).unwrap();
        let [node, pods] = &file.jobs[..] else { panic!("two jobs") };
        assert_eq!((node.interval, node.timeout), (Duration::from_secs(15), Duration::from_secs(10)));
        assert_eq!((pods.interval, pods.timeout), (Duration::from_secs(30), Duration::from_secs(5)));
        assert!(node.honor_labels && node.honor_timestamps);
        assert_eq!(
            node.params,
            [("module".to_owned(), "a".to_owned()), ("module".to_owned(), "b".to_owned())]
        );
        assert_eq!(node.groups[0].targets, ["a:9100", "b:9100"]);
        assert_eq!(node.body_size_limit, 10 << 20);
        assert_eq!((node.relabel.len(), node.metric_relabel.len(), node.files[0].patterns.len()), (1, 1, 1));
        assert_eq!(file.warnings.len(), 3, "{:?}", file.warnings);
        assert!(file.warnings[0].starts_with("line 4: evaluation_interval"), "{:?}", file.warnings);
        assert!(file.warnings[1].starts_with("line 27: kubernetes_sd_configs"), "{:?}", file.warnings);
        assert!(file.warnings[2].starts_with("line 5: rule_files"), "{:?}", file.warnings);
    }

    #[test]
    fn errors_name_their_line() {
        let job = |rest: &str| format!("scrape_configs:\n- job_name: a\n{rest}");
        for (text, expected) in [
            (
                job("  scrape_intervall: 1s"),
                "line 3: unknown key 'scrape_intervall'; did you mean 'scrape_interval'?",
            ),
            (job("  scrape_interval: soon"), "line 3: scrape_interval"),
            (
                job("  scrape_interval: 5s\n  scrape_timeout: 6s"),
                "line 2: scrape timeout greater than scrape interval",
            ),
            (job("  scheme: ftp"), "line 3: scheme"),
            (job("  honor_labels: perhaps"), "line 3: honor_labels"),
            (
                job("  relabel_configs: [{action: replace}]"),
                "line 3: relabel action 'replace' requires 'target_label'",
            ),
            (job("  relabel_configs: [{regex: '('}]"), "line 3: regex"),
            ("scrape_configs:\n- metrics_path: /x\n".to_owned(), "line 2: job_name is missing"),
            ("what: 1\n".to_owned(), "line 1: unknown key 'what'"),
        ] {
            let error = ScrapeFile::parse(&text).unwrap_err().to_string();
            assert!(error.starts_with(expected), "{error} should be {expected}");
        }
    }

    #[test]
    fn targets_of_the_command_line_become_jobs() {
        let targets = ["a:1".to_owned(), "http://b:2/m".to_owned(), "c:3".to_owned()];
        let file = ScrapeFile::of_targets(&targets, Duration::from_secs(5)).unwrap();
        assert_eq!(file.jobs.len(), 2);
        assert_eq!((file.jobs[0].groups[0].targets.len(), file.jobs[1].path.as_str()), (2, "/m"));
        assert!(ScrapeFile::of_targets(&["ftp://x".to_owned()], Duration::from_secs(5)).is_err());
    }
}

//! Reads the `scrape_configs` of a Prometheus configuration file.
//!
//! An unknown key is an error that names its line. A key of Prometheus that is not honoured here is a
//! warning that names its line, so that an existing file can be used unchanged.

mod auth;
mod dns;
mod job;
mod job_config;
mod kubernetes;

use std::time::Duration;

pub use auth::{Auth, Secret, Tls};
pub use dns::{DnsDiscovery, RecordKind};
use job::{DEFAULT_TIMEOUT, Defaults};
pub use job_config::JobConfig;
pub(crate) use kubernetes::is_namespace;
pub use kubernetes::{KubernetesDiscovery, Role, Selector};
pub use sandur_yaml::ConfigError;
use sandur_yaml::{Keys, Node};

/// The parsed contents of a file.
#[derive(Clone, Debug, Default)]
pub struct ScrapeFile {
    /// Its jobs.
    pub jobs: Vec<JobConfig>,
    /// Warnings about keys that are not honoured, with their lines.
    pub warnings: Vec<String>,
}

const DEFAULT_INTERVAL: Duration = Duration::from_secs(60);

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
                        groups: vec![sandur_targets::TargetGroup::default()],
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
    dns_sd_configs: [{names: [a.example], type: a, port: 80}]
    consul_sd_configs: [{server: "consul:8500"}]
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
        assert_eq!((pods.kubernetes[0].role, pods.dns[0].kind), (Role::Pod, RecordKind::A));
        assert_eq!(file.warnings.len(), 3, "{:?}", file.warnings);
        assert!(file.warnings[0].starts_with("line 4: evaluation_interval"), "{:?}", file.warnings);
        assert!(file.warnings[1].starts_with("line 29: consul_sd_configs"), "{:?}", file.warnings);
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
            (job("  dns_sd_configs: [{names: []}]"), "line 3: dns_sd_configs: names is missing"),
            (job("  dns_sd_configs: [{names: [a], type: TXT}]"), "line 3: type: 'TXT' is not one of SRV"),
            (job("  dns_sd_configs: [{names: [a], type: A}]"), "line 3: port is missing"),
            (job("  dns_sd_configs: [{names: [a], type: A, port: 70000}]"), "line 3: port: 70000"),
            (job("  kubernetes_sd_configs: [{}]"), "line 3: kubernetes_sd_configs: role is missing"),
            (job("  kubernetes_sd_configs: [{role: pods}]"), "line 3: role: 'pods' is not one of pod"),
            (
                job("  kubernetes_sd_configs: [{role: pod, bearer_token: x}]"),
                "line 3: api_server is missing: it is required with credentials",
            ),
            (job("  kubernetes_sd_configs: [{role: pod, api_server: 'ftp://a'}]"), "line 3: api_server"),
            (
                job("  kubernetes_sd_configs: [{role: pod, api_server: 'https://u:p@a'}]"),
                "line 3: api_server: a URL with a user",
            ),
            (
                job("  kubernetes_sd_configs: [{role: pod, namespaces: {names: [a/b]}}]"),
                "line 3: namespaces: 'a/b' is not a namespace",
            ),
            (
                job("  kubernetes_sd_configs: [{role: pod, selectors: [{role: service, label: a=b}]}]"),
                "line 3: selectors: role pod has no selectors of role 'service'",
            ),
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

//! The options of a job, with Prometheus's defaults.

use std::time::Duration;

use super::auth::{Auth, Tls};
use super::dns::DnsDiscovery;
use super::kubernetes::KubernetesDiscovery;
use sandur_targets::{FileDiscovery, Relabel, TargetGroup};

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
    /// `dns_sd_configs`.
    pub dns: Vec<DnsDiscovery>,
    /// `kubernetes_sd_configs`.
    pub kubernetes: Vec<KubernetesDiscovery>,
    /// `relabel_configs`.
    pub relabel: Vec<Relabel>,
    /// `metric_relabel_configs`.
    pub metric_relabel: Vec<Relabel>,
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
            dns: Vec::new(),
            kubernetes: Vec::new(),
            relabel: Vec::new(),
            metric_relabel: Vec::new(),
        }
    }
}

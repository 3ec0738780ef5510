//! The state of all targets, for users and for the API.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// The result of the last scrape.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Health {
    /// There was no scrape yet.
    #[default]
    Unknown,
    /// The scrape succeeded.
    Up,
    /// The scrape failed.
    Down,
}

impl Health {
    /// Returns Prometheus's name of the state.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Unknown => "unknown",
            Self::Up => "up",
            Self::Down => "down",
        }
    }
}

/// The state of one target.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TargetStatus {
    /// The name of its job.
    pub job: String,
    /// Its URL.
    pub url: String,
    /// The labels of its series.
    pub labels: BTreeMap<String, String>,
    /// Labels before relabelling.
    pub discovered: BTreeMap<String, String>,
    /// The result of the last scrape.
    pub health: Health,
    /// Why the last scrape failed; empty if it succeeded.
    pub last_error: String,
    /// When the last scrape was, in nanoseconds since the epoch; 0: never.
    pub last_scrape_ns: i64,
    /// How long the last scrape took.
    pub last_duration: Duration,
    /// The scrape interval.
    pub interval: Duration,
    /// The scrape timeout.
    pub timeout: Duration,
}

/// The state of a source of targets: a name in the DNS, objects of Kubernetes, or the files of a job.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DiscoveryStatus {
    /// The name of its job.
    pub job: String,
    /// How targets are found: `dns`, `kubernetes` or `file`.
    pub kind: &'static str,
    /// What is looked up.
    pub source: String,
    /// The number of targets, before relabelling, that the last successful look-up found.
    pub targets: usize,
    /// Why the last look-up failed; empty if it succeeded.
    pub last_error: String,
    /// When the last successful look-up was, in nanoseconds since the epoch; 0: never.
    pub last_success_ns: i64,
    /// The number of look-ups that failed.
    pub failures: u64,
}

/// The largest number of dropped targets that are remembered.
const DROPPED_MAX: usize = 10_000;

/// The state of all targets. Cheap to query.
#[derive(Default)]
pub struct Board {
    targets: Mutex<BTreeMap<u64, TargetStatus>>,
    dropped: Mutex<Vec<(String, BTreeMap<String, String>)>>,
    pools: Mutex<Vec<String>>,
    discoveries: Mutex<Vec<DiscoveryStatus>>,
}

impl Board {
    /// Returns the targets that are scraped, sorted by job and URL.
    pub fn active(&self) -> Vec<TargetStatus> {
        let targets = self.targets.lock().unwrap_or_else(PoisonError::into_inner);
        let mut all: Vec<TargetStatus> = targets.values().cloned().collect();
        all.sort_by(|a, b| (&a.job, &a.url).cmp(&(&b.job, &b.url)));
        all
    }

    /// Returns the jobs and labels of targets that rules drop.
    pub fn dropped(&self) -> Vec<(String, BTreeMap<String, String>)> {
        self.dropped.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Returns the names of all jobs.
    pub fn jobs(&self) -> Vec<String> {
        self.pools.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Returns the sources of targets in DNS, Kubernetes and files.
    pub fn discoveries(&self) -> Vec<DiscoveryStatus> {
        self.discoveries.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Adds a source. Returns its number.
    pub(crate) fn add_discovery(&self, status: DiscoveryStatus) -> usize {
        let mut all = self.discoveries.lock().unwrap_or_else(PoisonError::into_inner);
        all.push(status);
        all.len() - 1
    }

    pub(crate) fn change_discovery(&self, number: usize, change: impl FnOnce(&mut DiscoveryStatus)) {
        let mut all = self.discoveries.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(status) = all.get_mut(number) {
            change(status);
        }
    }

    pub(crate) fn set_jobs(&self, jobs: Vec<String>) {
        *self.pools.lock().unwrap_or_else(PoisonError::into_inner) = jobs;
    }

    pub(crate) fn set_dropped(&self, mut dropped: Vec<(String, BTreeMap<String, String>)>) {
        dropped.truncate(DROPPED_MAX);
        *self.dropped.lock().unwrap_or_else(PoisonError::into_inner) = dropped;
    }

    pub(crate) fn put(&self, number: u64, status: TargetStatus) {
        self.targets.lock().unwrap_or_else(PoisonError::into_inner).insert(number, status);
    }

    pub(crate) fn change(&self, number: u64, change: impl FnOnce(&mut TargetStatus)) {
        let mut targets = self.targets.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(status) = targets.get_mut(&number) {
            change(status);
        }
    }

    pub(crate) fn remove(&self, number: u64) {
        self.targets.lock().unwrap_or_else(PoisonError::into_inner).remove(&number);
    }
}

//! The state of all targets, for people and for the API.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// How the last scrape went.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Health {
    /// There was none yet.
    #[default]
    Unknown,
    /// Well.
    Up,
    /// Badly.
    Down,
}

impl Health {
    /// As Prometheus names it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Unknown => "unknown",
            Self::Up => "up",
            Self::Down => "down",
        }
    }
}

/// One target.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TargetStatus {
    /// Its job.
    pub job: String,
    /// Its URL.
    pub url: String,
    /// Labels of its series.
    pub labels: BTreeMap<String, String>,
    /// Labels before relabelling.
    pub discovered: BTreeMap<String, String>,
    /// How the last scrape went.
    pub health: Health,
    /// Why it went badly.
    pub last_error: String,
    /// When it was, in nanoseconds since the epoch; 0: never.
    pub last_scrape_ns: i64,
    /// How long it took.
    pub last_duration: Duration,
    /// How often it is scraped.
    pub interval: Duration,
    /// How long it may take.
    pub timeout: Duration,
}

/// Dropped targets that are remembered.
const DROPPED_MAX: usize = 10_000;

/// The state of all targets. Cheap to ask.
#[derive(Default)]
pub struct Board {
    targets: Mutex<BTreeMap<u64, TargetStatus>>,
    dropped: Mutex<Vec<(String, BTreeMap<String, String>)>>,
    pools: Mutex<Vec<String>>,
}

impl Board {
    /// The targets that are scraped, by job and URL.
    pub fn active(&self) -> Vec<TargetStatus> {
        let targets = self.targets.lock().unwrap_or_else(PoisonError::into_inner);
        let mut all: Vec<TargetStatus> = targets.values().cloned().collect();
        all.sort_by(|a, b| (&a.job, &a.url).cmp(&(&b.job, &b.url)));
        all
    }

    /// Jobs and labels of targets that rules leave out.
    pub fn dropped(&self) -> Vec<(String, BTreeMap<String, String>)> {
        self.dropped.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The names of all jobs.
    pub fn jobs(&self) -> Vec<String> {
        self.pools.lock().unwrap_or_else(PoisonError::into_inner).clone()
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

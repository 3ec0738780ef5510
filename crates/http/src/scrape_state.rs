//! The trait by which the endpoints of `targets` read the state of scraping.

use std::sync::{Arc, OnceLock};

use sandur_model::{Labels, MetricMetadata};

/// The state of scraping as it is shown to clients.
pub trait ScrapeState: Send + Sync {
    /// All targets, including those that relabelling dropped.
    fn targets(&self) -> Vec<TargetShown>;
    /// Names of all scrape configurations.
    fn pools(&self) -> Vec<String>;
    /// Sources of targets in DNS, Kubernetes and files.
    fn discoveries(&self) -> Vec<DiscoveryShown> {
        Vec::new()
    }
    /// Metadata of the metrics of the target with these labels; empty when metadata is not kept by
    /// target.
    fn metadata_of(&self, _labels: &Labels) -> Vec<MetricMetadata> {
        Vec::new()
    }
}

/// What this process scrapes, once it scrapes. Cheap to clone.
#[derive(Clone, Default)]
pub struct Scraping(Arc<OnceLock<Arc<dyn ScrapeState>>>);

impl Scraping {
    /// Says what is scraped; the first to say so holds.
    pub fn set(&self, state: Arc<dyn ScrapeState>) {
        let _ = self.0.set(state);
    }

    /// What is scraped, if anything is.
    pub fn get(&self) -> Option<&Arc<dyn ScrapeState>> {
        self.0.get()
    }

    /// The targets of a scrape configuration; of all when it is not named.
    pub fn targets_of(&self, pool: &str) -> Vec<TargetShown> {
        let mut all = self.get().map(|state| state.targets()).unwrap_or_default();
        all.retain(|target| pool.is_empty() || target.pool == pool);
        all
    }
}

/// A source of targets as it is shown to clients.
#[derive(Clone, Debug)]
pub struct DiscoveryShown {
    /// Name of its scrape configuration.
    pub pool: String,
    /// `dns` or `kubernetes`.
    pub kind: &'static str,
    /// What is looked up.
    pub source: String,
    /// Number of targets before relabelling.
    pub targets: usize,
    /// Error of the last look-up; empty if it succeeded.
    pub last_error: String,
    /// Time of the last successful look-up, nanoseconds since the epoch; 0: never.
    pub last_success_ns: i64,
    /// Number of look-ups that failed.
    pub failures: u64,
}

/// Whether the last scrape of a target went well.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TargetHealth {
    /// The target was not scraped yet.
    Unknown,
    /// The last scrape succeeded.
    Up,
    /// The last scrape failed.
    Down,
}

impl TargetHealth {
    /// The name in answers.
    pub fn name(self) -> &'static str {
        match self {
            Self::Unknown => "unknown",
            Self::Up => "up",
            Self::Down => "down",
        }
    }
}

/// A target as it is shown to clients.
#[derive(Clone, Debug)]
pub struct TargetShown {
    /// Labels from discovery, before relabelling.
    pub discovered: Labels,
    /// Labels of its series; `None` if relabelling dropped the target.
    pub labels: Option<Labels>,
    /// Name of its scrape configuration.
    pub pool: String,
    /// The URL that is scraped.
    pub url: String,
    /// Error of the last scrape; empty if it succeeded.
    pub last_error: String,
    /// Time of the last scrape, nanoseconds since the epoch; 0: never.
    pub last_scrape_ns: i64,
    /// Duration of the last scrape.
    pub last_duration: std::time::Duration,
    /// Result of the last scrape.
    pub health: TargetHealth,
    /// Interval between scrapes.
    pub interval: std::time::Duration,
    /// Timeout of a scrape.
    pub timeout: std::time::Duration,
}

//! The seam between the endpoints of `targets` and whoever scrapes.

use std::sync::{Arc, OnceLock};

use sandur_model::{Labels, MetricMetadata};

/// What is scraped, as clients see it.
pub trait ScrapeState: Send + Sync {
    /// Every target, those that relabelling dropped included.
    fn targets(&self) -> Vec<TargetShown>;
    /// Names of all scrape configurations.
    fn pools(&self) -> Vec<String>;
    /// What the target with these labels tells of its metrics; nothing when it is not known by target.
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

/// Whether the last scrape of a target went well.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TargetHealth {
    /// It was not scraped yet.
    Unknown,
    /// It answered.
    Up,
    /// It did not.
    Down,
}

impl TargetHealth {
    /// As it stands in answers.
    pub fn name(self) -> &'static str {
        match self {
            Self::Unknown => "unknown",
            Self::Up => "up",
            Self::Down => "down",
        }
    }
}

/// A target.
#[derive(Clone, Debug)]
pub struct TargetShown {
    /// Labels as they were discovered.
    pub discovered: Labels,
    /// Labels that its series get; `None`: relabelling dropped it.
    pub labels: Option<Labels>,
    /// Name of its scrape configuration.
    pub pool: String,
    /// What is asked.
    pub url: String,
    /// Why the last scrape failed; empty when it did not.
    pub last_error: String,
    /// When it was scraped last, in nanoseconds since the epoch; 0: never.
    pub last_scrape_ns: i64,
    /// How long that took.
    pub last_duration: std::time::Duration,
    /// How it went.
    pub health: TargetHealth,
    /// Time between scrapes.
    pub interval: std::time::Duration,
    /// Time that a scrape may take.
    pub timeout: std::time::Duration,
}

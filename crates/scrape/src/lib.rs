//! Scrapes targets as Prometheus does.
//!
//! **What it is.** The `scrape_configs` of a Prometheus file with targets that are listed, or discovered
//! from files, DNS or Kubernetes ([`ScrapeFile`]), relabelling, and one loop per target ([`Scraper`]). A
//! loop fetches the target's text, converts it to a batch, writes stale markers for series that ended, and
//! reports `up` and related series. [`Board`] shows the state of all targets.
//!
//! **What it is not.** It has no HTTP client: the caller implements [`Fetch`]. It has no storage:
//! batches go to a [`Sink`]. It has no other discovery: agents can discover and scrape other targets,
//! and send the samples by remote write. Its only network I/O is the resolver of names (`discovery`).
//!
//! **Life of a target.** Lists and files are read by [`Scraper`] itself; each name in the DNS and each entry
//! of Kubernetes has a task, which keeps the last targets and wakes the scraper when they change. Rules
//! change the labels of a target or drop it, and a loop begins or ends.
//!
//! **Life of a scrape.** A loop wakes at its offset within the interval, requests the body from
//! [`Fetch`] with the timeout, and reads it line by line. The text of a series is looked up among those
//! that the loop remembers. Only an unknown series is parsed, gets the labels of its target, and is
//! relabelled. Then every series of the previous scrape that is missing from this one gets a stale
//! marker. A failed scrape ends all series of its target.
//!
//! **Invariants.** The size of a body is bounded. What loops remember is reserved from the budget of all
//! scrapes. The number of targets is bounded. A file, name or cluster that cannot be read changes
//! nothing.

mod batches;
mod board;
mod config;
mod discovery;
mod fetch;
mod run;
mod scrape;
mod series;
mod target;

pub use board::{Board, DiscoveryStatus, Health, TargetStatus};
pub use config::{
    Auth, ConfigError, DnsDiscovery, JobConfig, KubernetesDiscovery, RecordKind, Role, ScrapeFile, Secret,
    Selector, Tls,
};
pub use discovery::DiscoveryMetrics;
pub use fetch::{Fetch, FetchRequest, Fetched};
pub use run::{Scraper, Sink};
pub use sandur_targets::{FileDiscovery, Relabel, TargetGroup};
pub use scrape::short_of;

//! Scrapes: what a server reads from its targets by itself, as Prometheus does.
//!
//! **What it is.** The `scrape_configs` of a Prometheus file with static and file discovery ([`ScrapeFile`]),
//! relabelling, and a loop for each target that fetches its text, makes a batch of it, writes stale markers
//! for what is gone, and reports `up` and its like ([`Scraper`]). [`Board`] shows the state of all targets.
//!
//! **What it is not.** No HTTP: [`Fetch`] does that. No storage: batches go to a [`Sink`]. No other
//! discovery: that stays with agents, which send what they scrape by remote write.
//!
//! **Life of a scrape.** A loop wakes at its offset in the interval, asks [`Fetch`] for the body within the
//! timeout, and reads it line by line. The text of a series is looked up in what the loop remembers; only a
//! series that it does not know is parsed, gets the labels of its target, and is relabelled. Then every
//! series that was there the last time and is not now gets a stale marker. A scrape that fails ends all
//! series of its target.
//!
//! **Invariants.** A body is bounded, and what a loop remembers is reserved from the budget of all scrapes.
//! The number of targets is bounded. A file that cannot be read changes nothing.

mod batches;
mod board;
mod config;
mod discovery;
mod fetch;
mod relabel;
mod run;
mod scrape;
mod series;
mod target;
mod yaml;

pub use board::{Board, Health, TargetStatus};
pub use config::{Auth, ConfigError, FileDiscovery, JobConfig, ScrapeFile, TargetGroup, Tls};
pub use fetch::{ACCEPT, Fetch, FetchRequest, Fetched};
pub use relabel::Relabel;
pub use run::{Scraper, Sink};
pub use scrape::short_of;

//! Targets in the form of Prometheus's configuration: what scrapes and notifications have in common.
//!
//! **What it is.** Groups of targets with labels ([`TargetGroup`]), their discovery from files
//! ([`FileDiscovery`], [`KnownFiles`]), and rules that change labels ([`Relabel`]).
//!
//! **What it is not.** It sends nothing: `scrape` fetches from targets, `rules` sends alerts to them.
//!
//! **Life of a target.** A reader takes `static_configs` with [`groups`] and `file_sd_configs` with
//! [`files`]. [`KnownFiles`] reads the files from time to time. The reader adds its own labels to those of a
//! group, and [`relabel`] changes them or drops the target.
//!
//! **Invariants.** A file that cannot be read keeps its previous groups. Sizes and numbers of files, compiled
//! expressions, and texts that rules create are bounded.

mod discovery;
mod group;
mod relabel;

pub use discovery::KnownFiles;
pub use group::{FileDiscovery, TargetGroup, files, groups};
pub use relabel::{LabelSet, Relabel, relabel, rules};

//! The engine: the path of a batch of rows into blocks in the store, and of a query over them.
//!
//! **What it is.** The write half takes batches into the WAL (`writing::wal`) and keeps them in the head
//! (`head`) until a flush turns them into blocks (`writing::flush`). The read half answers queries over
//! blocks and heads (`logs::reading`, `samples::reading`). Upkeep runs in the background (`upkeep`): it
//! follows the WAL of live writers and adopts that of dead ones, merges blocks, removes rows past their
//! retention, aggregates old points, removes rows that delete requests name (`rules` hide them from
//! queries until then) and collects garbage.
//!
//! **Floors.** A module imports from its own floor and from lower ones, never from a higher one.
//! `cargo xtask tidy` checks it (`xtask/src/floors.rs`).
//!
//! | floor | modules | contents |
//! |---|---|---|
//! | values | `arrivals`, `error`, `growing`, `head_totals`, `needles`, `window_counts`, `windows` | values |
//! | policy | `metrics`, `options`, `path_labels`, `peers`, `policy`, `rules` | what is done, as data |
//! | blocks | `blocks` | stored blocks of any signal: bytes, footers, upload; the traits of a signal |
//! | signals | `logs`, `samples` | the head of a signal, how its blocks are written and merged |
//! | views | `followed`, `head`, `node`, `place`, `same_rows`, `stamp_clock`, `view` | heads, and views |
//! | reading | `logs::reading`, `reading`, `samples::reading` | queries over a view |
//! | writing | `writing` | pushes, the WAL, flushes |
//! | upkeep | `upkeep` | adoption, compaction, retention, rollups, deletes |
//! | engine | `cluster_report`, `engine`, `readiness` | connects the others |
//!
//! **Two signals, one engine.** Lines and samples share one WAL, one head per writer, one floor of the
//! WAL and one commit ([`sandur_model::Batch`]). How a signal encodes its rows is in `logs` and in
//! `samples`, behind three traits of `blocks`: `assembly::Plan` and `assembly::Assembly` make blocks of
//! a head, `merging::Merging` merges many blocks into one. Code that moves objects calls those traits
//! and does not depend on the signal.
//!
//! **What it is not.** It parses no query language and no wire format, listens on no port, and belongs
//! to no cluster: two engines on one store coordinate through the catalog alone.
//!
//! **Life of a push.** [`Engine::push`] reserves memory; while a head is flushed it waits for its share
//! (`writing::flush::admission`). The WAL's committer encodes all waiting pushes as one frame, writes it
//! durably, puts its rows into the head of the view, notifies followers, and acknowledges.
//!
//! **Life of a query.** A source of [`Engine::sources`] takes the current view (snapshot and heads) and
//! opens the footers of the blocks that the query needs. It returns pages of log rows in the requested
//! order, or complete series of samples in batches. `reading::series_reader` lists the series of both
//! signals.
//!
//! **Invariants.** A row is acknowledged only when it is durable. In every view a row is in a head or in
//! a block, never in neither; it is in both only during a flush in several commits, and then equal in
//! both ([`View`]). Rows of a dead writer are flushed by exactly one adopter. Memory that grows with
//! data is reserved from a budget before it is used.

mod arrivals;
mod blocks;
mod cluster_report;
mod engine;
mod error;
#[cfg(test)]
mod fixtures;
mod followed;
mod growing;
mod head;
mod head_totals;
mod logs;
mod metrics;
mod needles;
mod node;
mod options;
mod path_labels;
mod peers;
mod place;
mod policy;
mod readiness;
mod reading;
mod rules;
mod same_rows;
mod samples;
mod stamp_clock;
#[cfg(test)]
mod tests;
mod upkeep;
mod view;
mod window_counts;
mod windows;
mod writing;

pub use blocks::bytes::tenant_number;
pub use cluster_report::{ClusterReport, NodeReport, OtherProcess, StoreUsage};
pub use engine::Engine;
pub use error::{CancelRefusal, Error, FilterError};
pub use followed::WriterShown;
pub use metrics::Metrics;
pub use options::{EngineOptions, MaintenanceOptions, NodeOptions, RetentionOf};
pub use peers::{AskedFrames, PeerFrames, Peers};
pub use policy::compaction::CompactionPolicy;
pub use policy::retention::{LabelRetention, Retention};
pub use policy::rollups::{RollupStep, RollupSteps, RollupsNow};
pub use rules::{DeleteOptions, DeletionModeOf};
pub use upkeep::deletes::DeleteStatus;
pub use view::View;
pub use writing::rule_terms::{RuleLease, RuleTerms};

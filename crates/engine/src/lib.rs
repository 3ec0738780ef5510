//! The engine: the path of a batch of rows into blocks in the store, and of a query over them.
//!
//! **What it is.** The write half takes batches into the WAL (`wal`) and keeps them in the head (`head`)
//! until a flush turns them into blocks (`flush`). It adopts the WAL of dead writers (`adopt`) and
//! follows the WAL of live ones (`follow_writers`). The read half answers queries over blocks and heads
//! (`logs::scan`, `samples::scan`). Upkeep runs in the background: it merges blocks (`compact`), removes
//! rows past their retention (`retention`), aggregates old points (`rollups`), removes rows that delete
//! requests name (`deletes`; `rules` hide them from queries until then) and collects garbage (`maintain`).
//!
//! **Two signals, one engine.** Lines and samples share one WAL, one head per writer, one floor and one
//! commit ([`sandur_model::Batch`]). How a signal encodes its rows is in `logs` and in `samples`, behind
//! three traits: `assembly::Plan` and `assembly::Assembly` make blocks of a head, `merging::Merging`
//! merges many blocks into one. Code that moves objects calls those traits and does not depend on the
//! signal.
//!
//! **What it is not.** It parses no query language and no wire format, listens on no port, and belongs
//! to no cluster: two engines on one store coordinate through the catalog alone.
//!
//! **Life of a push.** [`Engine::push`] reserves memory. The WAL's committer encodes all waiting pushes
//! as one frame, writes it durably, puts its rows into the head of the view, notifies followers, and
//! acknowledges.
//!
//! **Life of a query.** A source of [`Engine::sources`] takes the current view (snapshot and heads) and
//! opens the footers of the blocks that the query needs. It returns pages of log rows in the requested
//! order, or complete series of samples in batches. `series_reader` lists the series of both signals.
//!
//! **Invariants.** A row is acknowledged only when it is durable. In every view a row is in a head or in
//! a block, never in neither; it is in both only during a flush in several commits, and then equal in
//! both ([`View`]). Rows of a dead writer are flushed by exactly one adopter. Memory that grows with
//! data is reserved from a budget before it is used.

mod adopt;
mod assembly;
mod block_bytes;
mod block_cache;
mod block_meta;
mod block_reader;
mod block_upload;
mod compact;
mod cut;
mod deletes;
mod engine;
mod error;
mod filters;
#[cfg(test)]
mod fixtures;
mod flush;
mod flush_commit;
mod flush_signal;
mod flush_task;
mod follow_writers;
mod growing;
mod head;
mod head_totals;
mod logs;
mod long_blocks;
mod maintain;
mod matching;
mod merge_backoff;
mod merge_policy;
mod merge_runs;
mod merging;
mod metrics;
mod needles;
mod open_block;
mod options;
mod order_of_writers;
mod push;
mod push_parts;
mod read_frame;
mod readiness;
mod retention;
mod rewritten;
mod rollups;
mod rules;
mod samples;
mod series_reader;
mod shared;
#[cfg(test)]
mod tests;
mod view;
mod wal;
mod windows;

pub use block_bytes::tenant_number;
pub use deletes::DeleteStatus;
pub use engine::Engine;
pub use error::{CancelRefusal, Error, FilterError};
pub use merge_policy::CompactionPolicy;
pub use metrics::Metrics;
pub use options::{EngineOptions, MaintenanceOptions, RetentionOf};
pub use retention::{LabelRetention, Retention};
pub use rollups::{RollupStep, RollupSteps, RollupsNow};
pub use rules::{DeleteOptions, DeletionModeOf};
pub use view::View;

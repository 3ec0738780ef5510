//! The engine: everything between a batch of rows and the blocks in the store, and back.
//!
//! **What it is.** The write half takes batches into the WAL (`wal`), keeps them in the head (`head`)
//! until a flush makes blocks of them (`flush`), adopts writers that died (`adopt`) and follows those
//! that live (`follow_writers`). The read half answers queries over blocks and heads (`logs::scan`,
//! `samples::scan`). The background merges blocks (`compact`), lets old rows go (`retention`), makes
//! aggregates of old points (`rollups`), removes rows
//! that delete requests name (`deletes`; `rules` hide them from queries until then) and collects garbage
//! (`maintain`).
//!
//! **Two signals, one engine.** One WAL, one head per writer, one floor and one commit carry lines and
//! samples alike ([`sandur_model::Batch`]). What bytes a signal makes of its rows is in `logs` and in
//! `samples`, behind three traits: `assembly::Plan` and `assembly::Assembly` make blocks of a head,
//! `merging::Merging` makes one block of many. Code that moves objects calls those traits and knows no
//! signal.
//!
//! **What it is not.** It parses no query language and no wire format, listens on no port, and is not a
//! member of anything: two engines on one store agree through the catalog alone.
//!
//! **Life of a push.** [`Engine::push`] reserves memory, the WAL's committer makes a frame of all pushes
//! that wait, writes it durably, puts its rows into the head of the view, tells followers, and answers.
//!
//! **Life of a query.** A source of [`Engine::sources`] takes the view of the moment (snapshot and heads),
//! opens the footers of blocks that fit, and hands out pages of log rows in the order that is asked for, or
//! whole series of samples in batches. Which series there are is answered alike for both (`series_reader`).
//!
//! **Invariants.** A row is acknowledged only when it is durable. In every view a row is in a head or in
//! a block, never in both and never in neither ([`View`]). Rows of a dead writer are flushed by exactly
//! one adopter. Memory that grows with data is reserved from a budget first.

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

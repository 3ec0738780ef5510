//! The catalog: a shared record of which blocks and writers exist, for any number of processes that share
//! only a store.
//!
//! **What it is.** A log of numbered, immutable entries (`catalog/<n>`). Each entry is written by
//! conditional create and holds the checksum of the entry before. Every process replays the log as a
//! deterministic state machine. A [`Snapshot`] is the state after one entry. Entries carry their
//! preconditions, so an entry that is written late has the same effect (mostly none) for every reader.
//! Checkpoints avoid reading the log from its start, the boundary object makes it safe to delete entries,
//! and garbage collection announces deletions in the log before it deletes data.
//! `docs/decisions/0001-catalog-log.md` gives the reasons; `docs/formats/catalog-entry.md` and
//! `docs/formats/checkpoint.md` describe the bytes.
//!
//! **What it is not.** It decides nothing by time: clocks and membership only determine when to try
//! something. It holds no rows, opens no blocks, and has no leader.
//!
//! **Life of a commit.** [`Catalog::commit`] queues a transaction. One task per process gathers waiting
//! transactions into an entry, applies it in memory, and creates the next number (`commit.rs`). Then it
//! reads the boundary, to be sure that the number was not created before and deleted. If another process
//! has the number, the task follows the log to its end (`tail.rs`) and starts over. [`Catalog::refresh`]
//! follows the log in the same way. [`Catalog::keep_house`] writes checkpoints and truncates the log
//! (`checkpoint.rs`); [`Collector`] deletes data that is no longer needed (`gc.rs`, `orphans.rs`);
//! [`Members`] measures which processes are silent (`members.rs`); [`check`] verifies a store.
//! `deletes.rs` keeps requests to delete lines.
//!
//! **Invariants.**
//! * A published snapshot is a prefix of the one log; its number never decreases.
//! * A commit that was reported `Ok` is in every later snapshot of every process; one that was reported
//!   `Rejected` is in none.
//! * A transaction is applied at most once, however often it was written.
//! * The boundary is advanced before a number is deleted, and read after a number was created.
//! * No object that a snapshot references is deleted before its removal was announced in the log.
//! * Entries form a hash chain (`chain.rs`), and objects outside of the log record its length
//!   (`witness.rs`). If the log was truncated, emptied, swapped or restored from an old copy, no process
//!   follows it, writes to it, or deletes anything because of it.
//!
//! Two processes that share only a store:
//!
//! ```
//! use std::sync::Arc;
//!
//! use object_store::memory::InMemory;
//! use sandur_runtime::Env;
//! use sandur_catalog::{Catalog, CatalogOptions, Registration, check};
//! use sandur_format::catalog_entry::WalKind;
//! use sandur_store::{Store, StoreOptions};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let env = Env::system(1);
//! let store = Store::from_object_store(Arc::new(InMemory::new()), env.clone(), StoreOptions::default());
//! let first = Catalog::open(store.clone(), env.clone(), CatalogOptions::default()).await?;
//! let second = Catalog::open(store.clone(), env.clone(), CatalogOptions::default()).await?;
//!
//! // What one commits the other reads when it follows the log.
//! let incarnation = env.new_id();
//! let (address, host, wal) = (String::new(), "example".to_owned(), WalKind::Bucket);
//! first.register(Registration { incarnation, address, host, wal, node: None }).await?;
//! assert!(second.snapshot().writer(incarnation).is_none());
//! second.refresh().await?;
//! assert!(second.snapshot().writer(incarnation).is_some());
//! assert!(check(&store, &env).await?.is_undamaged());
//! # Ok(())
//! # }
//! ```

mod blocks;
mod boundary;
mod catalog;
mod chain;
mod check;
mod check_block;
mod check_index;
mod check_object;
mod check_report;
mod check_wal;
mod checkpoint;
mod commit;
mod copied;
mod deletes;
mod describe;
mod error;
mod footers;
mod gc;
mod hints;
mod members;
mod metrics;
mod names;
mod options;
mod orphans;
pub mod placement;
mod position;
mod repair;
mod shared;
mod snapshot;
mod state;
mod survey;
mod tail;
#[cfg(test)]
mod test_blocks;
mod witness;

pub use catalog::{Catalog, Housekeeping, Registration};
pub use check::check;
pub use check_block::check_block;
pub use check_report::{CheckReport, Finding, Severity};
pub use copied::CatalogCopy;
pub use deletes::{DELETE_QUERIES_BYTES_MAX, OPEN_DELETES_MAX};
pub use describe::{BlockSums, Description};
pub use error::{CommitError, EditFault, Error, Rejection};
pub use gc::{Collector, GcOptions, GcReport};
pub use hints::Hints;
pub use members::{Members, MembersOptions, growing_members};
pub use metrics::CatalogMetrics;
pub use options::{CatalogOptions, NEWEST_FORMS};
pub use orphans::{OrphanReport, OwnBlocks};
pub use position::PositionCheck;
pub use repair::Repair;
pub use sandur_format::catalog_entry::{
    BlockForms, DeleteProgress, DeleteRecord, DeleteRequest, LogPosition, NodeDescription, NodePhase, Writer,
};
pub use snapshot::{RemovedBlock, Snapshot};
pub use state::{Outcome, SESSION_ENTRIES};

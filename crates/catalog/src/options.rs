//! Bounds and intervals of the catalog, with their defaults.

use std::time::Duration;

use sandur_format::catalog_entry::{BlockForms, EDITS_NEWEST};
use sandur_format::{log_block, sample_block};

/// The versions of blocks that this program reads.
pub const NEWEST_FORMS: BlockForms = BlockForms { logs: log_block::VERSION, samples: sample_block::VERSION };

/// Options of the catalog. The defaults suit a store with 20 to 600 ms per request.
#[derive(Clone, Debug)]
pub struct CatalogOptions {
    /// How long one commit is tried. Default: 60 s.
    pub commit_deadline: Duration,
    /// Longest pause between two attempts of a commit. Default: 5 s.
    pub pause_max: Duration,
    /// Commits that may wait in this process. Default: 256.
    pub queue_length_max: usize,
    /// Entries after which a checkpoint is due. Default: 64; grows with the number of blocks, so that the
    /// bytes written per entry stay bounded.
    pub checkpoint_entries: u64,
    /// Time after which a checkpoint is due if there is any new entry. Default: 10 min.
    pub checkpoint_age: Duration,
    /// An entry is deleted only when a checkpoint that contains it is at least this old, so that a process
    /// that polls for the next entry ([`crate::Catalog::poll`]) cannot miss one. Default: 60 s.
    pub truncate_after: Duration,
    /// Most objects that one call of housekeeping deletes. Default: 10,000.
    pub deletes_max: usize,
    /// Entries that are read concurrently when catching up. Default: 16.
    pub read_ahead: usize,
    /// The versions of blocks that this process reads and states when it registers. `None` states none, as
    /// programs from before versions were stated. Default: [`NEWEST_FORMS`].
    pub reads: Option<BlockForms>,
    /// The version of edits that this process reads and states when it registers. Default: [`EDITS_NEWEST`];
    /// less only in tests, as an earlier program.
    pub edits: u16,
}

impl Default for CatalogOptions {
    fn default() -> Self {
        Self {
            commit_deadline: Duration::from_secs(60),
            pause_max: Duration::from_secs(5),
            queue_length_max: 256,
            checkpoint_entries: 64,
            checkpoint_age: Duration::from_secs(600),
            truncate_after: Duration::from_secs(60),
            deletes_max: 10_000,
            read_ahead: 16,
            reads: Some(NEWEST_FORMS),
            edits: EDITS_NEWEST,
        }
    }
}

//! Backups: consistent copies of a store that is in use, and stores that are restored from them.
//!
//! **What it is.** [`Backup`] copies a store to a [`Place`], a directory or a bucket that holds any number of
//! backups of one store. Blocks are there once, whatever number of backups have them; everything else of a
//! backup is below `backups/<id>/`. [`Restore`] makes a store of a backup, [`remove`] frees what only some
//! backups have. `docs/formats/backup.md` describes the objects,
//! `docs/decisions/0035-backups-prove-that-they-are-whole.md` the protocol.
//!
//! **What it is not.** It has no rows and no schedule, and it does not write to the source.
//!
//! **Life of a backup.** [`Backup::run`] marks itself as in progress (`mark.rs`). In rounds it copies the WAL
//! (`wal.rs`), reads the catalog, and copies the blocks that the place lacks (`copy.rs`), until a round
//! finds every block. Then it copies the stored rules (`rules.rs`), writes the state of the catalog as a
//! checkpoint, reads everything back (`whole.rs`), and writes the manifest.
//!
//! **Invariants.** A backup exists if and only if its manifest exists. The manifest is written last, when
//! every object that it needs was read back from the place and verified. A row that was acknowledged before
//! the backup began, and was not deleted, is in it.

mod copy;
mod create;
mod error;
mod mark;
mod place;
mod remove;
mod restore;
mod rules;
mod step;
#[cfg(test)]
mod tests;
mod wal;
mod whole;

pub use create::{Backup, Created};
pub use error::Error;
pub use place::{Backups, Place};
pub use remove::{Removed, remove};
pub use restore::{Restore, Restored};
pub use step::{Progress, Step};

//! The memory file: what is in memory, kept in a file over a clean stop.
//!
//! [`Cache::close_into`](crate::Cache::close_into) streams every live item of memory into FILE and then
//! writes FILE.meta, which makes FILE count; [`Cache::restore`](crate::Cache::restore) takes FILE.meta away,
//! durably, before it believes any of it, and puts the items back. The bytes are in
//! docs/formats/cache-memory.md.
//!
//! **Why it never serves an old value.** FILE counts only with the FILE.meta of the same save, whose name
//! appears when everything else is on the disk, and is gone before the first call is served: of a run that
//! crashes nothing is left. A cache with flash also remembers which clean stop of the flash tier belongs to
//! FILE: after any other run over that flash FILE is void. Flash holds the same version of what is in
//! memory or none, so the two need no comparison.
//!
//! **Invariants.** Nothing of a file is used that its checksums do not confirm; a file that turns out
//! damaged leaves memory empty. One frame and one item are held beside what the cache accounts for.

pub(crate) mod files;
mod frames;
mod item;
mod meta;
mod restore;
mod save;
#[cfg(test)]
mod tests;

pub use files::{MemoryFileError, Notes, Refusal, Restored, RestoredItems, Saved};
pub(crate) use restore::restore;
pub(crate) use save::close_into;

//! The memory file: the items in memory, kept in a file from a clean stop to the next start.
//!
//! [`Cache::close_into`](crate::Cache::close_into) streams every live item of memory into FILE and then
//! writes FILE.meta, which makes FILE valid. [`Cache::restore`](crate::Cache::restore) removes
//! FILE.meta, durably, before it uses either file, and puts the items back. The bytes are described in
//! docs/formats/cache-memory.md.
//!
//! **Why it never serves an old value.** FILE is valid only with the FILE.meta of the same save. Its
//! name appears after everything else is on the disk, and is removed before the first call is served: a
//! run that crashes leaves nothing valid. A cache with flash also records which clean stop of the flash
//! tier belongs to FILE: any other run over that flash makes FILE void. For an item in memory, flash
//! holds the same version or none, so that the two need no comparison.
//!
//! **Invariants.** Only content whose checksums match is used; a file that turns out to be damaged
//! leaves memory empty. In addition to the cache's accounted memory one frame and one item are held.

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

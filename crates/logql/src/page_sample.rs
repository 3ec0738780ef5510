//! Reading a part of the pages when all of them would take too long: for answers about many lines.
//!
//! **Invariant.** The choice depends on the pages alone, so that equal requests have equal answers.

use std::hash::BuildHasher;
use std::sync::{Mutex, PoisonError};

use foldhash::fast::FixedState;
use sandur_memory::Reservation;
use sandur_model::{LineColumn, LogPage, StreamRun};
use sandur_query::{Error, PageTask, SeenRows};

use crate::log_scan::row_hash;
use crate::pipeline::is_suspect;

/// Memory of what is gathered grows by at least this many bytes.
const GROWTH_BYTES: u64 = 64 << 10;

/// One of how many pages is read, so that at most `most` of `bytes` are read.
pub fn one_in(bytes: u64, most: u64) -> u64 {
    bytes.div_ceil(most).max(1)
}

/// Whether a page is read if one of `every` pages is. It is chosen by a hash of its properties.
pub fn takes(page: &dyn PageTask, every: u64) -> bool {
    let (first, last) = page.bounds();
    every <= 1 || FixedState::default().hash_one((first, last, page.memory_bytes())).is_multiple_of(every)
}

/// Reserves memory for what was gathered.
pub fn cover(memory: &mut Reservation, bytes: u64) -> Result<(), Error> {
    match bytes.checked_sub(memory.bytes()) {
        None | Some(0) => Ok(()),
        Some(missing) => Ok(memory.grow(missing.max(GROWTH_BYTES))?),
    }
}

/// Whether a row was not read before from another block or head.
pub fn is_new(
    seen: &Mutex<SeenRows>,
    (page, lines): (&LogPage, &LineColumn),
    run: &StreamRun,
    row: usize,
) -> Result<bool, Error> {
    if !is_suspect(run, page.timestamps[row]) {
        return Ok(true);
    }
    let hash = row_hash(page, lines, run.labels.stream_id(), row);
    seen.lock().unwrap_or_else(PoisonError::into_inner).insert(hash)
}

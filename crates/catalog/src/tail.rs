//! Follows the log: reads entry after entry until one is absent, then reads the boundary.
//!
//! **Why the boundary is read after every read of the log.** A writer that was suspended may create a
//! deleted number again: a ghost. A reader of `n` could read the ghost instead of the entry that all
//! other processes applied. Numbers are deleted only after the boundary has reached them. So if the
//! boundary, read *after* the entries, is still below the first of them, none was a ghost. The same check
//! distinguishes "there is no next entry" from "the next entries are deleted". If it fails, the entries
//! are discarded and the state is loaded from a checkpoint.
//!
//! When there is no new entry, the last entry is read: otherwise a log that was emptied or truncated
//! would look like one that has not grown.
//!
//! **Polls.** A process that follows the log looks for the next entry every second and mostly finds none.
//! [`Shared::poll`] asks only for that entry, and reads the boundary and the last entry as above when there
//! is one, and every [`VERIFIED_FOR`]. In between, an absent next entry could be a deleted one only if it was
//! created and deleted since the last complete read; entries are kept for longer
//! ([`crate::CatalogOptions::truncate_after`]). Both times are durations by the monotonic clocks of the
//! processes: nothing compares their clocks.
//!
//! A snapshot that passed the check is called verified. Only verified snapshots are published.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::join_all;
use sandur_format::catalog_entry::{BlockForms, EDITS_UNSTATED, Entry, entry_checksum};
use sandur_store::Intent;

use crate::error::Error;
use crate::names;
use crate::shared::Shared;
use crate::snapshot::Snapshot;
use crate::state::edits_stated_by;
use crate::witness::Witness;

/// A poll that begins at most this long after a complete read of the log's end asks only for the next entry.
/// It must be shorter than the time for which entries are kept.
const VERIFIED_FOR: Duration = Duration::from_secs(10);

/// The result of following the log.
pub(crate) enum Tail {
    /// The end was reached; the snapshot is verified.
    Verified(Arc<Snapshot>),
    /// The entries after the starting point are deleted.
    Lost,
}

impl Shared {
    /// Returns a snapshot that contains everything that was committed before the call. Callers share a
    /// refresh that began after all of them had asked.
    pub(crate) async fn refresh(&self) -> Result<Arc<Snapshot>, Error> {
        let ticket = self.refreshes.begun.load(Ordering::Acquire);
        let _turn = self.refreshes.turn.lock().await;
        if self.refreshes.done.load(Ordering::Acquire) > ticket {
            return Ok(self.current());
        }
        let own = self.refreshes.begun.fetch_add(1, Ordering::AcqRel) + 1;
        let snapshot = self.catch_up().await?;
        self.refreshes.done.store(own, Ordering::Release);
        Ok(snapshot)
    }

    /// Like [`Shared::refresh`] with one request if there is no new entry and a complete read is not due.
    pub(crate) async fn poll(&self) -> Result<Arc<Snapshot>, Error> {
        let ticket = self.polls.begun.load(Ordering::Acquire);
        let _turn = self.polls.turn.lock().await;
        if self.polls.done.load(Ordering::Acquire) > ticket {
            return Ok(self.current());
        }
        let own = self.polls.begun.fetch_add(1, Ordering::AcqRel) + 1;
        if !self.has_no_next_entry().await {
            self.refresh().await?;
        }
        self.polls.done.store(own, Ordering::Release);
        Ok(self.current())
    }

    /// Whether one request shows that the log has not grown.
    async fn has_no_next_entry(&self) -> bool {
        let is_verified = self.since_verified().is_some_and(|since| since < VERIFIED_FOR);
        if !is_verified || self.expect_not_lost().is_err() || self.is_local() {
            return false;
        }
        let began = self.env.monotonic();
        let path = names::entry(self.current().number() + 1);
        let absent = self.store.get(&path, Intent::catalog()).await;
        // The process may have been suspended since the check above.
        let is_recent = self.since_verified().is_some_and(|since| since < self.options.truncate_after);
        let is_absent = absent.is_err_and(|error| error.is_not_found()) && is_recent;
        if is_absent {
            self.note_complete(began);
        }
        is_absent
    }

    /// Like [`Shared::refresh`], but not shared with other callers.
    pub(crate) async fn catch_up(&self) -> Result<Arc<Snapshot>, Error> {
        let began = self.env.monotonic();
        let newest = self.read_to_end().await;
        match &newest {
            Ok(_) => {
                self.note_verified(began);
                self.note_complete(began);
            }
            Err(_) => self.note_unread(began),
        }
        newest
    }

    async fn read_to_end(&self) -> Result<Arc<Snapshot>, Error> {
        self.expect_not_lost()?;
        let before = self.current();
        let snapshot = match self.tail(&before).await? {
            Tail::Verified(snapshot) => snapshot,
            Tail::Lost => {
                let loaded = self.reload().await?;
                let witness =
                    Witness { object: "the snapshot of this process".to_owned(), seen: before.position() };
                self.check_witnesses(&loaded, &[witness]).map_err(|error| self.lose(error))?;
                loaded
            }
        };
        Ok(self.publish(snapshot))
    }

    /// Loads the state from the newest checkpoint, because the entries after the own snapshot are deleted
    /// or because the entries that were read cannot be trusted.
    pub(crate) async fn reload(&self) -> Result<Arc<Snapshot>, Error> {
        self.metrics.reloads.inc();
        tracing::info!(number = self.current().number(), "catalog entries are gone; loading a checkpoint");
        self.load().await
    }

    /// Follows the log from a verified snapshot to its end.
    pub(crate) async fn tail(&self, from: &Arc<Snapshot>) -> Result<Tail, Error> {
        let read = self.read_on(from).await;
        // Read even if an entry could not be read: unreadable bytes of a ghost are not damage.
        let boundary = self.read_boundary().await?;
        if boundary > from.number() {
            return Ok(Tail::Lost);
        }
        let state = match read {
            Ok(state) => state,
            Err(error @ Error::Broken { .. }) => return Err(self.lose(error)),
            Err(error) => return Err(error),
        };
        self.expect_readable(&state)?;
        if state.number() == from.number() && boundary < from.number() {
            self.verify_end(from).await?;
        }
        self.metrics.entries.inc_by(state.number() - from.number());
        Ok(Tail::Verified(state))
    }

    /// Fails if blocks may be written of newer versions than this process reads.
    pub(crate) fn expect_readable(&self, state: &Snapshot) -> Result<(), Error> {
        let (active, reads) = (state.forms(), self.options.reads.unwrap_or(BlockForms::UNSTATED));
        if !reads.include(active) {
            return Err(Error::NewerForms { active, reads });
        }
        let reads = self.options.edits;
        // Earlier programs stop when they decode the entry; this is for tests of them.
        let written = state.writers().values().map(edits_stated_by).max().unwrap_or(0);
        if reads < written {
            return Err(Error::NewerEdits { written, reads: reads.max(EDITS_UNSTATED) });
        }
        Ok(())
    }

    async fn read_on(&self, from: &Arc<Snapshot>) -> Result<Arc<Snapshot>, Error> {
        let Some(first) = self.read_entry(from.number() + 1).await? else {
            return Ok(Arc::clone(from));
        };
        let mut state = Snapshot::clone(from);
        state.follow(&first)?;
        loop {
            let next = state.number() + 1;
            let numbers = next..next + self.options.read_ahead.max(1) as u64;
            for entry in join_all(numbers.map(|n| self.read_entry(n))).await {
                // Later entries of the same round may exist by now; the next refresh reads them.
                let Some(entry) = entry? else {
                    return Ok(Arc::new(state));
                };
                state.follow(&entry)?;
            }
        }
    }

    /// Reads entry `number`; `None` when it is absent: not yet written, or deleted.
    pub(crate) async fn read_entry(&self, number: u64) -> Result<Option<StoredEntry>, Error> {
        let path = names::entry(number);
        let found = self.store.find(&path, Intent::catalog()).await?;
        found.map(|bytes| decode_entry(path, number, &bytes)).transpose()
    }
}

/// An entry, and its checksum, which the next entry holds.
pub(crate) struct StoredEntry {
    pub entry: Entry,
    pub checksum: u64,
}

impl Snapshot {
    /// Applies the next entry of the log, if it holds the checksum of the one before.
    pub(crate) fn follow(&mut self, stored: &StoredEntry) -> Result<(), Error> {
        let StoredEntry { entry, checksum } = stored;
        let expected = self.chain.last();
        if !self.chain.follow(self.number, entry.before, *checksum) {
            let (path, before) = (names::entry(entry.number), names::entry(self.number));
            return Err(Error::Broken { path, before, expected, found: entry.before.unwrap_or(0) });
        }
        self.apply(entry);
        Ok(())
    }
}

pub(crate) fn decode_entry(path: String, number: u64, bytes: &Bytes) -> Result<StoredEntry, Error> {
    match Entry::decode(bytes) {
        Ok(entry) if entry.number == number => Ok(StoredEntry { entry, checksum: entry_checksum(bytes) }),
        Ok(entry) => Err(Error::Misplaced { path, found: entry.number }),
        Err(reason) => Err(Error::Corrupt { path, reason }),
    }
}

//! The kept series of one tenant, and their memory.
//!
//! **Invariant.** The memory of a series is reserved before it is kept.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use foldhash::{HashMap, HashMapExt};
use sandur_memory::{MemoryBudget, OverBudget, Reservation};
use sandur_model::StreamId;

use super::stream::Stream;

/// Tables of a tenant: a table that grows is in memory twice, so each is kept small.
const TABLES: usize = 64;

/// Shortest interval between searches for stale series in a full table: such a search visits every
/// series.
const SWEEP_EVERY: Duration = Duration::from_secs(10);

/// Memory of a tenant without series, in bytes.
const TENANT_BYTES: u64 = 8 << 10;

/// Bytes of a series in a table that has just doubled, which is filled to 7/16.
const STREAM_BYTES: u64 = (size_of::<(StreamId, Entry)>() as u64 + 1) * 16 / 7;

/// A series without a point for this long is forgotten; its next point starts a new total.
pub const DELTA_STALE_AFTER: Duration = Duration::from_secs(5 * 60);

/// Bytes of memory for the work on one series of a batch: its key in the queue, its states before and
/// after in a table that has just doubled, and a start time in the batch.
pub(crate) const WORK_BYTES: u64 =
    sandur_runtime::KEY_BYTES + 2 * STREAM_BYTES + size_of::<Entry>() as u64 + 16;

/// The series of one tenant.
pub(super) struct Tenant(Mutex<Table>);

/// The series of a tenant by id, and their memory.
pub(super) struct Table {
    tables: Vec<HashMap<StreamId, Entry>>,
    /// Series in the tables.
    series: u64,
    /// New series of batches that are being stored, which are not in the tables yet.
    coming: u64,
    memory: Reservation,
    /// Monotonic time of the last search for stale series.
    swept: Duration,
}

/// The stored state of a series.
pub(super) struct Entry {
    pub(super) stream: Stream,
    /// Monotonic time at which its last point arrived.
    pub(super) seen: Duration,
    /// The state before a batch whose outcome is unknown.
    pub(super) before: Option<Box<Option<Stream>>>,
}

/// The state of a series for a new batch.
pub(super) enum Loaded {
    Known(Stream),
    /// A new series. It counts against the limit until [`Table::uncount_new`] is called.
    New,
    /// There is no room for it.
    Full,
}

impl Tenant {
    /// Returns a tenant without series.
    pub(super) fn new(budget: &MemoryBudget) -> Result<Self, OverBudget> {
        let memory = budget.reserve(TENANT_BYTES)?;
        let tables = (0..TABLES).map(|_| HashMap::new()).collect();
        Ok(Self(Mutex::new(Table { tables, series: 0, coming: 0, memory, swept: Duration::ZERO })))
    }

    pub(super) fn table(&self) -> MutexGuard<'_, Table> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Table {
    /// The number of kept series.
    pub(super) fn series(&self) -> u64 {
        self.series
    }

    /// Whether there are no series, neither kept ones nor new ones that are being stored.
    pub(super) fn is_empty(&self) -> bool {
        self.series + self.coming == 0
    }

    /// Returns the state that a point with this time is added to. `most` is the tenant's limit of series
    /// (0 for none), and `memory` pays for a new series.
    pub(super) fn load(
        &mut self,
        id: StreamId,
        time_ms: i64,
        (now, most): (Duration, u64),
        memory: &mut Reservation,
    ) -> Loaded {
        if let Some(entry) = self.table_of(id).get_mut(&id)
            && !entry.is_stale(now)
        {
            entry.seen = now; // keeps it from becoming stale while the batch is stored
            return entry.state_for(time_ms).cloned().map_or(Loaded::New, Loaded::Known).counted(self);
        }
        let is_full = |table: &Self| most > 0 && table.series + table.coming >= most;
        if is_full(self) && now.saturating_sub(self.swept) >= SWEEP_EVERY {
            self.forget_stale(now);
        }
        if is_full(self) || memory.grow(STREAM_BYTES).is_err() {
            return Loaded::Full;
        }
        Loaded::New.counted(self)
    }

    /// Uncounts `new` series that [`Loaded::New`] counted.
    pub(super) fn uncount_new(&mut self, new: u64) {
        self.coming = self.coming.saturating_sub(new);
    }

    /// Replaces the kept state of a series with `entry`, or removes it. Memory is reserved from `memory`,
    /// then from its budget; if both are short the series is forgotten.
    pub(super) fn put(&mut self, id: StreamId, entry: Option<Entry>, memory: &mut Reservation) {
        let old = self.table_of(id).remove(&id);
        self.series -= u64::from(old.is_some());
        let held = old.as_ref().map_or(0, Entry::bytes);
        let needed = entry.as_ref().map_or(0, Entry::bytes);
        if needed <= held {
            self.memory.shrink(held - needed);
        } else {
            let more = needed - held;
            let paid = memory.split(more);
            let missing = more - paid.bytes();
            self.memory.absorb(paid);
            if missing > 0 && self.memory.grow(missing).is_err() {
                self.memory.shrink(needed - missing);
                return;
            }
        }
        if let Some(entry) = entry {
            self.series += 1;
            self.table_of(id).insert(id, entry);
        }
    }

    /// Forgets series without a point for [`DELTA_STALE_AFTER`].
    pub(super) fn forget_stale(&mut self, now: Duration) {
        self.swept = now;
        let (mut series, mut bytes) = (0, 0);
        for table in &mut self.tables {
            table.retain(|_, entry| {
                let stale = entry.is_stale(now);
                if stale {
                    series += 1;
                    bytes += entry.bytes();
                }
                !stale
            });
            table.shrink_to(table.len() * 2);
        }
        self.series -= series;
        self.memory.shrink(bytes);
    }

    fn table_of(&mut self, id: StreamId) -> &mut HashMap<StreamId, Entry> {
        &mut self.tables[(id.0 >> 64) as usize % TABLES]
    }
}

impl Loaded {
    /// Counts the series if it is new.
    fn counted(self, table: &mut Table) -> Self {
        table.coming += u64::from(matches!(self, Self::New));
        self
    }
}

impl Entry {
    pub(super) fn bytes(&self) -> u64 {
        let before = self.before.as_ref().map_or(0, |before| {
            size_of::<Option<Stream>>() as u64 + before.as_ref().as_ref().map_or(0, |s| s.total.held_bytes())
        });
        STREAM_BYTES + self.stream.total.held_bytes() + before
    }

    fn is_stale(&self, now: Duration) -> bool {
        now.saturating_sub(self.seen) > DELTA_STALE_AFTER
    }

    /// Returns the state that a point is added to: the one before a batch of unknown outcome if the point
    /// may be part of that batch.
    fn state_for(&self, time_ms: i64) -> Option<&Stream> {
        match self.before.as_deref() {
            Some(before)
                if time_ms <= self.stream.last_ms
                    && before.as_ref().is_none_or(|before| time_ms > before.last_ms) =>
            {
                before.as_ref()
            }
            _ => Some(&self.stream),
        }
    }
}

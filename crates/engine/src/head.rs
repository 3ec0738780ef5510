//! The head: rows of both signals in memory. Queries see them at once; a flush turns them into blocks.
//!
//! A head holds the rows of consecutive WAL sequence numbers `[start, end)` of one incarnation: our own,
//! a dead one that we adopt, or a live one that we follow. One WAL carries both signals, so one head
//! holds both and one floor moves past both. Entries of logs stay in the batches that brought them
//! ([`LogHead`]); samples are appended to columns of their series ([`SampleHead`]).
//!
//! **Invariants.** There is one inserter at a time (under the view's lock) and any number of readers,
//! which hold no lock while they decode rows. A reader sees every row that was inserted before it
//! started. Memory is paid by the reservations that come with the batches.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use sandur_base::Id;
use sandur_memory::Reservation;
use sandur_model::{Batch, Dataset, Signal, TenantId, TimeRange};
use sandur_query::Holding;

use crate::head_totals::HeadTotals;
use crate::logs::head::{self as log_head, HeadBatch, LogHead};
use crate::samples::head::{self as sample_head, InsertedSamples, SampleHead};

/// Bytes of each series' samples that do not count towards a flush: sixteen samples. Below that, storing
/// a series once more (in another head, and in blocks that are merged) takes longer than reading it from
/// the WAL after a crash.
const SERIES_FREE_BYTES: u64 = 256;

/// Rows in memory of consecutive WAL sequence numbers of one incarnation.
pub struct Head {
    incarnation: Id,
    start: u64,
    end: AtomicU64,
    born: Duration,
    logs: LogHead,
    samples: Arc<SampleHead>,
}

/// A batch after its insertion into a head.
pub(crate) enum Inserted {
    /// Entries, shared with the head, for followers.
    Logs(Arc<HeadBatch>),
    /// Samples.
    Samples(InsertedSamples),
}

/// An upper bound of the memory in bytes that a batch takes until it is in a head, as if all of its
/// streams or series were new: the batch, and its encoded form for the WAL.
pub fn push_bytes(batch: &Batch) -> u64 {
    match batch {
        Batch::Logs(batch) => log_head::push_bytes(batch),
        Batch::Metrics(batch) => sample_head::push_bytes(batch),
    }
}

impl Head {
    /// An empty head whose first row will have the sequence number `start` or a later one. `born` is the
    /// monotonic time from which its age counts.
    pub fn new(incarnation: Id, start: u64, born: Duration) -> Self {
        let (logs, samples) = (LogHead::new(incarnation, start), SampleHead::new(incarnation, start));
        Self::of_parts((incarnation, start, born), logs, samples)
    }

    fn of_parts((incarnation, start, born): (Id, u64, Duration), logs: LogHead, samples: SampleHead) -> Self {
        let (end, samples) = (AtomicU64::new(start), Arc::new(samples));
        Self { incarnation, start, end, born, logs, samples }
    }

    /// The incarnation whose WAL holds the rows.
    pub fn incarnation(&self) -> Id {
        self.incarnation
    }

    /// The first sequence number that belongs to this head.
    pub fn start(&self) -> u64 {
        self.start
    }

    /// The sequence number after the last one that was inserted.
    pub fn end(&self) -> u64 {
        self.end.load(Ordering::Acquire)
    }

    /// Monotonic time of its creation.
    pub fn born(&self) -> Duration {
        self.born
    }

    /// The entries of logs.
    pub fn logs(&self) -> &LogHead {
        &self.logs
    }

    /// The samples.
    pub fn samples(&self) -> &Arc<SampleHead> {
        &self.samples
    }

    /// Sums of both signals.
    pub fn totals(&self) -> HeadTotals {
        let mut sum = self.logs.totals();
        sum.add(self.samples.totals());
        sum
    }

    /// Bytes of rows that count towards a flush. The first [`SERIES_FREE_BYTES`] of each series do not
    /// count: naming the series in another head and in another block's index costs as much as these samples.
    pub(crate) fn flush_bytes(&self) -> u64 {
        let free = self.samples.all_series() * SERIES_FREE_BYTES;
        self.logs.totals().raw_bytes + self.samples.totals().raw_bytes.saturating_sub(free)
    }

    /// Whether it holds no row.
    pub fn is_empty(&self) -> bool {
        self.totals().rows == 0
    }

    /// The tenants that have rows, sorted.
    pub fn tenants(&self) -> Vec<TenantId> {
        let tenants: BTreeSet<TenantId> =
            self.logs.tenants().into_iter().chain(self.samples.tenants()).collect();
        tenants.into_iter().collect()
    }

    /// Notes that all sequence numbers below `end` are inserted, including those without rows.
    pub(crate) fn advance(&self, end: u64) {
        self.end.fetch_max(end, Ordering::AcqRel);
    }

    /// Adds a batch of frame `sequence`, as if there were no earlier head.
    #[cfg(test)]
    pub(crate) fn insert(&self, sequence: u64, batch: Batch, memory: Reservation) -> Inserted {
        self.insert_after(sequence, batch, memory, &[])
    }

    /// Adds a batch of frame `sequence`, without the samples that earlier heads have. The caller ensures
    /// that inserts do not run concurrently. Memory that the reservation holds beyond the need is released.
    pub(crate) fn insert_after(
        &self,
        sequence: u64,
        batch: Batch,
        memory: Reservation,
        earlier: &[&Self],
    ) -> Inserted {
        let inserted = match batch {
            Batch::Logs(batch) => Inserted::Logs(self.logs.insert(sequence, batch, memory)),
            Batch::Metrics(batch) => {
                let earlier: Vec<&SampleHead> = earlier.iter().map(|head| &*head.samples).collect();
                Inserted::Samples(self.samples.insert_after(sequence, &batch, memory, &earlier))
            }
        };
        self.advance(sequence + 1);
        inserted
    }

    /// The part of this head from the sequence number `floor` on, as a separate head.
    pub(crate) fn since_floor(&self, floor: u64) -> Head {
        let (logs, samples) = (self.logs.since_floor(floor), self.samples.since_floor(floor));
        let rest = Self::of_parts((self.incarnation, floor, self.born), logs, samples);
        rest.advance(self.end());
        rest
    }

    /// The datasets with rows here, or with exemplars or metadata: logs by tenant, then samples.
    pub(crate) fn datasets(&self) -> Vec<Dataset> {
        let logs = self.logs.tenants().into_iter().map(Dataset::logs);
        logs.chain(self.samples.tenants().into_iter().map(Dataset::metrics)).collect()
    }

    /// This head without the rows of some datasets. The new head takes over the reservations of the
    /// remaining rows; this head is about to leave the view.
    pub(crate) fn without(&self, datasets: &BTreeSet<Dataset>) -> Head {
        let is_left =
            |signal| move |tenant: &TenantId| !datasets.contains(&Dataset { tenant: tenant.clone(), signal });
        let logs = self.logs.only(is_left(Signal::Logs));
        let samples = self.samples.only(is_left(Signal::Metrics));
        let rest = Self::of_parts((self.incarnation, self.start, self.born), logs, samples);
        rest.advance(self.end());
        rest
    }

    /// First and last timestamp of a dataset's rows, in nanoseconds; `None` without rows.
    pub fn bounds(&self, dataset: &Dataset) -> Option<(i64, i64)> {
        match dataset.signal {
            Signal::Logs => self.logs.bounds(&dataset.tenant),
            Signal::Metrics => self.samples.bounds(&dataset.tenant),
        }
    }

    /// The number of the dataset's rows.
    pub fn rows(&self, dataset: &Dataset) -> u64 {
        match dataset.signal {
            Signal::Logs => self.logs.rows_of(&dataset.tenant),
            Signal::Metrics => self.samples.rows_of(&dataset.tenant),
        }
    }

    /// What holds the dataset's rows in the range. The version of a holding changes with every new row.
    pub fn holdings(&self, dataset: &Dataset, range: TimeRange) -> Vec<Holding> {
        match dataset.signal {
            Signal::Logs => self.logs.holdings(&dataset.tenant, range),
            Signal::Metrics => self.samples.holdings(&dataset.tenant, range),
        }
    }
}

#[cfg(test)]
mod tests {
    use sandur_memory::MemoryBudget;
    use sandur_model::{Labels, SampleBatch};

    use super::*;

    #[test]
    fn the_first_samples_of_a_series_do_not_count_towards_a_flush() {
        let head = Head::new(Id(1), 0, Duration::ZERO);
        let add = |sequence: u64, series: u64, samples: i64| {
            let mut batch = SampleBatch::new(TenantId::default_tenant());
            for n in 0..series {
                let labels = Labels::from_pairs([("__name__", format!("m{n}"))]);
                let first = sequence as i64 * 1_000_000;
                batch.push(Arc::new(labels), (0..samples).map(|at| (first + at, at as f64)));
            }
            let batch = Batch::Metrics(batch);
            let memory = MemoryBudget::root("test", u64::MAX).reserve(push_bytes(&batch)).unwrap();
            head.insert(sequence, batch, memory);
            head.flush_bytes()
        };
        assert_eq!((add(1, 10, 16), add(2, 10, 4), head.totals().raw_bytes), (0, 640, 3_200));
    }
}

//! Batches of series in order, each read on demand, with later batches read ahead.
//!
//! **Life of a batch.** [`Walk`] finds its series. Batches are read in units: the first batch of a scan
//! is one unit, and the following batches for which there is room are the next unit. So a short scan
//! needs one round of reads, and the first batch is not delayed. The walk continues while a unit is
//! read, and units are read while batches are decoded, so that reads overlap. If reads do not wait for
//! the store, the walk advances one batch at a time, so that the next batch is ready soon.
//!
//! **Invariants.** The series and samples that are read ahead are bounded. If the budget refuses memory,
//! nothing is lost: [`Pipeline::give_back`] releases everything that was read ahead, and its batches are
//! read again one by one. After that less is read ahead.

use std::collections::VecDeque;
use std::sync::Arc;
use std::task::Poll;

use futures_util::FutureExt;
use futures_util::future::join;
use sandur_base::BoxFuture;
use sandur_query::{BATCH_SERIES, Error, QueryStats, SampleSelection};
use sandur_runtime::Task;

use super::fetch::{Fetched, Fetcher};
use super::stored::StoredSeries;
use super::walk::{Found, FoundBatch, Walk};
use crate::rules::Rules;

/// Series of the first batch: few, so that computing can start soon.
const FIRST_SERIES: usize = 128;
/// Number of samples from which a batch accepts no further series: 16 MiB of times and values.
const BATCH_ROWS: u64 = 1 << 20;
/// The most series that are read ahead.
const AHEAD_SERIES: usize = 4 * BATCH_SERIES;
/// The most stored bytes of samples that are read ahead.
const AHEAD_BYTES: u64 = 12 << 20;
/// Reading ahead takes at most this fraction of the budget.
const AHEAD_ONE_IN: u64 = 8;

/// An amount of series and samples.
#[derive(Clone, Copy, Debug, Default)]
struct Amount {
    series: usize,
    rows: u64,
}

impl Amount {
    fn of(batches: &[FoundBatch]) -> Self {
        let series = || batches.iter().flat_map(|batch| batch.iter());
        Self { series: series().count(), rows: series().map(Found::rows).sum() }
    }

    fn plus(self, other: Self) -> Self {
        Self { series: self.series + other.series, rows: self.rows + other.rows }
    }

    fn is_below(self, most: Self) -> bool {
        self.series < most.series && self.rows < most.rows
    }
}

/// Batches that are read together.
struct Unit {
    /// The batches that were not returned yet.
    batches: VecDeque<FoundBatch>,
    amount: Amount,
    bytes: Bytes,
}

/// The stored bytes of a unit.
enum Bytes {
    /// Not requested yet.
    Unread,
    /// Being read.
    Reading(Task<Result<Fetched, Error>>),
    /// Read.
    Read(Arc<Fetched>),
}

impl Unit {
    fn new(batches: Vec<FoundBatch>) -> Self {
        let amount = Amount::of(&batches);
        Self { batches: batches.into(), amount, bytes: Bytes::Unread }
    }

    async fn read(&mut self, reader: &PartsReader) -> Result<Arc<Fetched>, Error> {
        let fetched = match std::mem::replace(&mut self.bytes, Bytes::Unread) {
            Bytes::Unread => reader.fetch(self.batches.iter().cloned().collect()).await?,
            Bytes::Reading(task) => {
                task.join().await.map_err(|error| Error::Internal(error.to_string()))??
            }
            Bytes::Read(bytes) => {
                self.bytes = Bytes::Read(Arc::clone(&bytes));
                return Ok(bytes);
            }
        };
        let bytes = Arc::new(fetched);
        self.bytes = Bytes::Read(Arc::clone(&bytes));
        Ok(bytes)
    }

    /// Releases its bytes.
    async fn into_batches(self) -> VecDeque<FoundBatch> {
        if let Bytes::Reading(task) = self.bytes {
            task.abort();
            // The task releases its memory when it ends.
            let _ = task.join().await;
        }
        self.batches
    }
}

/// The walk, and the reads of the series that it found.
struct ReadAhead {
    reader: PartsReader,
    walk: Walk,
    units: VecDeque<Unit>,
    most: Amount,
}

impl ReadAhead {
    /// Returns the next unit. The first batch of a scan is not requested here, so that a scan with a
    /// single batch needs no task.
    async fn pop(&mut self) -> Result<Option<Unit>, Error> {
        if let Some(unit) = self.units.pop_front() {
            return Ok(Some(unit));
        }
        let found = self.walk.take(FIRST_SERIES, BATCH_ROWS).await?;
        Ok((!found.is_empty()).then(|| Unit::new(vec![Arc::new(found)])))
    }

    /// Begins to read what there is room for, at most `most` batches.
    async fn top_up(&mut self, most: usize) -> Result<(), Error> {
        let mut ahead = self.units.iter().fold(Amount::default(), |sum, unit| sum.plus(unit.amount));
        let (mut batches, mut walked) = (Vec::new(), Ok(()));
        while batches.len() < most && ahead.is_below(self.most) && !self.walk.is_over() {
            match self.walk.take(BATCH_SERIES, BATCH_ROWS).await {
                Ok(found) => {
                    let batch = [Arc::new(found)];
                    ahead = ahead.plus(Amount::of(&batch));
                    batches.extend(batch);
                }
                Err(error) => {
                    walked = Err(error);
                    break;
                }
            }
        }
        batches.retain(|batch: &FoundBatch| !batch.is_empty());
        if !batches.is_empty() {
            let mut unit = Unit::new(batches.clone());
            unit.bytes = self.begin_to_read(batches);
            self.units.push_back(unit);
        }
        match walked {
            // It is tried again when less is read ahead.
            Err(Error::OverBudget(_)) => Ok(()),
            walked => walked,
        }
    }

    /// Begins to read batches. If they are in memory, they are read at once without a task. If that
    /// fails, they are read when they are needed.
    fn begin_to_read(&self, batches: Vec<FoundBatch>) -> Bytes {
        let reader = self.reader.clone();
        let mut fetch: BoxFuture<'static, _> = Box::pin(async move { reader.fetch(batches).await });
        match fetch.as_mut().now_or_never() {
            Some(Ok(fetched)) => Bytes::Read(Arc::new(fetched)),
            Some(Err(_)) => Bytes::Unread,
            None => Bytes::Reading(self.reader.fetcher.context.env().spawn("read samples", fetch)),
        }
    }
}

/// Reads the batches of a scan. Cheap to clone.
#[derive(Clone)]
pub(super) struct PartsReader {
    pub(super) fetcher: Fetcher,
    pub(super) selection: Arc<SampleSelection>,
    pub(super) rules: Rules,
}

impl PartsReader {
    /// Reads the stored bytes of batches.
    pub(super) async fn fetch(&self, batches: Vec<FoundBatch>) -> Result<Fetched, Error> {
        self.fetcher.clone().fetch(batches).await
    }

    /// Makes a stored batch of what was read.
    pub(super) fn stored(&self, found: FoundBatch, fetched: Arc<Fetched>) -> StoredSeries {
        QueryStats::add(&self.fetcher.context.stats().streams, found.len() as u64);
        StoredSeries {
            context: self.fetcher.context.clone(),
            holders: Arc::clone(&self.fetcher.holders),
            selection: Arc::clone(&self.selection),
            rules: self.rules.clone(),
            found,
            fetched,
        }
    }
}

/// Batches in order.
pub(super) struct Pipeline {
    ahead: ReadAhead,
    /// The unit whose batches are being returned.
    current: Option<Unit>,
    /// Batches that were put back or whose bytes were released.
    again: VecDeque<FoundBatch>,
    /// Whether a read had to wait for the store.
    is_slow: bool,
}

impl Pipeline {
    pub(super) fn new(reader: PartsReader, walk: Walk) -> Self {
        let bytes = AHEAD_BYTES.min(reader.fetcher.context.budget().capacity() / AHEAD_ONE_IN);
        let most = Amount { series: AHEAD_SERIES, rows: reader.fetcher.rows_of(bytes) };
        let ahead = ReadAhead { reader, walk, units: VecDeque::new(), most };
        Self { ahead, current: None, again: VecDeque::new(), is_slow: false }
    }

    /// Whether there is no further batch.
    pub(super) fn is_over(&mut self) -> bool {
        let current = self.current.as_ref().is_none_or(|unit| unit.batches.is_empty());
        current && self.again.is_empty() && self.ahead.units.is_empty() && self.ahead.walk.is_over()
    }

    /// Returns the next batch; `None` after the last one. If there is no memory for it, it is not lost.
    pub(super) async fn next(&mut self) -> Result<Option<StoredSeries>, Error> {
        if let Some(batch) = self.again.front().cloned() {
            let bytes = Unit::new(vec![Arc::clone(&batch)]).read(&self.ahead.reader).await?;
            self.again.pop_front();
            return Ok(Some(self.ahead.reader.stored(batch, bytes)));
        }
        let unit = match self.current.take() {
            Some(unit) if !unit.batches.is_empty() => unit,
            _ => match self.ahead.pop().await? {
                Some(unit) => unit,
                None => return Ok(None),
            },
        };
        let unit = self.current.insert(unit);
        let reader = self.ahead.reader.clone();
        let is_asked_for = !matches!(unit.bytes, Bytes::Unread);
        let bytes = {
            let mut reading = std::pin::pin!(unit.read(&reader));
            match futures_util::poll!(reading.as_mut()) {
                Poll::Ready(bytes) => bytes?,
                Poll::Pending if is_asked_for => reading.await?,
                // The read waits for the store. Continue the walk meanwhile.
                Poll::Pending => {
                    self.is_slow = true;
                    let (bytes, topped_up) = join(reading, self.ahead.top_up(usize::MAX)).await;
                    topped_up?;
                    bytes?
                }
            }
        };
        Ok(unit.batches.pop_front().map(|batch| reader.stored(batch, bytes)))
    }

    /// Begins to read what follows the returned batches.
    pub(super) async fn read_ahead(&mut self) -> Result<(), Error> {
        self.ahead.top_up(if self.is_slow { usize::MAX } else { 1 }).await
    }

    /// Puts back a batch that was not used, to be returned again.
    pub(super) fn put_back(&mut self, batch: FoundBatch) {
        self.again.push_front(batch);
    }

    /// Releases the memory of batches that were not returned yet.
    pub(super) async fn give_back(&mut self) {
        let units = self.current.take().into_iter().chain(std::mem::take(&mut self.ahead.units));
        for unit in units {
            self.again.extend(unit.into_batches().await);
        }
        let Amount { series, rows } = self.ahead.most;
        self.ahead.most = Amount { series: series / 2, rows: rows / 2 };
    }
}

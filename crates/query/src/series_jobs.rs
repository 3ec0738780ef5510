//! Processes the series of a scan in jobs of the CPU pool, several at a time, and returns the results in
//! the order of the series.
//!
//! **Life of a piece.** What the scan returns is split into pieces. Memory for the samples of a piece is
//! reserved, then a job decodes and processes them. The number of jobs in flight is the parallelism of
//! the pool plus one, so that no thread idles; it is lower when the query may not run that many. A small
//! piece is processed in the calling thread, which is faster than a job. No job waits for another one,
//! so there is no deadlock.
//!
//! **Invariants.** Results are in the order of the series, whatever is in flight. Jobs in addition to
//! the first use at most a part of the budget. A refusal of memory fails the query only when nothing
//! else is in flight, nothing is prefetched and the piece has one series; otherwise the pieces are processed
//! again, one at a time and if necessary with half as many series.
//! Dropping the jobs stops those that run.

use std::collections::VecDeque;
use std::ops::Range;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use sandur_base::BoxFuture;
use sandur_memory::Reservation;

use crate::context::QueryContext;
use crate::error::Error;
use crate::series_batch::{SampleScan, SeriesBatch, SeriesPart};
use crate::stats::QueryStats;

/// Pieces per thread of what a scan returns, so that no thread waits long for the last one. More pieces
/// would cause too many thread switches.
const PIECES_PER_THREAD: usize = 2;
/// Series of a piece, unless they use many bytes; smaller pieces would cause too many thread switches.
const PIECE_SERIES: usize = 128;
/// Bytes of a piece with fewer series.
const PIECE_BYTES: u64 = 2 << 20;
/// If a part of the scan has at most this many bytes and series, the calling thread processes it, which
/// takes up to 0.3 ms and is faster than a job. Larger parts are split into at least one piece per
/// thread.
const LITTLE_BYTES: u64 = 2 << 20;
const LITTLE_SERIES: usize = 64;
/// Jobs in addition to the first may be in flight while all jobs together use at most the budget divided
/// by this number.
const SHARE_ONE_IN: u64 = 4;

/// Processes series; runs on the CPU pool, several batches at a time.
pub trait SeriesWork: Send + Sync + 'static {
    /// The result for one batch of series.
    type Output: Send + 'static;

    /// The most series to process in one job.
    fn series_max(&self) -> usize;

    /// Estimates the bytes that processing a number of series reserves besides their samples.
    fn memory_bytes(&self, series: usize) -> u64;

    /// Processes some series. Reserves memory for the result, and reports its work to
    /// [`sandur_memory::job`]. It is called again for the same series if there was not enough memory.
    fn run(&self, batch: SeriesBatch) -> Result<Self::Output, Error>;
}

/// Some series of a part of the scan.
#[derive(Clone)]
struct Piece {
    part: Arc<dyn SeriesPart>,
    some: Range<usize>,
    /// Whether the calling thread processes it.
    is_little: bool,
}

enum State<T> {
    Running(BoxFuture<'static, Result<T, Error>>),
    Done(Result<T, Error>),
}

/// A piece whose processing has begun.
struct Job<T> {
    piece: Piece,
    bytes: u64,
    state: State<T>,
}

impl<T> Job<T> {
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if let State::Running(future) = &mut self.state {
            match Pin::new(future).poll(cx) {
                Poll::Ready(outcome) => self.state = State::Done(outcome),
                Poll::Pending => return Poll::Pending,
            }
        }
        Poll::Ready(())
    }
}

/// Processes the series of a scan.
pub struct SeriesJobs<W: SeriesWork> {
    context: QueryContext,
    scan: Box<dyn SampleScan>,
    work: Arc<W>,
    /// Pieces that were not begun, or must be repeated.
    waiting: VecDeque<Piece>,
    /// Pieces in flight, in their order.
    in_flight: VecDeque<Job<W::Output>>,
    width: usize,
    /// The most series of a piece. Halved when a piece that is alone does not fit in the memory.
    series_max: usize,
    /// Whether nothing was in flight or prefetched when the first piece was begun.
    is_alone: bool,
    /// Whether the scan has returned everything.
    is_read: bool,
}

impl<W: SeriesWork> SeriesJobs<W> {
    /// Prepares to process the series of a scan with `work`.
    pub fn new(context: &QueryContext, scan: Box<dyn SampleScan>, work: Arc<W>) -> Self {
        let width = (context.env().cpu().parallelism() + 1).min(context.parallelism()).max(1);
        Self {
            context: context.clone(),
            scan,
            work,
            waiting: VecDeque::new(),
            in_flight: VecDeque::new(),
            width,
            series_max: usize::MAX,
            is_alone: false,
            is_read: false,
        }
    }

    /// Whether it is known that no results follow.
    pub fn is_over(&self) -> bool {
        self.is_read && self.waiting.is_empty() && self.in_flight.is_empty()
    }

    /// The result of the next series; `None` after the last.
    pub async fn next(&mut self) -> Result<Option<W::Output>, Error> {
        loop {
            self.fill().await?;
            let first = std::future::poll_fn(|cx| self.poll_first(cx)).await;
            let Some((piece, outcome)) = first else {
                if self.is_over() {
                    return Ok(None);
                }
                continue;
            };
            match outcome {
                Err(Error::OverBudget(_)) if !self.is_alone => {
                    let after = self.end_all().await;
                    self.alone(std::iter::once(piece).chain(after)).await;
                }
                Err(error @ Error::OverBudget(_)) => {
                    self.waiting.push_front(piece);
                    self.halve_first(error)?;
                }
                outcome => {
                    self.is_alone = false;
                    return outcome.map(Some);
                }
            }
        }
    }

    /// Begins as many pieces as may be in flight.
    async fn fill(&mut self) -> Result<(), Error> {
        while self.in_flight.len() < self.width {
            self.context.check()?;
            let begun = match self.waiting.pop_front() {
                Some(piece) => {
                    let piece = self.shortened(piece);
                    self.begin(piece)
                }
                None if self.is_read => break,
                None => self.read().await,
            };
            match begun {
                // The first poll queues the job in the pool: it runs while the next series are read.
                Ok(true) => std::future::poll_fn(|cx| self.poll_newest(cx)).await,
                Ok(false) => break,
                // Pieces in flight release their memory first.
                Err(Error::OverBudget(_)) if !self.in_flight.is_empty() => break,
                Err(Error::OverBudget(_)) if !self.is_alone => self.alone([]).await,
                Err(error) => self.halve_first(error)?,
            }
        }
        Ok(())
    }

    /// Reads the next part of the scan.
    async fn read(&mut self) -> Result<bool, Error> {
        let part = self.scan.next_part().await?;
        // The scan may prefetch from now on.
        self.is_alone = false;
        self.is_read = part.is_none() || self.scan.is_over();
        if let Some(part) = part {
            self.cut(part);
        }
        Ok(true)
    }

    /// Splits a part of the scan into pieces.
    fn cut(&mut self, part: Arc<dyn SeriesPart>) {
        let series = part.series();
        let bytes = part.memory_bytes(&(0..series));
        // Memory that is independent of the number of series does not indicate work.
        let of_work = self.work.memory_bytes(series).saturating_sub(self.work.memory_bytes(0));
        let is_little = is_little(series, bytes.saturating_add(of_work));
        let threads = self.context.env().cpu().parallelism().min(self.context.parallelism());
        let pieces = if is_little { 1 } else { pieces_of(series, bytes, threads) };
        let step = series.div_ceil(pieces).clamp(1, self.work.series_max().max(1));
        let is_little = is_little && step >= series;
        let piece = |from| Piece { part: Arc::clone(&part), some: from..series.min(from + step), is_little };
        self.waiting.extend((0..series).step_by(step).map(piece));
    }

    /// Makes the first waiting piece, which was refused memory while it was alone, and all later ones half as
    /// long. Returns the error if it was another one, or the piece has one series.
    fn halve_first(&mut self, error: Error) -> Result<(), Error> {
        match (&error, self.waiting.front()) {
            (Error::OverBudget(_), Some(piece)) if piece.some.len() > 1 => {
                self.series_max = piece.some.len() / 2;
                Ok(())
            }
            _ => Err(error),
        }
    }

    /// The first series of a piece, as many as a piece may have. The others wait.
    fn shortened(&mut self, piece: Piece) -> Piece {
        let Range { start, end } = piece.some;
        let cut = start.saturating_add(self.series_max).min(end);
        if cut < end {
            self.waiting.push_front(Piece { some: cut..end, ..piece.clone() });
        }
        Piece { some: start..cut, ..piece }
    }

    /// Begins to process a piece if it may be in flight together with the others; returns whether it
    /// did.
    fn begin(&mut self, piece: Piece) -> Result<bool, Error> {
        let (series, samples) = (piece.some.len(), piece.part.memory_bytes(&piece.some));
        let bytes = samples + self.work.memory_bytes(series);
        let taken: u64 = self.in_flight.iter().map(|job| job.bytes).sum();
        let share = self.context.budget().capacity() / SHARE_ONE_IN;
        if !self.in_flight.is_empty() && taken.saturating_add(bytes) > share {
            self.waiting.push_front(piece);
            return Ok(false);
        }
        let memory = match self.context.budget().reserve(samples) {
            Ok(memory) => memory,
            Err(refusal) => {
                self.waiting.push_front(piece);
                return Err(refusal.into());
            }
        };
        let is_little = piece.is_little;
        let job = job(&self.context, Arc::clone(&self.work), piece.clone(), memory);
        let state = match is_little {
            true => State::Done(self.context.compute_here(job)),
            false => State::Running(on_the_pool(self.context.clone(), job)),
        };
        self.in_flight.push_back(Job { piece, bytes, state });
        Ok(true)
    }

    fn poll_newest(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if let Some(job) = self.in_flight.back_mut() {
            _ = job.poll(cx); // `poll_first` polls it again
        }
        Poll::Ready(())
    }

    /// The first piece in flight, once it is done; `None` when there is none. Polls all pieces, which
    /// queues them in the pool.
    fn poll_first(&mut self, cx: &mut Context<'_>) -> Poll<Option<(Piece, Result<W::Output, Error>)>> {
        let mut is_done = true;
        for (n, job) in self.in_flight.iter_mut().enumerate() {
            let polled = job.poll(cx);
            is_done &= n > 0 || polled.is_ready();
        }
        if !is_done {
            return Poll::Pending;
        }
        Poll::Ready(self.in_flight.pop_front().map(|Job { piece, state, .. }| match state {
            State::Done(outcome) => (piece, outcome),
            State::Running(_) => (piece, Err(Error::Internal("a job ended without an outcome".to_owned()))),
        }))
    }

    /// Waits until nothing is in flight; returns the pieces that were.
    async fn end_all(&mut self) -> Vec<Piece> {
        let mut pieces = Vec::with_capacity(self.in_flight.len());
        while let Some((piece, _)) = std::future::poll_fn(|cx| self.poll_first(cx)).await {
            pieces.push(piece);
        }
        pieces
    }

    /// Handles a shortage of memory: from now on one piece is in flight at a time, beginning with
    /// `again`. Drops prefetched data.
    async fn alone(&mut self, again: impl IntoIterator<Item = Piece>) {
        (self.width, self.is_alone) = (1, true);
        let mut waiting: VecDeque<Piece> = again.into_iter().collect();
        waiting.append(&mut self.waiting);
        self.waiting = waiting;
        self.scan.give_back().await;
    }
}

/// Whether the calling thread processes series faster than a job.
fn is_little(series: usize, bytes: u64) -> bool {
    bytes <= LITTLE_BYTES && series <= LITTLE_SERIES
}

/// The number of pieces into which series are split: at least one for each thread, so that no thread
/// idles.
fn pieces_of(series: usize, bytes: u64, threads: usize) -> usize {
    if threads <= 1 {
        return 1;
    }
    let wanted = (series / PIECE_SERIES).max((bytes / PIECE_BYTES) as usize);
    wanted.clamp(threads, threads * PIECES_PER_THREAD)
}

/// Decodes the samples of a piece and works on them.
fn job<W: SeriesWork>(
    context: &QueryContext,
    work: Arc<W>,
    Piece { part, some, .. }: Piece,
    memory: Reservation,
) -> impl FnOnce() -> Result<W::Output, Error> + Send + use<W> {
    let context = context.clone();
    move || {
        let began = context.env().monotonic();
        let outcome = part.decode(some).and_then(|batch| work.run(batch));
        let took = context.env().monotonic().saturating_sub(began);
        QueryStats::add_time(&context.stats().execution_ns, took);
        drop(memory);
        outcome
    }
}

/// Runs a job on the CPU pool, within the query's limit of parallel jobs.
fn on_the_pool<T: Send + 'static>(
    context: QueryContext,
    job: impl FnOnce() -> Result<T, Error> + Send + 'static,
) -> BoxFuture<'static, Result<T, Error>> {
    Box::pin(async move {
        let worker = context.worker().await;
        context
            .compute(move || {
                let outcome = job();
                drop(worker);
                outcome
            })
            .await
    })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use sandur_memory::MemoryBudget;
    use sandur_model::TenantId;
    use sandur_runtime::Env;

    use super::*;
    use crate::batch_texts::BatchTexts;

    /// Bytes of a decoded series.
    const SERIES_BYTES: u64 = 1_000;

    /// The series of a scan with these numbers.
    struct Part(Range<usize>);

    impl SeriesPart for Part {
        fn series(&self) -> usize {
            self.0.len()
        }

        fn memory_bytes(&self, some: &Range<usize>) -> u64 {
            some.len() as u64 * SERIES_BYTES
        }

        fn decode(&self, some: Range<usize>) -> Result<SeriesBatch, Error> {
            let labels = some.map(|n| Box::from([((self.0.start + n) as u32, 0)])).collect();
            let dictionary = BatchTexts::default().finish();
            Ok(SeriesBatch { dictionary, labels, samples: Vec::new(), held: None })
        }
    }

    /// A scan of some parts with 100 series each.
    struct Parts(usize);

    impl SampleScan for Parts {
        fn next(&mut self) -> BoxFuture<'_, Result<Option<SeriesBatch>, Error>> {
            unreachable!("jobs take parts")
        }

        fn next_part(&mut self) -> BoxFuture<'_, Result<Option<Arc<dyn SeriesPart>>, Error>> {
            let part = self.0.checked_sub(1).map(|rest| {
                self.0 = rest;
                Arc::new(Part(rest * 100..rest * 100 + 100)) as Arc<dyn SeriesPart>
            });
            Box::pin(std::future::ready(Ok(part)))
        }
    }

    /// Keeps the number of each series, and needs `more` bytes for each.
    struct Numbers {
        more: u64,
    }

    impl SeriesWork for Numbers {
        type Output = Vec<u32>;

        fn series_max(&self) -> usize {
            64
        }

        fn memory_bytes(&self, series: usize) -> u64 {
            series as u64 * self.more
        }

        fn run(&self, batch: SeriesBatch) -> Result<Vec<u32>, Error> {
            let _held = sandur_memory::job::reserve_exactly(batch.labels.len() as u64 * self.more)?;
            Ok(batch.labels.iter().map(|labels| labels[0].0).collect())
        }
    }

    #[tokio::test]
    async fn pieces_are_halved_until_they_fit_and_one_series_that_does_not_fails() {
        let env = Env::simulated(1, 0);
        let expected: Vec<u32> = (0..3).rev().flat_map(|part| part * 100..part * 100 + 100).collect();
        for (bytes, more, fits) in [
            (1 << 20, 0, true),
            (10_000, 0, true),
            (10_000, 4_000, true),
            (1_000, 0, true),
            (999, 0, false),
            (4_999, 4_000, false),
        ] {
            let budget = MemoryBudget::root("query", bytes);
            let tenant = TenantId::default_tenant();
            let context = QueryContext::new(env.clone(), tenant, budget.clone(), Duration::from_secs(60));
            let mut jobs = SeriesJobs::new(&context, Box::new(Parts(3)), Arc::new(Numbers { more }));
            let mut found = Vec::new();
            let outcome = loop {
                match jobs.next().await {
                    Ok(Some(some)) => found.extend(some),
                    Ok(None) => break Ok(()),
                    Err(error) => break Err(error),
                }
            };
            match outcome {
                Ok(()) => assert!(fits && found == expected, "{bytes} bytes, {more} more: {found:?}"),
                Err(error) => {
                    assert!(!fits && matches!(error, Error::OverBudget(_)), "{bytes} bytes: {error}")
                }
            }
            drop(jobs);
            assert_eq!(budget.used(), 0, "memory is released");
        }
    }

    #[test]
    fn large_parts_are_split_into_at_least_one_piece_per_thread() {
        const MIB: u64 = 1 << 20;
        assert!(is_little(64, 2 * MIB) && !is_little(65, 0) && !is_little(1, 2 * MIB + 1));
        assert_eq!(pieces_of(40, 3 * MIB, 2), 2, "a dashboard panel with forty targets");
        assert_eq!(pieces_of(512, 3 * MIB, 2), 4);
        assert_eq!(pieces_of(512, 3 * MIB, 8), 8);
        assert_eq!(pieces_of(10, 100 * MIB, 2), 4);
        assert_eq!(pieces_of(100_000, 100 * MIB, 1), 1, "a query that may run one job at a time");
        assert_eq!(pieces_of(usize::MAX, u64::MAX, 2), 4);
    }
}

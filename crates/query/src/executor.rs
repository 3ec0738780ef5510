//! Executes a scan: pulls its items, processes them on the CPU pool, and collects the results.
//!
//! The number of items in flight is the parallelism of the pool plus one, so that no thread idles. It is
//! lower when all scans of the query together would exceed `max_query_parallelism`, or when the budget
//! is exhausted: the memory of an item is reserved before it is decoded and released when its work is
//! done. Results are collected in the order of the items or in the order of their completion.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use sandur_base::BoxFuture;
use sandur_memory::Reservation;

use crate::context::QueryContext;
use crate::error::Error;
use crate::source::{Scan, ScanItem};
use crate::stats::QueryStats;

/// Processes the items of a scan; runs on the CPU pool, several items at a time.
pub trait Work: Send + Sync + 'static {
    /// The result for one item.
    type Output: Send + 'static;

    /// Processes an item; `number` counts the items of the scan. Reports its work to
    /// [`sandur_memory::job`].
    fn run(&self, number: u32, item: ScanItem) -> Result<Self::Output, Error>;
}

/// Whether to process an item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Want {
    /// Process it.
    Take,
    /// Skip it.
    Skip,
    /// Skip it and all later items.
    Stop,
}

/// Collects the results; runs in the caller's task.
pub trait Collect<T>: Send {
    /// Whether the item can affect the result. Called before its processing begins, after all results so
    /// far were collected.
    fn want(&mut self, _item: &ScanItem) -> Want {
        Want::Take
    }

    /// Adds one result.
    fn collect(&mut self, output: T) -> Result<(), Error>;
}

/// The order in which results are collected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Merging {
    /// The order of the items.
    Ordered,
    /// The order of their completion.
    Unordered,
}

/// This fraction of the budget stays available when an item is begun beside others: their results take
/// memory, too.
const RESULTS_ONE_IN: u64 = 8;

/// Runs a scan to its end, or until the collector stops it.
pub async fn execute<W: Work>(
    context: &QueryContext,
    mut scan: Box<dyn Scan>,
    work: Arc<W>,
    collector: &mut dyn Collect<W::Output>,
    merging: Merging,
) -> Result<(), Error> {
    let mut in_flight = InFlight { jobs: VecDeque::new(), merging };
    let width = (context.env().cpu().parallelism() + 1).min(context.parallelism());
    let mut number = 0u32;
    loop {
        context.check()?;
        if in_flight.jobs.len() >= width {
            take_one(&mut in_flight, collector).await?;
            continue;
        }
        let item = match scan.next().await {
            Ok(Some(item)) => item,
            Ok(None) => break,
            // The jobs in flight release memory, and the scan continues then.
            Err(Error::OverBudget(_)) if !in_flight.jobs.is_empty() => {
                take_one(&mut in_flight, collector).await?;
                continue;
            }
            Err(error) => return Err(error),
        };
        match collector.want(&item) {
            Want::Take => {}
            Want::Skip => continue,
            Want::Stop => break,
        }
        let Some((item, reservation)) = admit(context, item, &mut in_flight, collector).await? else {
            continue;
        };
        in_flight.jobs.push_back(Job::Running(start(context, Arc::clone(&work), number, item, reservation)));
        number += 1;
        QueryStats::add(&context.stats().shards, 1);
        // The first poll queues the job in the pool: it runs while the next item is fetched.
        std::future::poll_fn(|cx| in_flight.poll_newest(cx)).await;
    }
    while !in_flight.jobs.is_empty() {
        context.check()?;
        take_one(&mut in_flight, collector).await?;
    }
    Ok(())
}

/// Reserves the memory of an item. If the budget refuses, or would have too little left for the results of
/// the items in flight, waits for these to release theirs. `None` when the results collected meanwhile made
/// the item unnecessary.
async fn admit<T>(
    context: &QueryContext,
    item: ScanItem,
    in_flight: &mut InFlight<'_, T>,
    collector: &mut dyn Collect<T>,
) -> Result<Option<(ScanItem, Reservation)>, Error> {
    let (bytes, budget) = (item.memory_bytes(), context.budget());
    loop {
        let must_leave = if in_flight.jobs.is_empty() { 0 } else { budget.capacity() / RESULTS_ONE_IN };
        let has_room = must_leave == 0 || budget.available().saturating_sub(bytes) >= must_leave;
        match budget.reserve(bytes) {
            Ok(reservation) if has_room => return Ok(Some((item, reservation))),
            Err(refusal) if in_flight.jobs.is_empty() => return Err(refusal.into()),
            _ => take_one(in_flight, collector).await?,
        }
        if collector.want(&item) != Want::Take {
            return Ok(None);
        }
    }
}

fn start<W: Work>(
    context: &QueryContext,
    work: Arc<W>,
    number: u32,
    item: ScanItem,
    reservation: Reservation,
) -> BoxFuture<'static, Result<W::Output, Error>> {
    let context = context.clone();
    Box::pin(async move {
        let worker = context.worker().await;
        let inner = context.clone();
        let job = move || {
            let held = (reservation, worker);
            let began = inner.env().monotonic();
            let output = work.run(number, item);
            let took = inner.env().monotonic().saturating_sub(began);
            QueryStats::add_time(&inner.stats().execution_ns, took);
            drop(held);
            output
        };
        context.compute(job).await
    })
}

async fn take_one<T>(in_flight: &mut InFlight<'_, T>, collector: &mut dyn Collect<T>) -> Result<(), Error> {
    let next = std::future::poll_fn(|cx| in_flight.poll_next(cx)).await;
    match next {
        Some(output) => collector.collect(output?),
        None => Ok(()),
    }
}

enum Job<'a, T> {
    Running(BoxFuture<'a, Result<T, Error>>),
    Done(Result<T, Error>),
}

impl<T> Job<'_, T> {
    fn poll(&mut self, cx: &mut Context<'_>) {
        if let Self::Running(future) = self
            && let Poll::Ready(output) = Pin::new(future).poll(cx)
        {
            *self = Self::Done(output);
        }
    }
}

struct InFlight<'a, T> {
    jobs: VecDeque<Job<'a, T>>,
    merging: Merging,
}

// There are few jobs (processors + 1), so polling all of them is cheaper than a list of ready ones.
impl<T> InFlight<'_, T> {
    fn poll_newest(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if let Some(job) = self.jobs.back_mut() {
            job.poll(cx);
        }
        Poll::Ready(())
    }

    fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<T, Error>>> {
        let mut ready = None;
        for (n, job) in self.jobs.iter_mut().enumerate() {
            job.poll(cx);
            let counts = n == 0 || self.merging == Merging::Unordered;
            if ready.is_none() && counts && matches!(job, Job::Done(_)) {
                ready = Some(n);
            }
        }
        if self.jobs.is_empty() {
            return Poll::Ready(None);
        }
        match ready.and_then(|n| self.jobs.remove(n)) {
            Some(Job::Done(output)) => Poll::Ready(Some(output)),
            _ => Poll::Pending,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::PageTask;
    use sandur_memory::MemoryBudget;
    use sandur_model::{LineAutomaton, LineColumn, LogPage, TenantId};
    use sandur_runtime::Env;
    use std::sync::atomic::{AtomicU64, Ordering};
    use std::time::Duration;

    struct Pages {
        left: VecDeque<(i64, u64)>,
        asked: Arc<AtomicU64>,
    }

    struct Page {
        last: i64,
        bytes: u64,
    }

    impl Scan for Pages {
        fn next(&mut self) -> BoxFuture<'_, Result<Option<ScanItem>, Error>> {
            self.asked.fetch_add(1, Ordering::Relaxed);
            let page = self.left.pop_front().map(|(last, bytes)| Page { last, bytes });
            Box::pin(async { Ok(page.map(|page| ScanItem::Page(Box::new(page)))) })
        }
    }

    impl PageTask for Page {
        fn bounds(&self) -> (i64, i64) {
            (self.last, self.last)
        }
        fn memory_bytes(&self) -> u64 {
            self.bytes
        }
        fn narrow(&mut self) -> Result<LogPage, Error> {
            Ok(LogPage { timestamps: vec![self.last], ..LogPage::default() })
        }
        fn lines(&mut self) -> Result<LineColumn, Error> {
            Ok(LineColumn::default())
        }
        fn retain(&mut self, _: &LineAutomaton, _: bool, _: &mut [bool]) -> Result<bool, Error> {
            Ok(false)
        }
        fn lines_of(&mut self, _: &[bool]) -> Result<LineColumn, Error> {
            self.lines()
        }
    }

    struct Stamp;
    impl Work for Stamp {
        type Output = (u32, i64);
        fn run(&self, number: u32, item: ScanItem) -> Result<Self::Output, Error> {
            match item {
                ScanItem::Page(mut page) => Ok((number, page.narrow()?.timestamps[0])),
                ScanItem::Counts(_) => Err(Error::Internal("no counts here".to_owned())),
            }
        }
    }

    #[derive(Default)]
    struct Seen {
        stamps: Vec<i64>,
        stop_below: i64,
    }
    impl Collect<(u32, i64)> for Seen {
        fn want(&mut self, item: &ScanItem) -> Want {
            match item {
                ScanItem::Page(page) if page.bounds().1 < self.stop_below => Want::Stop,
                _ => Want::Take,
            }
        }
        fn collect(&mut self, output: (u32, i64)) -> Result<(), Error> {
            self.stamps.push(output.1);
            Ok(())
        }
    }

    fn run(env: Env, pages: &[(i64, u64)], limit: u64, mut seen: Seen) -> (Result<(), Error>, Seen, u64) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        let asked = Arc::new(AtomicU64::new(0));
        let scan = Box::new(Pages { left: pages.to_vec().into(), asked: Arc::clone(&asked) });
        let budget = MemoryBudget::root("query", limit);
        let tenant = TenantId::default_tenant();
        let result = runtime.block_on(async {
            let context = QueryContext::new(env, tenant, budget.clone(), Duration::from_secs(3_600));
            execute(&context, scan, Arc::new(Stamp), &mut seen, Merging::Ordered).await
        });
        assert_eq!(budget.used(), 0, "all memory was released");
        (result, seen, asked.load(Ordering::Relaxed))
    }

    #[test]
    fn results_keep_the_order_of_the_items() {
        let pages: Vec<(i64, u64)> = (0..100).rev().map(|t| (t, 10)).collect();
        let (result, seen, _) = run(Env::system(4), &pages, 1000, Seen::default());
        result.unwrap();
        assert_eq!(seen.stamps, (0..100).rev().collect::<Vec<_>>());
    }

    #[test]
    fn a_small_budget_does_not_change_the_result() {
        let pages: Vec<(i64, u64)> = (0..20).map(|t| (t, 60)).collect();
        let (result, seen, _) = run(Env::system(4), &pages, 100, Seen::default());
        result.unwrap();
        assert_eq!(seen.stamps.len(), 20);
    }

    #[test]
    fn an_item_that_exceeds_the_budget_is_an_error() {
        let (result, ..) = run(Env::system(2), &[(1, 10), (2, 101)], 100, Seen::default());
        assert!(matches!(result, Err(Error::OverBudget(refusal)) if refusal.asked == 101));
    }

    /// A scan that needs memory for its next item, which items in flight hold.
    struct Starved {
        pages: Pages,
        budget: MemoryBudget,
    }

    impl Scan for Starved {
        fn next(&mut self) -> BoxFuture<'_, Result<Option<ScanItem>, Error>> {
            match self.budget.reserve(60) {
                Ok(_) => self.pages.next(),
                Err(refusal) => Box::pin(async { Err(refusal.into()) }),
            }
        }
    }

    #[test]
    fn a_scan_that_is_refused_memory_continues_when_items_in_flight_release_theirs() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        let budget = MemoryBudget::root("query", 100);
        let found = runtime.block_on(async {
            let pages = Pages { left: (0..20).map(|t| (t, 60)).collect(), asked: Arc::default() };
            let scan = Box::new(Starved { pages, budget: budget.clone() });
            let tenant = TenantId::default_tenant();
            let context = QueryContext::new(Env::system(4), tenant, budget.clone(), Duration::from_secs(60));
            let mut seen = Seen::default();
            execute(&context, scan, Arc::new(Stamp), &mut seen, Merging::Ordered).await.unwrap();
            let held = budget.reserve(90).unwrap();
            let pages = Pages { left: [(1, 1)].into(), asked: Arc::default() };
            let scan = Box::new(Starved { pages, budget: budget.clone() });
            let refused = execute(&context, scan, Arc::new(Stamp), &mut seen, Merging::Ordered).await;
            assert!(matches!(refused, Err(Error::OverBudget(_))), "nothing in flight can release memory");
            assert!(context.saves_memory_after(&refused) && context.saves_memory());
            assert!(!context.saves_memory_after(&refused), "once");
            drop(held);
            seen.stamps.len()
        });
        assert_eq!(found, 20);
    }

    #[test]
    fn an_unwanted_item_ends_the_scan() {
        let pages: Vec<(i64, u64)> = (0..50).rev().map(|t| (t, 1)).collect();
        let wanting = Seen { stop_below: 40, ..Seen::default() };
        let (result, seen, asked) = run(Env::system(1), &pages, 100, wanting);
        result.unwrap();
        assert_eq!((seen.stamps.len(), asked), (10, 11));
    }

    /// Counts how many of its jobs run at the same time.
    #[derive(Default)]
    struct Concurrency {
        working: AtomicU64,
        most: AtomicU64,
    }

    impl Work for Concurrency {
        type Output = (u32, i64);
        fn run(&self, number: u32, _: ScanItem) -> Result<Self::Output, Error> {
            let working = self.working.fetch_add(1, Ordering::SeqCst) + 1;
            self.most.fetch_max(working, Ordering::SeqCst);
            // Long enough for other jobs to overlap.
            (0..20).for_each(|_| std::thread::yield_now());
            self.working.fetch_sub(1, Ordering::SeqCst);
            Ok((number, 0))
        }
    }

    #[test]
    fn parallelism_is_limited_over_all_scans_of_a_query() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        let crowd = Arc::new(Concurrency::default());
        let context = QueryContext::new(
            Env::system(4),
            TenantId::default_tenant(),
            MemoryBudget::root("query", 1_000),
            Duration::from_secs(3_600),
        )
        .with_parallelism(1);
        let (mut one, mut other) = (Seen::default(), Seen::default());
        runtime.block_on(async {
            let pages = || Box::new(Pages { left: vec![(1, 1); 200].into(), asked: Arc::default() });
            let run = |seen| execute(&context, pages(), Arc::clone(&crowd), seen, Merging::Ordered);
            let (a, b) = tokio::join!(run(&mut one), run(&mut other));
            a.and(b).unwrap();
        });
        assert_eq!((one.stamps.len(), other.stamps.len()), (200, 200));
        assert_eq!(crowd.most.load(Ordering::SeqCst), 1);
    }

    #[test]
    fn a_cancelled_query_stops() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        let asked = Arc::new(AtomicU64::new(0));
        let scan = Box::new(Pages { left: vec![(1, 1); 10].into(), asked: Arc::clone(&asked) });
        let result = runtime.block_on(async {
            let budget = MemoryBudget::root("query", 100);
            let tenant = TenantId::default_tenant();
            let context = QueryContext::new(Env::system(1), tenant, budget, Duration::from_secs(3_600));
            context.cancel();
            execute(&context, scan, Arc::new(Stamp), &mut Seen::default(), Merging::Unordered).await
        });
        assert!(matches!(result, Err(Error::Cancelled)));
        assert_eq!(asked.load(Ordering::Relaxed), 0);
    }

    /// Runs until the job is stopped.
    #[derive(Default)]
    struct Endless {
        begun: AtomicU64,
        ended: AtomicU64,
    }

    impl Work for Endless {
        type Output = (u32, i64);
        fn run(&self, _: u32, _: ScanItem) -> Result<Self::Output, Error> {
            self.begun.fetch_add(1, Ordering::SeqCst);
            while sandur_memory::job::spend(1_000).is_ok() {}
            self.ended.fetch_add(1, Ordering::SeqCst);
            Ok((0, 0))
        }
    }

    fn context_of(env: &Env, tenant: &str, timeout: Duration) -> QueryContext {
        let tenant = TenantId::new(tenant).unwrap();
        QueryContext::new(env.clone(), tenant, MemoryBudget::root("query", 1_000), timeout)
    }

    fn pages(count: usize) -> Box<Pages> {
        Box::new(Pages { left: vec![(1, 1); count].into(), asked: Arc::default() })
    }

    #[test]
    fn dropping_a_query_ends_its_running_job_and_its_queued_jobs_do_not_begin() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        let work = Arc::new(Endless::default());
        runtime.block_on(async {
            let env = Env::system(1);
            let context = context_of(&env, "a", Duration::from_secs(3_600));
            let mut seen = Seen::default();
            let mut query =
                Box::pin(execute(&context, pages(9), Arc::clone(&work), &mut seen, Merging::Ordered));
            while work.begun.load(Ordering::SeqCst) == 0 {
                assert!(futures_util::poll!(&mut query).is_pending());
                tokio::task::yield_now().await;
            }
            drop(query);
            // There is one thread: the running job ends, and the queued one does not begin.
            env.run_cpu(sandur_runtime::Lane::Background, || ()).await;
        });
        let counted = (work.begun.load(Ordering::SeqCst), work.ended.load(Ordering::SeqCst));
        assert_eq!(counted, (1, 1));
    }

    #[test]
    fn an_endless_query_does_not_block_other_tenants_and_ends_at_its_deadline() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        let work = Arc::new(Endless::default());
        runtime.block_on(async {
            let env = Env::system(1);
            let endless = context_of(&env, "a", Duration::from_secs(3_600));
            let (mut seen, mut other) = (Seen::default(), Seen::default());
            let mut query =
                Box::pin(execute(&endless, pages(9), Arc::clone(&work), &mut seen, Merging::Ordered));
            assert!(futures_util::poll!(&mut query).is_pending());
            // The pages of the other tenant are processed although the only thread was busy.
            let quick = context_of(&env, "b", Duration::from_secs(3_600));
            execute(&quick, pages(50), Arc::new(Stamp), &mut other, Merging::Ordered).await.unwrap();
            assert_eq!(other.stamps.len(), 50);
            endless.cancel();
            assert!(matches!(query.await, Err(Error::Cancelled)));
            let late = context_of(&env, "a", Duration::from_millis(30));
            let ended = execute(&late, pages(1), Arc::clone(&work), &mut seen, Merging::Ordered).await;
            assert!(matches!(ended, Err(Error::Timeout(_))), "{ended:?}");
        });
    }
}

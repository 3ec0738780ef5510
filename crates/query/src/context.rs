//! The resources of one query: tenant, deadline, memory budget, queue and CPU turns, and statistics.

use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use futures_util::future::{Either, select};
use sandur_base::BoxFuture;
use sandur_memory::account::Account;
use sandur_memory::{MemoryBudget, OverBudget, Stopped};
use sandur_model::TenantId;
use sandur_runtime::{Env, Lane};
use tokio::runtime::Handle;
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};
use xxhash_rust::xxh3::xxh3_64;

use crate::error::Error;
use crate::fair_queue::{Entered, FairQueue, Permit};
use crate::part::Part;
use crate::results_cache::ResultsCache;
use crate::stats::QueryStats;
use crate::warnings::Warnings;

/// The context of one query. All of its tasks share it.
#[derive(Clone)]
pub struct QueryContext {
    shared: Arc<Inner>,
    tenant: TenantId,
    queue: Option<FairQueue>,
    results: Option<ResultsCache>,
    parallelism: usize,
    /// One permit for each page that the query may process at the same time; `None`: no limit.
    workers: Option<Arc<Semaphore>>,
    earliest_ns: i64,
    begun_ns: i64,
    part: Part,
}

struct Inner {
    env: Env,
    budget: MemoryBudget,
    stats: QueryStats,
    started: Duration,
    timeout: Duration,
    cancelled: AtomicBool,
    /// Bytes that the query holds, reserved or not.
    account: Account,
    /// Set when the query must end because the process is short of memory.
    lacks_memory: AtomicBool,
    /// Set when the query runs once more with little memory.
    saves_memory: AtomicBool,
    /// Set when an operator ended the query.
    ended_by_operator: AtomicBool,
    /// Wakes a query that waits when an operator ends it.
    ending: Notify,
    admitted: AtomicBool,
    partial: AtomicBool,
    warnings: Warnings,
    /// The most age of the view that the client accepts.
    view_age_max: OnceLock<Duration>,
}

/// A job that has run for this long lets other tenants run. 20 ms is imperceptible to users, and much
/// longer than the microseconds of a thread switch.
const SLICE: Duration = Duration::from_millis(20);

/// A query begins when at least one part in this many of its memory limit is free.
const ROOM_ONE_IN: u64 = 8;
/// How often a query that waits for memory checks again.
const ROOM_LOOK: Duration = Duration::from_millis(20);

/// A waker that notifies a task. A wake-up before the wait is not lost.
#[derive(Default)]
struct Woken(Notify);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.notify_one();
    }
}

/// A handle that can end a query when the process is short of memory.
#[derive(Clone)]
pub struct WatchedQuery(Weak<Inner>);

impl WatchedQuery {
    /// Bytes that the query holds; `None` when it has ended or is being ended.
    pub fn used(&self) -> Option<u64> {
        self.0
            .upgrade()
            .filter(|query| !query.lacks_memory.load(Ordering::Relaxed))
            .map(|query| query.account.used())
    }

    /// Whether the query's context has been dropped.
    pub fn is_over(&self) -> bool {
        self.0.strong_count() == 0
    }

    /// Ends the query at its next check, because the process is short of memory.
    pub fn end_for_memory(&self) {
        if let Some(query) = self.0.upgrade() {
            query.lacks_memory.store(true, Ordering::Relaxed);
        }
    }
}

/// Bytes by which the account of a query may exceed its budget, at least.
const ACCOUNT_SLACK: u64 = 8 << 20;

impl QueryContext {
    /// A context whose deadline is `timeout` from now, without queue, step cache or further limits.
    pub fn new(env: Env, tenant: TenantId, budget: MemoryBudget, timeout: Duration) -> Self {
        let (started, begun_ns) = (env.monotonic(), env.now_ns());
        let shared = Arc::new(Inner {
            env,
            budget,
            stats: QueryStats::default(),
            started,
            timeout,
            cancelled: AtomicBool::new(false),
            account: Account::default(),
            lacks_memory: AtomicBool::new(false),
            saves_memory: AtomicBool::new(false),
            ended_by_operator: AtomicBool::new(false),
            ending: Notify::new(),
            admitted: AtomicBool::new(false),
            partial: AtomicBool::new(false),
            warnings: Warnings::default(),
            view_age_max: OnceLock::new(),
        });
        let (queue, results, workers, earliest_ns) = (None, None, None, i64::MIN);
        let (parallelism, part) = (usize::MAX, Part::WHOLE);
        Self { shared, tenant, queue, results, parallelism, workers, earliest_ns, begun_ns, part }
    }

    /// Makes each piece of the query wait for its turn in `queue`.
    pub fn with_queue(mut self, queue: FairQueue) -> Self {
        self.queue = Some(queue);
        self
    }

    /// Lets metric range queries use and fill this cache.
    pub fn with_results(mut self, results: ResultsCache) -> Self {
        self.results = Some(results);
        self
    }

    /// Limits the pages that the query processes at the same time, over all of its pieces; 0: no limit
    /// except the number of threads.
    pub fn with_parallelism(mut self, most: usize) -> Self {
        self.parallelism = if most == 0 { usize::MAX } else { most };
        self.workers = (most > 0).then(|| Arc::new(Semaphore::new(most.min(Semaphore::MAX_PERMITS))));
        self
    }

    /// Hides rows before this instant (nanoseconds since the epoch) from the query.
    pub fn with_earliest(mut self, earliest_ns: i64) -> Self {
        self.earliest_ns = earliest_ns;
        self
    }

    /// Sets the time at which the query began in the process that divided it, which functions such as `now`
    /// return.
    pub fn with_begun(mut self, begun_ns: i64) -> Self {
        self.begun_ns = begun_ns;
        self
    }

    /// Restricts the query to a part of the series. Sources apply it to all calls. The step cache holds
    /// results of whole queries, so a part does not use it.
    pub fn with_part(mut self, part: Part) -> Self {
        self.results = self.results.filter(|_| part.is_whole());
        self.part = part;
        self
    }

    /// The same query over the data of another tenant; deadline, memory, statistics and queue are
    /// shared.
    pub fn of_tenant(&self, tenant: TenantId) -> Self {
        Self { tenant, ..self.clone() }
    }

    /// Waits for the tenant's turn; before the first piece also for free memory. The query works while it
    /// holds the permit, and drops it between its pieces, so that a long query does not block others.
    /// Fails with [`Error::Busy`] when too many queries of the tenant wait already; later pieces of an
    /// admitted query are never refused.
    pub async fn turn(&self) -> Result<Option<Permit>, Error> {
        self.check()?;
        match &self.queue {
            Some(queue) => self.enter(queue).await.map(Some),
            None => Ok(None),
        }
    }

    async fn enter(&self, queue: &FairQueue) -> Result<Permit, Error> {
        let is_admitted = self.shared.admitted.swap(true, Ordering::Relaxed);
        if !is_admitted && !self.has_room() {
            self.queued(self.wait_for_room()).await??;
        }
        match queue.enter(&self.tenant, is_admitted)? {
            Entered::Now(permit) => Ok(permit),
            Entered::Later(permit) => {
                let permit = self.queued(permit).await;
                self.check()?;
                permit?.map_err(|_| Error::Cancelled)
            }
        }
    }

    /// Awaits `work` until the deadline of the query. The wait counts as queue time.
    async fn queued<T>(&self, work: impl Future<Output = T>) -> Result<T, Error> {
        let began = self.env().monotonic();
        let outcome = self.in_time(work).await;
        QueryStats::add_time(&self.stats().queue_ns, self.env().monotonic().saturating_sub(began));
        outcome
    }

    /// Waits until enough memory is free to begin. The memory is held by running queries, so it will be
    /// released.
    async fn wait_for_room(&self) -> Result<(), Error> {
        while !self.has_room() {
            self.check()?;
            self.env().sleep(ROOM_LOOK).await;
        }
        Ok(())
    }

    /// Whether enough memory is free to begin. Memory that the query itself holds since it was received
    /// counts as free, because it would not be released.
    fn has_room(&self) -> bool {
        let budget = self.budget();
        budget.available().saturating_add(budget.used()) >= budget.capacity() / ROOM_ONE_IN
    }

    /// Whether scans of the query process one page at a time and fetch none ahead.
    pub fn saves_memory(&self) -> bool {
        self.shared.saves_memory.load(Ordering::Relaxed)
    }

    /// Whether the query shall run once more, with one page at a time: it was refused memory that its own
    /// pages may have held.
    pub fn saves_memory_after<T>(&self, outcome: &Result<T, Error>) -> bool {
        let is_refused = matches!(outcome, Err(Error::OverBudget(_)));
        is_refused && !self.shared.saves_memory.swap(true, Ordering::Relaxed)
    }

    /// The cache of metric results, if there is one.
    pub fn results(&self) -> Option<&ResultsCache> {
        self.results.as_ref()
    }

    /// The most pages that the query may process at the same time.
    pub fn parallelism(&self) -> usize {
        if self.saves_memory() { 1 } else { self.parallelism }
    }

    /// Waits for the right to process a page; `None` if the number of pages is not limited.
    pub(crate) async fn worker(&self) -> Option<OwnedSemaphorePermit> {
        let workers = self.workers.clone()?;
        // The semaphore is never closed.
        workers.acquire_owned().await.ok()
    }

    /// The first instant whose rows the query sees, in nanoseconds since the epoch.
    pub fn earliest_ns(&self) -> i64 {
        self.earliest_ns
    }

    /// The part of the series that the query reads.
    pub fn part(&self) -> Part {
        self.part
    }

    /// Clock, tasks and CPU pool.
    pub fn env(&self) -> &Env {
        &self.shared.env
    }

    /// The tenant whose data is queried.
    pub fn tenant(&self) -> &TenantId {
        &self.tenant
    }

    /// The memory budget of the query.
    pub fn budget(&self) -> &MemoryBudget {
        &self.shared.budget
    }

    /// The statistics of the query.
    pub fn stats(&self) -> &QueryStats {
        &self.shared.stats
    }

    /// Start of the query in nanoseconds since the epoch: its "now", which is the same in all of its
    /// pieces.
    pub fn begun_ns(&self) -> i64 {
        self.begun_ns
    }

    /// Time since the start of the query.
    pub fn elapsed(&self) -> Duration {
        self.shared.env.monotonic().saturating_sub(self.shared.started)
    }

    /// Time until the deadline of the query.
    pub fn remaining(&self) -> Duration {
        self.shared.timeout.saturating_sub(self.elapsed())
    }

    /// Awaits `work` until the deadline of the query; then drops it and fails with [`Error::Timeout`]. If an
    /// operator ends the query, drops it and fails with [`Error::Ended`]. Allocations of the work are charged
    /// to the query.
    pub async fn in_time<T>(&self, work: impl Future<Output = T>) -> Result<T, Error> {
        let charged = self.shared.account.charge(work);
        let timed = pin!(self.env().timeout(self.remaining(), charged));
        let ended = pin!(self.shared.ending.notified());
        match select(timed, ended).await {
            Either::Left((timed, _)) => timed.ok_or(Error::Timeout(self.shared.timeout)),
            Either::Right(_) => Err(Error::Ended),
        }
    }

    /// Ends the query at its next check.
    pub fn cancel(&self) {
        self.shared.cancelled.store(true, Ordering::Relaxed);
    }

    /// Ends the query at its next check or wait; its error says that an operator ended it.
    pub fn end_by_operator(&self) {
        self.shared.ended_by_operator.store(true, Ordering::Relaxed);
        // A permit is stored if the query does not wait now.
        self.shared.ending.notify_one();
    }

    /// Fails when the query was cancelled or ended, is past its deadline or uses too much memory. Called
    /// between steps.
    pub fn check(&self) -> Result<(), Error> {
        if self.shared.cancelled.load(Ordering::Relaxed) {
            return Err(Error::Cancelled);
        }
        if self.shared.lacks_memory.load(Ordering::Relaxed) {
            return Err(Error::Starved);
        }
        if self.shared.ended_by_operator.load(Ordering::Relaxed) {
            return Err(Error::Ended);
        }
        if self.elapsed() > self.shared.timeout {
            return Err(Error::Timeout(self.shared.timeout));
        }
        self.check_account()
    }

    /// Fails when the query holds more memory than its budget permits, even if it was not reserved.
    /// Tolerates a quarter more, because parts of blocks that the query loads into caches are charged to
    /// it too.
    fn check_account(&self) -> Result<(), Error> {
        let (budget, used) = (&self.shared.budget, self.shared.account.used());
        let limit = budget.limit();
        if used > limit.saturating_add((limit / 4).max(ACCOUNT_SLACK)) {
            return Err(OverBudget { budget: budget.name().into(), asked: used, used, limit }.into());
        }
        Ok(())
    }

    /// Runs a computation of the query on the CPU pool, at its tenant's turn. The computation does not
    /// begin when the query has ended, and is stopped when the query ends or the caller drops this
    /// future; see [`sandur_memory::job`]. Its allocations are charged to the query.
    pub async fn compute<T: Send + 'static>(
        &self,
        job: impl FnOnce() -> Result<T, Error> + Send + 'static,
    ) -> Result<T, Error> {
        let waited_for = Arc::new(());
        let job = self.job(Arc::downgrade(&waited_for), job);
        let outcome = self.shared.account.charge(self.env().run_cpu(self.lane(), job)).await;
        drop(waited_for);
        outcome
    }

    /// Runs a small computation of the query in the calling thread, between I/O.
    pub fn compute_here<T>(&self, job: impl FnOnce() -> Result<T, Error>) -> Result<T, Error> {
        let here = Arc::new(());
        self.shared.account.run(self.job(Arc::downgrade(&here), job))
    }

    /// Polls a future on the CPU pool, each poll like a job of [`Self::compute`]: for work that computes
    /// much between its waits. When the caller is a job of the pool already, polls it there.
    pub async fn work<T: Send + 'static>(
        &self,
        work: impl Future<Output = Result<T, Error>> + Send + 'static,
    ) -> Result<T, Error> {
        if self.env().cpu().is_here() {
            return work.await;
        }
        let woken = Arc::new(Woken::default());
        let mut work: BoxFuture<'static, Result<T, Error>> = Box::pin(work);
        loop {
            let (waker, runtime) = (Waker::from(Arc::clone(&woken)), Handle::current());
            let poll = move || {
                let _entered = runtime.enter();
                let polled = work.as_mut().poll(&mut Context::from_waker(&waker));
                Ok((polled, work))
            };
            match self.compute(poll).await? {
                (Poll::Ready(outcome), _) => return outcome,
                (Poll::Pending, rest) => work = rest,
            }
            woken.0.notified().await;
        }
    }

    /// Runs a job with [`Self::compute_here`] if it is small, else with [`Self::compute`].
    pub async fn compute_sized<T: Send + 'static>(
        &self,
        is_little: bool,
        job: impl FnOnce() -> Result<T, Error> + Send + 'static,
    ) -> Result<T, Error> {
        if is_little { self.compute_here(job) } else { self.compute(job).await }
    }

    /// Wraps a computation so that it runs as a job of the query.
    fn job<T, J: FnOnce() -> Result<T, Error>>(
        &self,
        waited_for: Weak<()>,
        job: J,
    ) -> impl FnOnce() -> Result<T, Error> + use<T, J> {
        let slice_ends = AtomicU64::new(self.slice_end());
        let (context, ended) = (self.clone(), OnceLock::new());
        let owner = Arc::new(QueryJob { context, waited_for, slice_ends, ended });
        move || match sandur_memory::job::run(owner.clone(), job) {
            Ok(outcome) => outcome,
            Err(Stopped) => Err(owner.ended.get().cloned().unwrap_or(Error::Cancelled)),
        }
    }

    fn slice_end(&self) -> u64 {
        (self.env().monotonic() + SLICE).as_nanos() as u64
    }

    /// The CPU lane of the query's jobs.
    fn lane(&self) -> Lane {
        Self::lane_of(&self.tenant)
    }

    /// The CPU lane of jobs of a tenant.
    pub fn lane_of(tenant: &TenantId) -> Lane {
        Lane::Tenant(xxh3_64(tenant.as_str().as_bytes()))
    }

    /// The account of bytes that the query holds.
    pub fn account(&self) -> &Account {
        &self.shared.account
    }

    /// A handle that does not keep the context alive.
    pub fn watch(&self) -> WatchedQuery {
        WatchedQuery(Arc::downgrade(&self.shared))
    }

    /// Permits a result that exceeds a size limit to be truncated with a warning instead of an error;
    /// clients can request this.
    pub fn allow_partial(&self) {
        self.shared.partial.store(true, Ordering::Relaxed);
    }

    /// Whether a result that is too large is truncated instead of refused.
    pub fn allows_partial(&self) -> bool {
        self.shared.partial.load(Ordering::Relaxed)
    }

    /// Requires that the query sees every row that any process acknowledged until `age_max` before the
    /// query started. A source that cannot provide this fails. Later calls have no effect.
    pub fn require_view(&self, age_max: Duration) {
        let _ = self.shared.view_age_max.set(age_max);
    }

    /// The monotonic time until which all acknowledged rows must be visible, if the client requires it.
    pub fn sees_until(&self) -> Option<Duration> {
        let age_max = self.shared.view_age_max.get()?;
        Some(self.shared.started.saturating_sub(*age_max))
    }

    /// Adds a warning for the client: the result is incomplete or unusual.
    pub fn warn(&self, warning: impl Into<String>) {
        self.shared.warnings.add(warning.into());
    }

    /// The warnings so far.
    pub fn warnings(&self) -> Vec<String> {
        self.shared.warnings.all()
    }

    /// A handle of the warnings that outlives the query.
    pub fn kept_warnings(&self) -> Warnings {
        self.shared.warnings.clone()
    }
}

/// The owner of the query's jobs.
struct QueryJob {
    context: QueryContext,
    waited_for: Weak<()>,
    /// When the job lets other tenants run, in nanoseconds of the monotonic clock.
    slice_ends: AtomicU64,
    /// Why the job was stopped.
    ended: OnceLock<Error>,
}

impl QueryJob {
    fn check(&self) -> Result<(), Error> {
        match self.waited_for.strong_count() {
            0 => Err(Error::Cancelled),
            _ => self.context.check(),
        }
    }
}

impl sandur_memory::job::Owner for QueryJob {
    fn goes_on(&self) -> bool {
        let now = self.context.env().monotonic().as_nanos() as u64;
        if now >= self.slice_ends.load(Ordering::Relaxed) && self.check().is_ok() {
            self.context.env().cpu().give_way(self.context.lane());
            self.slice_ends.store(self.context.slice_end(), Ordering::Relaxed);
        }
        self.check().map_err(|error| self.ended.set(error)).is_ok()
    }

    fn budget(&self) -> &MemoryBudget {
        self.context.budget()
    }

    fn refused(&self, refusal: OverBudget) {
        _ = self.ended.set(refusal.into()); // the first reason is kept
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::staleness::Staleness;

    const MINUTE: Duration = Duration::from_secs(60);

    fn context(env: &Env) -> QueryContext {
        let budget = MemoryBudget::root("query", 1 << 20);
        QueryContext::new(env.clone(), TenantId::default_tenant(), budget, MINUTE)
    }

    #[tokio::test]
    async fn work_is_polled_only_on_the_pool_and_continues_after_each_wait() {
        let env = Env::system(1);
        let context = context(&env);
        assert!(!env.cpu().is_here());
        let own = context.clone();
        let mut places = context
            .work(async move {
                let mut places = Vec::new();
                for _ in 0..3 {
                    places.push(own.env().cpu().is_here());
                    own.env().sleep(Duration::from_millis(1)).await;
                    places.push(own.env().cpu().is_here());
                    // Nested jobs and nested work, with only one thread to run them.
                    places.push(own.compute(|| Ok(true)).await?);
                    let inner = own.clone();
                    places.push(own.work(async move { Ok(inner.env().cpu().is_here()) }).await?);
                }
                Ok(places)
            })
            .await
            .unwrap();
        assert_eq!(places.len(), 12);
        places.dedup();
        assert_eq!(places, [true]);
    }

    #[tokio::test]
    async fn views_that_are_too_old_cause_one_warning() {
        let context = context(&Env::system(1));
        context.warn("a block is missing");
        for seconds in [6, 9, 7] {
            let (age, bound) = (Duration::from_millis(seconds * 1_000 + 400), Duration::from_secs(5));
            context.of_tenant(TenantId::default_tenant()).kept_warnings().add_age(Staleness { age, bound });
        }
        let warnings = context.warnings();
        assert_eq!(warnings.len(), 2, "{warnings:?}");
        assert!(warnings[0].contains("in the last 9s may be missing"), "{warnings:?}");
    }

    #[tokio::test]
    async fn work_ends_with_its_query_while_waiting_and_while_computing() {
        let env = Env::system(1);
        let (waiting, counting) = (context(&env), context(&env));
        let own = waiting.clone();
        let waits = waiting.work(async move {
            own.cancel();
            own.env().sleep(Duration::from_millis(1)).await;
            Ok(())
        });
        assert!(matches!(waits.await, Err(Error::Cancelled)));
        let own = counting.clone();
        let counts = counting.work::<()>(async move {
            own.cancel();
            loop {
                sandur_memory::job::spend(1)?;
            }
        });
        assert!(matches!(counts.await, Err(Error::Cancelled)));
    }

    #[tokio::test]
    async fn work_is_dropped_with_its_caller() {
        let env = Env::system(1);
        let context = context(&env);
        let held = Arc::new(());
        let holding = Arc::clone(&held);
        let never = context.work::<()>(async move {
            let _holding = holding;
            std::future::pending().await
        });
        assert!(env.timeout(Duration::from_millis(1), never).await.is_none());
        // Runs after the poll that may be in progress.
        env.run_cpu(Lane::Query, || ()).await;
        assert_eq!(Arc::strong_count(&held), 1);
    }
}

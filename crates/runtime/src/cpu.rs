//! The CPU pool: runs computation, which must never run on the threads that drive I/O.
//!
//! Jobs of clients run before [`Lane::Background`] (flush and compaction), but every fourth job is taken
//! from the background first, so that many queries cannot stop flushing. Jobs of clients are taken
//! round-robin by tenant: a tenant that queues a thousand jobs delays another tenant's next job by one
//! job per tenant. A long job calls [`CpuPool::give_way`]: its thread blocks, the queued jobs of others
//! run first, and the job continues at its tenant's next turn. An additional thread replaces the blocked
//! one, so the number of running jobs stays the same. An inline pool (simulations) runs each job in the
//! caller.

use std::cell::Cell;
use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use tokio::sync::oneshot;

use sandur_base::Turns;
use sandur_base::nesting::STACK_BYTES;
use sandur_memory::account::Account;

/// The queue of a job: for whom it runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lane {
    /// A client waits for the result; the job runs even when the client disconnects.
    Query,
    /// A client of the tenant with this number waits for the result; when the client disconnects before
    /// the job has begun, the job does not run.
    Tenant(u64),
    /// No client waits: flush, compaction, checks.
    Background,
}

/// The most jobs that have given way and wait for their next turn; each of them holds a thread. At this
/// number, [`CpuPool::give_way`] returns at once.
const GIVEN_WAY_MAX: usize = 128;

/// Idle threads beyond [`CpuPool::parallelism`] that are kept for the next jobs that give way.
const SPARE_THREADS: usize = 4;

/// A queued job. Boxed, jobs of all types share the same code.
struct Job {
    work: Box<dyn FnOnce() + Send>,
    lane: Lane,
    account: Option<Account>,
    ended: oneshot::Sender<std::thread::Result<()>>,
}

/// Completes when the job has ended, with the payload of a panic if there was one.
type End = oneshot::Receiver<std::thread::Result<()>>;

impl Job {
    /// A job that charges the account of the caller, and the receiver of its end.
    fn new(lane: Lane, work: Box<dyn FnOnce() + Send>) -> (Self, End) {
        let (ended, end) = oneshot::channel();
        (Self { work, lane, account: Account::current(), ended }, end)
    }

    fn run(self) {
        let Self { work, lane, account, ended } = self;
        if matches!(lane, Lane::Tenant(_)) && ended.is_closed() {
            return;
        }
        let outcome =
            Account::run_on(account, || std::panic::catch_unwind(std::panic::AssertUnwindSafe(work)));
        // The caller may have gone away.
        let _ = ended.send(outcome);
    }
}

/// A fixed set of threads for computation. Cheap to clone: a handle.
#[derive(Clone)]
pub struct CpuPool(Option<Arc<Shared>>);

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

struct Shared {
    queues: Mutex<Queues>,
    wake: Condvar,
    threads: usize,
}

/// An entry of a queue.
enum Turn {
    /// A job that has not begun.
    Begin(Job),
    /// A job that gave way; its thread is blocked.
    Resume(Arc<GivenWay>),
}

/// Wakes the thread of a job that gave way.
#[derive(Default)]
struct GivenWay {
    resumed: Mutex<bool>,
    wake: Condvar,
}

/// The tenant number of jobs without a tenant.
const NO_TENANT: u64 = 0;

impl Lane {
    /// The tenant in whose turn a job runs; `None` for background work.
    fn tenant(self) -> Option<u64> {
        match self {
            Self::Background => None,
            Self::Query => Some(NO_TENANT),
            Self::Tenant(tenant) => Some(tenant),
        }
    }
}

#[derive(Default)]
struct Queues {
    /// Jobs that clients wait for, by tenant.
    clients: Turns<u64, Turn>,
    background: VecDeque<Turn>,
    taken: u64,
    /// Running jobs, without those that gave way.
    running: usize,
    given_way: usize,
    /// Threads of the pool, including those that are blocked by jobs that gave way.
    threads: usize,
    closed: bool,
}

impl Queues {
    fn take(&mut self) -> Option<Turn> {
        self.taken += 1;
        if self.taken.is_multiple_of(4) {
            self.background.pop_front().or_else(|| self.clients.pop())
        } else {
            self.clients.pop().or_else(|| self.background.pop_front())
        }
    }

    /// Queues a job behind those of its tenant.
    fn push(&mut self, lane: Lane, turn: Turn) {
        match lane.tenant() {
            Some(tenant) => _ = self.clients.push(tenant, turn),
            None => self.background.push_back(turn),
        }
    }

    /// Queues a job before those of its tenant.
    fn push_first(&mut self, lane: Lane, turn: Turn) {
        match lane.tenant() {
            Some(tenant) => _ = self.clients.push_first(tenant, turn),
            None => self.background.push_front(turn),
        }
    }

    /// Whether another tenant, or the other of client and background, has queued jobs.
    fn others_wait(&self, lane: Lane) -> bool {
        match lane.tenant() {
            Some(tenant) => !self.background.is_empty() || self.clients.others_wait(&tenant),
            None => !self.clients.is_empty(),
        }
    }
}

thread_local! {
    /// The address of the pool whose worker this thread is; 0 on other threads.
    static POOL: Cell<usize> = const { Cell::new(0) };
}

impl CpuPool {
    /// A pool of `threads` threads (at least one), named `cpu-N`.
    pub fn start(threads: usize) -> Self {
        let threads = threads.max(1);
        let shared = Arc::new(Shared { queues: Mutex::default(), wake: Condvar::new(), threads });
        let mut queues = shared.lock();
        for _ in 0..threads {
            // A process without threads cannot work, so there is no fallback.
            shared.start_thread(&mut queues).expect("the system can start a thread");
        }
        drop(queues);
        Self(Some(shared))
    }

    /// A pool without threads: each job runs immediately in the caller, so that the order is
    /// deterministic.
    pub fn inline() -> Self {
        Self(None)
    }

    /// The most jobs that run at the same time.
    pub fn parallelism(&self) -> usize {
        self.0.as_ref().map_or(1, |s| s.threads)
    }

    /// Runs `job` on the pool and returns its result; a panic of the job continues in the caller.
    pub async fn run<T: Send + 'static>(&self, lane: Lane, job: impl FnOnce() -> T + Send + 'static) -> T {
        let Some(shared) = &self.0 else { return job() };
        let result = Arc::new(Mutex::new(None));
        let place = Arc::clone(&result);
        shared.run(lane, Box::new(move || *locked(&place) = Some(job()))).await;
        locked(&result).take().expect("a job that ended without a panic has stored its result")
    }

    /// Whether the caller runs on a thread of this pool.
    pub fn is_here(&self) -> bool {
        self.0.as_ref().is_some_and(|shared| POOL.get() == Arc::as_ptr(shared).addr())
    }

    /// Lets the queued jobs of others run first, if there are any, and returns at the next turn of
    /// `lane`. A long job calls it from time to time. The caller must hold no lock that another job may
    /// need.
    pub fn give_way(&self, lane: Lane) {
        let Some(shared) = &self.0 else { return };
        // A job that runs outside of the pool because it is small has no turn to yield.
        if !self.is_here() {
            return;
        }
        let mut queues = shared.lock();
        if !queues.others_wait(lane) || queues.given_way >= GIVEN_WAY_MAX {
            return;
        }
        // Without this thread, as many threads as may run at once must remain; else the job continues.
        let left = queues.threads - queues.given_way - 1;
        if left < shared.threads && shared.start_thread(&mut queues).is_err() {
            return;
        }
        let turn = Arc::new(GivenWay::default());
        // Before the jobs of its tenant that have not begun: a job that has begun holds memory.
        queues.push_first(lane, Turn::Resume(Arc::clone(&turn)));
        queues.running -= 1;
        queues.given_way += 1;
        drop(queues);
        shared.wake.notify_one();
        turn.wait();
    }
}

impl GivenWay {
    fn wait(&self) {
        let mut resumed = self.resumed.lock().unwrap_or_else(PoisonError::into_inner);
        while !*resumed {
            resumed = self.wake.wait(resumed).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn resume(&self) {
        *self.resumed.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.wake.notify_one();
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Queues> {
        locked(&self.queues)
    }

    /// Queues the work and waits until it has ended; a panic of the work continues here.
    async fn run(&self, lane: Lane, work: Box<dyn FnOnce() + Send>) {
        let (job, end) = Job::new(lane, work);
        self.lock().push(lane, Turn::Begin(job));
        self.wake.notify_one();
        if let Err(panic) = end.await.expect("a worker reports the end of every job whose caller waits") {
            std::panic::resume_unwind(panic);
        }
    }

    fn start_thread(self: &Arc<Self>, queues: &mut Queues) -> std::io::Result<()> {
        let worker = Worker(Arc::clone(self));
        let builder =
            std::thread::Builder::new().name(format!("cpu-{}", queues.threads)).stack_size(STACK_BYTES);
        builder.spawn(move || worker.run())?;
        queues.threads += 1;
        Ok(())
    }
}

struct Worker(Arc<Shared>);

impl Worker {
    fn run(self) {
        POOL.set(Arc::as_ptr(&self.0).addr());
        let spare = self.0.threads + SPARE_THREADS;
        let mut queues = self.0.lock();
        loop {
            let turn = if queues.running < self.0.threads { queues.take() } else { None };
            match turn {
                Some(Turn::Begin(job)) => {
                    queues.running += 1;
                    drop(queues);
                    job.run();
                    queues = self.0.lock();
                    queues.running -= 1;
                }
                Some(Turn::Resume(turn)) => {
                    queues.running += 1;
                    queues.given_way -= 1;
                    turn.resume();
                }
                None if queues.closed || queues.threads - queues.given_way > spare => {
                    queues.threads -= 1;
                    return;
                }
                None => queues = self.0.wake.wait(queues).unwrap_or_else(PoisonError::into_inner),
            }
        }
    }
}

impl CpuPool {
    /// Ends the threads once all queued jobs have run.
    pub fn close(&self) {
        if let Some(shared) = &self.0 {
            shared.lock().closed = true;
            shared.wake.notify_all();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::alloc::System;

    use sandur_memory::account::{BATCH_BYTES, Counting};

    use super::*;

    #[global_allocator]
    static ALLOCATOR: Counting<System> = Counting(System);

    #[test]
    fn jobs_run_on_the_pool_and_panics_reach_the_caller() {
        let pool = CpuPool::start(2);
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let sum = runtime.block_on(async {
            let a = pool.run(Lane::Query, || 20);
            let b = pool.run(Lane::Background, || 22);
            a.await + b.await
        });
        assert_eq!(sum, 42);
        let caught = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            runtime.block_on(pool.run(Lane::Query, || panic!("boom")))
        }));
        assert!(caught.is_err());
        pool.close();
    }

    /// Runs the queued jobs in their order and returns their names.
    fn order_of(jobs: &[(Lane, &'static str)]) -> Vec<&'static str> {
        let mut queues = Queues::default();
        let order = Arc::new(Mutex::new(Vec::new()));
        for &(lane, name) in jobs {
            let order = Arc::clone(&order);
            let (job, _) = Job::new(Lane::Background, Box::new(move || order.lock().unwrap().push(name)));
            queues.push(lane, Turn::Begin(job));
        }
        while let Some(Turn::Begin(job)) = queues.take() {
            job.run();
        }
        assert!(queues.clients.is_empty());
        Arc::into_inner(order).unwrap().into_inner().unwrap()
    }

    #[test]
    fn every_fourth_job_is_taken_from_the_background() {
        let (query, back) = (Lane::Query, Lane::Background);
        let jobs = [(query, "0"), (query, "1"), (query, "2"), (query, "3"), (back, "b"), (back, "c")];
        assert_eq!(order_of(&jobs), ["0", "1", "2", "b", "3", "c"]);
    }

    #[test]
    fn tenants_are_served_round_robin_regardless_of_queue_length() {
        let lanes = [Lane::Tenant(1), Lane::Tenant(2), Lane::Query];
        let [a, b, own] = lanes;
        let jobs =
            [(a, "a1"), (a, "a2"), (a, "a3"), (a, "a4"), (b, "b1"), (own, "own"), (b, "b2"), (a, "a5")];
        assert_eq!(order_of(&jobs), ["a1", "b1", "own", "a2", "b2", "a3", "a4", "a5"]);
    }

    fn block_on<T>(future: impl Future<Output = T>) -> T {
        tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(future)
    }

    /// The pool has one thread. Each long job ends only after the short ones have run, so the test would
    /// hang if the short ones waited for the long ones. More jobs give way than [`SPARE_THREADS`].
    #[test]
    fn a_long_job_gives_way_to_other_tenants_and_to_the_background() {
        let pool = CpuPool::start(1);
        let done = Arc::new(std::sync::atomic::AtomicUsize::new(0));
        let most = SPARE_THREADS as u64 + 4;
        let long = |lane| {
            let (inside, done) = (pool.clone(), Arc::clone(&done));
            pool.run(lane, move || {
                while done.load(std::sync::atomic::Ordering::SeqCst) < 2 {
                    inside.give_way(lane);
                }
            })
        };
        let short = |lane| {
            let done = Arc::clone(&done);
            pool.run(lane, move || _ = done.fetch_add(1, std::sync::atomic::Ordering::SeqCst))
        };
        block_on(async {
            let all = futures_util::future::join_all((1..most).map(|n| long(Lane::Tenant(n))));
            tokio::join!(all, short(Lane::Tenant(most)), short(Lane::Background));
            // The pool still has enough threads for the next jobs.
            for _ in 0..3 {
                short(Lane::Query).await;
            }
        });
        assert_eq!(done.load(std::sync::atomic::Ordering::SeqCst), 5);
        let queues = pool.0.as_ref().unwrap().lock();
        assert_eq!(queues.given_way, 0);
        assert!(queues.threads >= 1);
    }

    #[test]
    fn a_queued_job_of_a_tenant_does_not_run_after_its_client_is_gone() {
        let pool = CpuPool::start(1);
        let ran = Arc::new(Mutex::new(Vec::new()));
        block_on(async {
            let (release, held) = std::sync::mpsc::channel::<()>();
            let first = pool.run(Lane::Query, move || held.recv());
            let note = |name| {
                let ran = Arc::clone(&ran);
                move || ran.lock().unwrap().push(name)
            };
            let mut first = Box::pin(first);
            let mut gone = Box::pin(pool.run(Lane::Tenant(1), note("gone")));
            let mut pushed = Box::pin(pool.run(Lane::Query, note("pushed")));
            // Polling once queues them.
            assert!(futures_util::poll!(&mut first).is_pending());
            assert!(futures_util::poll!(&mut gone).is_pending());
            assert!(futures_util::poll!(&mut pushed).is_pending());
            drop((gone, pushed));
            release.send(()).unwrap();
            first.await.unwrap();
            // Behind the push, whose queue it shares; the client that is gone had its turn before both.
            pool.run(Lane::Query, note("last")).await;
        });
        assert_eq!(*ran.lock().unwrap(), ["pushed", "last"], "the job runs without its client");
    }

    #[test]
    fn futures_and_pool_jobs_charge_the_account_of_their_caller() {
        let pool = CpuPool::start(1);
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let (account, other) = (Account::default(), Account::default());
        let make = |bytes: usize| {
            let pool = pool.clone();
            async move {
                let own = vec![1u8; bytes];
                let of_job = pool.run(Lane::Query, move || vec![1u8; bytes]).await;
                (own, of_job)
            }
        };
        let held = runtime.block_on(async {
            tokio::join!(account.charge(make(1 << 20)), other.charge(make(1 << 19)), make(1 << 18))
        });
        let near = |account: &Account, bytes: u64| account.used().abs_diff(bytes) < BATCH_BYTES as u64;
        assert!(near(&account, 2 << 20) && near(&other, 1 << 20), "{account:?} {other:?}");
        drop(held);
        pool.close();
    }
}

//! The CPU pool: computation runs here, never on the threads that drive I/O.
//!
//! Clients go before [`Lane::Background`] (flush and compaction), but every fourth turn is taken from the
//! background first, so that a storm of queries cannot stop flushing. Clients take turns by their tenants:
//! one that hands in a thousand jobs waits with each of them for all the others' next. A long job lets others
//! go on with [`CpuPool::give_way`] and takes its next turn behind them; no more jobs run at once than
//! before, on a thread more. An inline pool (simulations) runs each job where it is called.

use std::cell::Cell;
use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use tokio::sync::oneshot;

use crate::account::Account;
use crate::nesting::STACK_BYTES;

/// Who waits for a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lane {
    /// A client waits for the result; whatever becomes of the client, the job runs.
    Query,
    /// A client of the tenant with this number waits for the result; when it is gone before the job had its
    /// turn, the job does not run.
    Tenant(u64),
    /// No client waits: flush, compaction, checks.
    Background,
}

/// Jobs that may have given way and wait for their next turn: each keeps a thread. Beyond it jobs go on to
/// their ends.
const GIVEN_WAY_MAX: usize = 128;

/// Threads beyond what may work at once that are kept for the next job that gives way.
const SPARE_THREADS: usize = 4;

/// What is to be done and who waits for it. Jobs have many types: behind the box all are the same code.
struct Job {
    work: Box<dyn FnOnce() + Send>,
    lane: Lane,
    account: Option<Account>,
    ended: oneshot::Sender<std::thread::Result<()>>,
}

/// Tells that a job ended, or how it panicked.
type End = oneshot::Receiver<std::thread::Result<()>>;

impl Job {
    /// A job of the caller, and what tells of its end.
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
        // The caller may have gone away; then nobody needs to know.
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

/// What waits for a turn.
enum Turn {
    /// A job that has not begun.
    Begin(Job),
    /// A job that gave way: its thread waits.
    Resume(Arc<GivenWay>),
}

/// Tells a thread whose job gave way that it may go on.
#[derive(Default)]
struct GivenWay {
    resumed: Mutex<bool>,
    wake: Condvar,
}

/// The number of jobs that no tenant is known of.
const NO_TENANT: u64 = 0;

#[derive(Default)]
struct Queues {
    /// Tenants that wait, in the order of their turns.
    tenants: VecDeque<u64>,
    waiting: HashMap<u64, VecDeque<Turn>>,
    background: VecDeque<Turn>,
    taken: u64,
    /// Jobs that run, those that gave way left out.
    running: usize,
    given_way: usize,
    /// Threads, those whose jobs gave way included.
    threads: usize,
    closed: bool,
}

impl Queues {
    /// The tenants' next turn: each in its turn, whatever it has waiting.
    fn take_client(&mut self) -> Option<Turn> {
        while let Some(tenant) = self.tenants.pop_front() {
            let Some(queue) = self.waiting.get_mut(&tenant) else { continue };
            let next = queue.pop_front();
            if queue.is_empty() {
                self.waiting.remove(&tenant);
            } else {
                self.tenants.push_back(tenant);
            }
            if next.is_some() {
                return next;
            }
        }
        None
    }

    fn take(&mut self) -> Option<Turn> {
        self.taken += 1;
        if self.taken.is_multiple_of(4) {
            self.background.pop_front().or_else(|| self.take_client())
        } else {
            self.take_client().or_else(|| self.background.pop_front())
        }
    }

    fn queue(&mut self, lane: Lane) -> &mut VecDeque<Turn> {
        let tenant = match lane {
            Lane::Background => return &mut self.background,
            Lane::Query => NO_TENANT,
            Lane::Tenant(tenant) => tenant,
        };
        if !self.waiting.contains_key(&tenant) {
            self.tenants.push_back(tenant);
        }
        self.waiting.entry(tenant).or_default()
    }

    /// Whether another tenant waits.
    fn others_wait(&self, lane: Lane) -> bool {
        let own = match lane {
            Lane::Background => return !self.tenants.is_empty(),
            Lane::Query => NO_TENANT,
            Lane::Tenant(tenant) => tenant,
        };
        !self.background.is_empty() || self.tenants.iter().any(|tenant| *tenant != own)
    }
}

thread_local! {
    /// The pool whose job runs on this thread.
    static POOL: Cell<usize> = const { Cell::new(0) };
}

impl CpuPool {
    /// A pool of `threads` threads (at least one), named `cpu-N`.
    pub fn start(threads: usize) -> Self {
        let threads = threads.max(1);
        let shared = Arc::new(Shared { queues: Mutex::default(), wake: Condvar::new(), threads });
        let mut queues = shared.lock();
        for _ in 0..threads {
            // Without threads there is no process: there is nothing to fall back to.
            shared.start_thread(&mut queues).expect("the system refuses to start a thread");
        }
        drop(queues);
        Self(Some(shared))
    }

    /// A pool without threads: jobs run at once in the caller, in a fixed order.
    pub fn inline() -> Self {
        Self(None)
    }

    /// How many jobs run at the same time.
    pub fn parallelism(&self) -> usize {
        self.0.as_ref().map_or(1, |s| s.threads)
    }

    /// Runs `job` on the pool and gives its result; a panic of the job goes on in the caller.
    pub async fn run<T: Send + 'static>(&self, lane: Lane, job: impl FnOnce() -> T + Send + 'static) -> T {
        let Some(shared) = &self.0 else { return job() };
        let result = Arc::new(Mutex::new(None));
        let place = Arc::clone(&result);
        shared.run(lane, Box::new(move || *locked(&place) = Some(job()))).await;
        locked(&result).take().expect("a job that ended left its result")
    }

    /// Whether the caller is a job of this pool.
    pub fn is_here(&self) -> bool {
        self.0.as_ref().is_some_and(|shared| POOL.get() == Arc::as_ptr(shared).addr())
    }

    /// Called by a job of `lane` that has run for a while: when others wait, they go on first, and the call
    /// comes back at the job's next turn. The job must hold no lock that another job may want.
    pub fn give_way(&self, lane: Lane) {
        let Some(shared) = &self.0 else { return };
        // A job that was small enough to run outside of the pool has no turn to give.
        if !self.is_here() {
            return;
        }
        let mut queues = shared.lock();
        if !queues.others_wait(lane) || queues.given_way >= GIVEN_WAY_MAX {
            return;
        }
        // As many threads as may work at once are left without this one, or the job goes on.
        let left = queues.threads - queues.given_way - 1;
        if left < shared.threads && shared.start_thread(&mut queues).is_err() {
            return;
        }
        let turn = Arc::new(GivenWay::default());
        // Before those of its tenant that have not begun: what has begun holds memory.
        queues.queue(lane).push_front(Turn::Resume(Arc::clone(&turn)));
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

    /// Waits until the work is done; a panic goes on here.
    async fn run(&self, lane: Lane, work: Box<dyn FnOnce() + Send>) {
        let (job, end) = Job::new(lane, work);
        self.lock().queue(lane).push_back(Turn::Begin(job));
        self.wake.notify_one();
        if let Err(panic) = end.await.expect("a worker answers every job that somebody waits for") {
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
    /// Lets the threads end once the queued jobs are done.
    pub fn close(&self) {
        if let Some(shared) = &self.0 {
            shared.lock().closed = true;
            shared.wake.notify_all();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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

    /// Runs what waits, turn by turn, and tells the names of the jobs in their order.
    fn order_of(jobs: &[(Lane, &'static str)]) -> Vec<&'static str> {
        let mut queues = Queues::default();
        let order = Arc::new(Mutex::new(Vec::new()));
        for &(lane, name) in jobs {
            let order = Arc::clone(&order);
            let (job, _) = Job::new(Lane::Background, Box::new(move || order.lock().unwrap().push(name)));
            queues.queue(lane).push_back(Turn::Begin(job));
        }
        while let Some(Turn::Begin(job)) = queues.take() {
            job.run();
        }
        assert!(queues.tenants.is_empty() && queues.waiting.is_empty());
        Arc::into_inner(order).unwrap().into_inner().unwrap()
    }

    #[test]
    fn every_fourth_job_comes_from_the_background() {
        let (query, back) = (Lane::Query, Lane::Background);
        let jobs = [(query, "0"), (query, "1"), (query, "2"), (query, "3"), (back, "b"), (back, "c")];
        assert_eq!(order_of(&jobs), ["0", "1", "2", "b", "3", "c"]);
    }

    #[test]
    fn tenants_take_turns_whatever_they_have_waiting() {
        let lanes = [Lane::Tenant(1), Lane::Tenant(2), Lane::Query];
        let [a, b, own] = lanes;
        let jobs =
            [(a, "a1"), (a, "a2"), (a, "a3"), (a, "a4"), (b, "b1"), (own, "own"), (b, "b2"), (a, "a5")];
        assert_eq!(order_of(&jobs), ["a1", "b1", "own", "a2", "b2", "a3", "a4", "a5"]);
    }

    fn block_on<T>(future: impl Future<Output = T>) -> T {
        tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(future)
    }

    /// The only thread belongs to a job that ends when the others have run: it would never end if they had to
    /// wait for it. More of them give way than threads are kept to spare.
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
            // As many threads as before serve the next jobs.
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
    fn a_job_of_a_client_that_is_gone_takes_no_turn() {
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
            // Polled once, they are queued.
            assert!(futures_util::poll!(&mut first).is_pending());
            assert!(futures_util::poll!(&mut gone).is_pending());
            assert!(futures_util::poll!(&mut pushed).is_pending());
            drop((gone, pushed));
            release.send(()).unwrap();
            first.await.unwrap();
            // Behind the push, whose queue it shares; the client that is gone had its turn before both.
            pool.run(Lane::Query, note("last")).await;
        });
        assert_eq!(*ran.lock().unwrap(), ["pushed", "last"], "a push goes on without its client");
    }
}

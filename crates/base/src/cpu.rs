//! The CPU pool: computation runs here, never on the threads that drive I/O.
//!
//! Two lanes: [`Lane::Query`] (someone waits) goes before [`Lane::Background`] (flush and
//! compaction), but every fourth job is taken from the background first, so that a storm of
//! queries cannot stop flushing. An inline pool (simulations) runs each job where it is called.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, PoisonError};

use tokio::sync::oneshot;

/// Who waits for a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lane {
    /// A client waits for the result.
    Query,
    /// Nobody waits: flush, compaction, checks.
    Background,
}

type Job = Box<dyn FnOnce() + Send>;

/// A fixed set of threads for computation. Cheap to clone: a handle.
#[derive(Clone)]
pub struct CpuPool(Option<Arc<Shared>>);

struct Shared {
    queues: Mutex<Queues>,
    wake: Condvar,
    threads: usize,
}

#[derive(Default)]
struct Queues {
    query: VecDeque<Job>,
    background: VecDeque<Job>,
    taken: u64,
    closed: bool,
}

impl Queues {
    fn take(&mut self) -> Option<Job> {
        self.taken += 1;
        if self.taken.is_multiple_of(4) {
            self.background.pop_front().or_else(|| self.query.pop_front())
        } else {
            self.query.pop_front().or_else(|| self.background.pop_front())
        }
    }
}

impl CpuPool {
    /// A pool of `threads` threads (at least one), named `cpu-N`.
    pub fn start(threads: usize) -> Self {
        let threads = threads.max(1);
        let shared = Arc::new(Shared { queues: Mutex::default(), wake: Condvar::new(), threads });
        for n in 0..threads {
            let worker = Worker(Arc::clone(&shared));
            let builder = std::thread::Builder::new().name(format!("cpu-{n}"));
            // Without threads there is no process: refusing here is the only honest answer.
            builder.spawn(move || worker.run()).expect("the system refuses to start a thread");
        }
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
        let (sender, receiver) = oneshot::channel();
        let boxed: Job = Box::new(move || {
            let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(job));
            // The caller may have gone away; then nobody needs the result.
            let _ = sender.send(outcome);
        });
        shared.push(lane, boxed);
        match receiver.await.expect("a worker answers every job it takes") {
            Ok(value) => value,
            Err(panic) => std::panic::resume_unwind(panic),
        }
    }
}

impl Shared {
    fn push(&self, lane: Lane, job: Job) {
        let mut queues = self.queues.lock().unwrap_or_else(PoisonError::into_inner);
        match lane {
            Lane::Query => queues.query.push_back(job),
            Lane::Background => queues.background.push_back(job),
        }
        drop(queues);
        self.wake.notify_one();
    }
}

struct Worker(Arc<Shared>);

impl Worker {
    fn run(self) {
        loop {
            let mut queues = self.0.queues.lock().unwrap_or_else(PoisonError::into_inner);
            let job = loop {
                if let Some(job) = queues.take() {
                    break job;
                }
                if queues.closed {
                    return;
                }
                queues = self.0.wake.wait(queues).unwrap_or_else(PoisonError::into_inner);
            };
            drop(queues);
            job();
        }
    }
}

impl CpuPool {
    /// Lets the threads end once the queued jobs are done.
    pub fn close(&self) {
        if let Some(shared) = &self.0 {
            shared.queues.lock().unwrap_or_else(PoisonError::into_inner).closed = true;
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

    #[test]
    fn every_fourth_job_comes_from_the_background() {
        let mut queues = Queues::default();
        let order = Arc::new(Mutex::new(Vec::new()));
        for n in 0..8 {
            let (name, order) = (n, Arc::clone(&order));
            let job: Job = Box::new(move || order.lock().unwrap().push(name));
            if n < 6 { queues.query.push_back(job) } else { queues.background.push_back(job) }
        }
        while let Some(job) = queues.take() {
            job();
        }
        assert_eq!(*order.lock().unwrap(), vec![0, 1, 2, 6, 3, 4, 5, 7]);
    }
}

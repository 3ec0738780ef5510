//! Admission of queries: a fixed number runs at once, the rest waits, tenants take turns.
//!
//! A tenant with a thousand waiting queries delays another tenant's single query by one turn, not by a
//! thousand. A query enters once per piece of its work, so that a long one lets others pass in between.
//! Waiting is bounded per tenant: beyond that a new query is refused at once with [`Error::Busy`], which
//! clients may retry; the later pieces of a query that began are never refused.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use sandur_model::TenantId;
use tokio::sync::oneshot;

use crate::context::QueryContext;
use crate::error::Error;
use crate::stats::QueryStats;

/// The queue of one process. Cheap to clone: a handle.
#[derive(Clone)]
pub struct FairQueue(Arc<Shared>);

struct Shared {
    running_max: usize,
    waiting_max: usize,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    running: usize,
    /// Tenants that wait, in the order of their turns.
    turns: VecDeque<TenantId>,
    waiting: HashMap<TenantId, VecDeque<oneshot::Sender<Permit>>>,
}

/// The right to run; dropping it lets the next query in.
pub struct Permit {
    queue: Option<Arc<Shared>>,
}

impl FairQueue {
    /// At most `running_max` queries run at once, and `waiting_max` of each tenant wait.
    pub fn new(running_max: usize, waiting_max: usize) -> Self {
        let running_max = running_max.max(1);
        Self(Arc::new(Shared { running_max, waiting_max, state: Mutex::default() }))
    }

    /// Waits for the tenant's turn, no longer than the query has time; the wait counts as its queue time.
    pub async fn enter(&self, context: &QueryContext) -> Result<Permit, Error> {
        let began = context.env().monotonic();
        let is_known = context.admit();
        let receiver = {
            let mut state = self.0.lock();
            if state.running < self.0.running_max {
                state.running += 1;
                return Ok(Permit { queue: Some(Arc::clone(&self.0)) });
            }
            let tenant = context.tenant();
            let known = state.waiting.get_mut(tenant);
            // Those whose client went away wait no more.
            let waiting = known.map_or(0, |queue| {
                queue.retain(|sender| !sender.is_closed());
                queue.len()
            });
            if waiting >= self.0.waiting_max && !is_known {
                return Err(Error::Busy);
            }
            let (sender, receiver) = oneshot::channel();
            if !state.turns.contains(tenant) {
                state.turns.push_back(tenant.clone());
            }
            state.waiting.entry(tenant.clone()).or_default().push_back(sender);
            receiver
        };
        let answer = context.in_time(receiver).await;
        let waited = context.env().monotonic().saturating_sub(began);
        QueryStats::add_time(&context.stats().queue_ns, waited);
        context.check()?;
        answer?.map_err(|_| Error::Cancelled)
    }

    /// Queries that run now.
    pub fn running(&self) -> usize {
        self.0.lock().running
    }

    /// Queries that wait now; those whose client went away wait no more.
    pub fn waiting(&self) -> usize {
        let state = self.0.lock();
        state.waiting.values().flatten().filter(|sender| !sender.is_closed()).count()
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Hands the freed place to the next in turn.
    fn leave(self: Arc<Self>) {
        loop {
            let next = self.lock().take_next();
            let Some(sender) = next else { return };
            match sender.send(Permit { queue: Some(Arc::clone(&self)) }) {
                Ok(()) => return,
                // Its client went away while it waited: not a new leave, the place is still ours.
                Err(mut permit) => permit.queue = None,
            }
        }
    }
}

impl State {
    /// The next waiting query; frees the place when there is none.
    fn take_next(&mut self) -> Option<oneshot::Sender<Permit>> {
        while let Some(tenant) = self.turns.pop_front() {
            let Some(queue) = self.waiting.get_mut(&tenant) else { continue };
            let next = queue.pop_front();
            if queue.is_empty() {
                self.waiting.remove(&tenant);
            } else {
                self.turns.push_back(tenant);
            }
            if next.is_some() {
                return next;
            }
        }
        self.running -= 1;
        None
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        if let Some(queue) = self.queue.take() {
            queue.leave();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sandur_base::{Env, MemoryBudget};
    use std::time::Duration;

    fn context(env: &Env, tenant: &str) -> QueryContext {
        let tenant = TenantId::new(tenant).unwrap();
        QueryContext::new(env.clone(), tenant, MemoryBudget::root("q", 1), Duration::from_secs(600))
    }

    fn paused<T>(future: impl Future<Output = T>) -> T {
        let mut builder = tokio::runtime::Builder::new_current_thread();
        builder.enable_time().start_paused(true).build().unwrap().block_on(future)
    }

    #[test]
    fn tenants_take_turns() {
        paused(async {
            let env = Env::simulated(1, 0);
            let queue = FairQueue::new(1, 10);
            let first = queue.enter(&context(&env, "a")).await.unwrap();
            let order = Arc::new(Mutex::new(Vec::new()));
            let mut tasks = Vec::new();
            for tenant in ["a", "a", "a", "b", "c"] {
                let (queue, order) = (queue.clone(), Arc::clone(&order));
                let (context, inner) = (context(&env, tenant), env.clone());
                tasks.push(env.spawn("query", async move {
                    let _permit = queue.enter(&context).await.unwrap();
                    order.lock().unwrap().push(tenant);
                    inner.sleep(Duration::from_secs(1)).await;
                    context.stats().snapshot().queue_ns
                }));
                env.sleep(Duration::from_millis(1)).await;
            }
            assert_eq!((queue.running(), queue.waiting()), (1, 5));
            drop(first);
            let mut waits = Vec::new();
            for task in tasks {
                waits.push(task.join().await.unwrap());
            }
            assert_eq!(*order.lock().unwrap(), ["a", "b", "c", "a", "a"]);
            assert!(waits[2] > 4_000_000_000, "queue time is counted: {waits:?}");
            assert_eq!((queue.running(), queue.waiting()), (0, 0));
        });
    }

    #[test]
    fn too_many_waiting_are_refused_and_leavers_make_room() {
        paused(async {
            let env = Env::simulated(1, 0);
            let queue = FairQueue::new(1, 1);
            let first = queue.enter(&context(&env, "a")).await.unwrap();
            let (waiting, waiter) = (queue.clone(), context(&env, "a"));
            let task = env.spawn("waits", async move { waiting.enter(&waiter).await.map(drop) });
            env.sleep(Duration::from_millis(1)).await;
            assert!(matches!(queue.enter(&context(&env, "a")).await, Err(Error::Busy)));
            drop(task);
            env.sleep(Duration::from_millis(1)).await;
            let (again, waiter) = (queue.clone(), context(&env, "a"));
            let task = env.spawn("waits", async move { again.enter(&waiter).await.map(drop) });
            env.sleep(Duration::from_millis(1)).await;
            drop(first);
            task.join().await.unwrap().unwrap();
            assert_eq!(queue.running(), 0);
        });
    }

    #[test]
    fn a_query_waits_no_longer_than_it_has_time_and_then_waits_no_more() {
        paused(async {
            let env = Env::simulated(1, 0);
            let queue = FairQueue::new(1, 10);
            let first = queue.enter(&context(&env, "a")).await.unwrap();
            let late = context(&env, "b");
            env.sleep(Duration::from_secs(599)).await;
            let began = env.monotonic();
            assert!(matches!(queue.enter(&late).await, Err(Error::Timeout(_))));
            assert_eq!((env.monotonic() - began).as_secs(), 1, "what is left of ten minutes");
            assert_eq!(late.stats().snapshot().queue_ns, 1_000_000_000);
            assert_eq!((queue.running(), queue.waiting()), (1, 0), "it is not counted any more");
            drop(first);
            assert_eq!(queue.running(), 0);
        });
    }
}

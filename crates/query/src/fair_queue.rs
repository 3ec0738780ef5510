//! Admits queries: a fixed number runs at once, the others wait, and tenants take turns (round-robin).
//!
//! The same number of additional places is reserved for tenants of whom no query runs. So a tenant whose
//! queries occupy all places until their deadlines does not prevent other tenants from running. Running
//! queries share the processors by turns of the CPU pool.
//!
//! A tenant with a thousand waiting queries delays a single query of another tenant by one turn. A query
//! enters the queue once per piece, so that other queries can run between the pieces of a long one. The
//! number of waiting queries is bounded per tenant: beyond it a new query fails at once with
//! [`Error::Busy`], which clients may retry. Later pieces of an admitted query are never refused.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use sandur_base::Turns;
use sandur_model::TenantId;
use tokio::sync::oneshot;

use crate::error::Error;

/// The query queue of the process. Cheap to clone: a handle.
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
    /// Number of running queries by tenant; absent instead of zero.
    running_of: HashMap<TenantId, usize>,
    waiting: Turns<TenantId, oneshot::Sender<Permit>>,
}

/// The right to run; dropping it admits the next query.
pub struct Permit {
    /// The queue, and the tenant whose place the permit occupies.
    held: Option<(Arc<Shared>, TenantId)>,
}

/// The outcome of entering the queue.
pub(crate) enum Entered {
    /// The query may run.
    Now(Permit),
    /// The query waits for its permit. Dropping the receiver gives the place up.
    Later(oneshot::Receiver<Permit>),
}

impl FairQueue {
    /// At most `running_max` queries run at once, and `waiting_max` of each tenant wait.
    pub fn new(running_max: usize, waiting_max: usize) -> Self {
        let running_max = running_max.max(1);
        Self(Arc::new(Shared { running_max, waiting_max, state: Mutex::default() }))
    }

    /// Takes a place for a query of the tenant, or a place in its line. Fails with [`Error::Busy`] when too
    /// many queries of the tenant wait, unless this one was admitted before.
    pub(crate) fn enter(&self, tenant: &TenantId, is_admitted: bool) -> Result<Entered, Error> {
        let mut state = self.0.lock();
        if has_place(state.running, &state.running_of, tenant, self.0.running_max) {
            state.begin(tenant);
            return Ok(Entered::Now(self.0.permit(tenant)));
        }
        // Queries whose clients disconnected do not count.
        let waiting = state.waiting.retain(tenant, |sender| !sender.is_closed());
        if waiting >= self.0.waiting_max && !is_admitted {
            return Err(Error::Busy);
        }
        let (sender, receiver) = oneshot::channel();
        state.waiting.push(tenant.clone(), sender);
        Ok(Entered::Later(receiver))
    }

    /// Number of running queries.
    pub fn running(&self) -> usize {
        self.0.lock().running
    }

    /// Number of waiting queries, without those whose clients disconnected.
    pub fn waiting(&self) -> usize {
        let state = self.0.lock();
        state.waiting.iter().filter(|sender| !sender.is_closed()).count()
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn permit(self: &Arc<Self>, tenant: &TenantId) -> Permit {
        Permit { held: Some((Arc::clone(self), tenant.clone())) }
    }

    /// Frees a place and gives free places to the next waiting query.
    fn leave(self: Arc<Self>, tenant: &TenantId) {
        let mut leaving = tenant.clone();
        loop {
            // In one step, so that a new query cannot take the place of a waiting one.
            let next = self.lock().hand_over(&leaving, self.running_max);
            let Some((tenant, sender)) = next else { return };
            match sender.send(self.permit(&tenant)) {
                Ok(()) => return,
                // The client disconnected while the query waited: the next one gets the place.
                Err(mut permit) => permit.held = None,
            }
            leaving = tenant;
        }
    }
}

/// Whether a query of the tenant may run now.
fn has_place(
    running: usize,
    running_of: &HashMap<TenantId, usize>,
    tenant: &TenantId,
    running_max: usize,
) -> bool {
    running < running_max || (!running_of.contains_key(tenant) && running < running_max.saturating_mul(2))
}

impl State {
    fn begin(&mut self, tenant: &TenantId) {
        self.running += 1;
        *self.running_of.entry(tenant.clone()).or_default() += 1;
    }

    fn end(&mut self, tenant: &TenantId) {
        self.running -= 1;
        if let Some(count) = self.running_of.get_mut(tenant) {
            *count -= 1;
            if *count == 0 {
                self.running_of.remove(tenant);
            }
        }
    }

    /// Ends a query of `leaving` and begins the next waiting query that has a place, if there is one.
    fn hand_over(
        &mut self,
        leaving: &TenantId,
        running_max: usize,
    ) -> Option<(TenantId, oneshot::Sender<Permit>)> {
        self.end(leaving);
        let Self { running, running_of, waiting } = self;
        let next = waiting.pop_where(|tenant| has_place(*running, running_of, tenant, running_max));
        let (tenant, sender) = next?;
        self.begin(&tenant);
        Some((tenant, sender))
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        if let Some((queue, tenant)) = self.held.take() {
            queue.leave(&tenant);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::context::QueryContext;
    use sandur_memory::MemoryBudget;
    use sandur_runtime::Env;
    use std::time::Duration;

    fn context(env: &Env, tenant: &str) -> QueryContext {
        let tenant = TenantId::new(tenant).unwrap();
        QueryContext::new(env.clone(), tenant, MemoryBudget::root("q", 1), Duration::from_secs(600))
    }

    async fn enter(queue: &FairQueue, context: &QueryContext) -> Result<Permit, Error> {
        Ok(context.clone().with_queue(queue.clone()).turn().await?.unwrap())
    }

    fn paused<T>(future: impl Future<Output = T>) -> T {
        let mut builder = tokio::runtime::Builder::new_current_thread();
        builder.enable_time().start_paused(true).build().unwrap().block_on(future)
    }

    #[test]
    fn waiting_queries_are_admitted_round_robin_over_tenants() {
        paused(async {
            let env = Env::simulated(1, 0);
            let queue = FairQueue::new(1, 10);
            let first = enter(&queue, &context(&env, "a")).await.unwrap();
            let order = Arc::new(Mutex::new(Vec::new()));
            let mut tasks = Vec::new();
            for tenant in ["a", "a", "a", "b", "c"] {
                let (queue, order) = (queue.clone(), Arc::clone(&order));
                let (context, inner) = (context(&env, tenant), env.clone());
                tasks.push(env.spawn("query", async move {
                    let _permit = enter(&queue, &context).await.unwrap();
                    order.lock().unwrap().push(tenant);
                    inner.sleep(Duration::from_secs(1)).await;
                    context.stats().snapshot().queue_ns
                }));
                env.sleep(Duration::from_millis(1)).await;
            }
            // An additional place goes to a tenant of whom no query runs.
            assert_eq!((queue.running(), queue.waiting()), (2, 4));
            drop(first);
            let mut waits = Vec::new();
            for task in tasks {
                waits.push(task.join().await.unwrap());
            }
            assert_eq!(*order.lock().unwrap(), ["b", "a", "c", "a", "a"]);
            assert!(waits[2] > 2_000_000_000, "queue time is counted: {waits:?}");
            assert_eq!((queue.running(), queue.waiting()), (0, 0));
        });
    }

    #[test]
    fn a_tenant_that_fills_all_places_does_not_block_other_tenants() {
        paused(async {
            let env = Env::simulated(1, 0);
            let queue = FairQueue::new(2, 10);
            let mut held = Vec::new();
            for tenant in ["a", "a", "b", "c"] {
                held.push(enter(&queue, &context(&env, tenant)).await.unwrap());
            }
            assert_eq!((queue.running(), queue.waiting()), (4, 0));
            let mut tasks = Vec::new();
            for tenant in ["a", "b", "d"] {
                let (queue, context) = (queue.clone(), context(&env, tenant));
                tasks.push(env.spawn("waits", async move { enter(&queue, &context).await.unwrap() }));
                env.sleep(Duration::from_millis(1)).await;
            }
            assert_eq!((queue.running(), queue.waiting()), (4, 3), "there are at most twice as many places");
            drop(held.pop());
            let of_d = tasks.pop().unwrap().join().await.unwrap();
            assert_eq!((queue.running(), queue.waiting()), (4, 2), "the other tenants have running queries");
            drop((of_d, held));
            for task in tasks {
                task.join().await.unwrap();
            }
            assert_eq!((queue.running(), queue.waiting()), (0, 0));
        });
    }

    #[test]
    fn queries_beyond_the_waiting_limit_are_refused_until_one_leaves() {
        paused(async {
            let env = Env::simulated(1, 0);
            let queue = FairQueue::new(1, 1);
            let first = enter(&queue, &context(&env, "a")).await.unwrap();
            let (waiting, waiter) = (queue.clone(), context(&env, "a"));
            let task = env.spawn("waits", async move { enter(&waiting, &waiter).await.map(drop) });
            env.sleep(Duration::from_millis(1)).await;
            assert!(matches!(enter(&queue, &context(&env, "a")).await, Err(Error::Busy)));
            drop(task);
            env.sleep(Duration::from_millis(1)).await;
            let (again, waiter) = (queue.clone(), context(&env, "a"));
            let task = env.spawn("waits", async move { enter(&again, &waiter).await.map(drop) });
            env.sleep(Duration::from_millis(1)).await;
            drop(first);
            task.join().await.unwrap().unwrap();
            assert_eq!(queue.running(), 0);
        });
    }

    #[test]
    fn a_query_without_free_memory_waits_and_fails_at_its_deadline() {
        paused(async {
            let env = Env::simulated(1, 0);
            let all = MemoryBudget::root("all queries", 1_000);
            let context = |limit| {
                let budget = all.child("query", limit);
                QueryContext::new(env.clone(), TenantId::default_tenant(), budget, Duration::from_secs(60))
            };
            let queue = FairQueue::new(4, 10);
            let held = all.reserve(950).unwrap();
            let (waiting, waiter) = (queue.clone(), context(500));
            let task = env.spawn("waits", async move {
                let permit = enter(&waiting, &waiter).await.map(drop);
                (permit, waiter.stats().snapshot().queue_ns)
            });
            env.sleep(Duration::from_secs(5)).await;
            assert_eq!(queue.running(), 0, "less than an eighth of 500 bytes is free");
            let other = context(300);
            enter(&queue, &other).await.map(drop).unwrap();
            drop(held);
            let (permit, waited_ns) = task.join().await.unwrap();
            assert!(permit.is_ok() && waited_ns >= 5_000_000_000, "{waited_ns}");
            let full = context(300);
            let _own = full.budget().reserve(300).unwrap();
            assert!(enter(&queue, &full).await.is_ok(), "its own memory counts as free");
            // A limit above that of all queries together requires an eighth of the latter.
            let _held = all.reserve(500).unwrap();
            assert!(enter(&queue, &context(1 << 40)).await.is_ok());
            let _rest = all.reserve(200).unwrap();
            assert!(matches!(enter(&queue, &context(500)).await, Err(Error::Timeout(_))));
        });
    }

    #[test]
    fn a_query_waits_until_its_deadline_and_then_leaves_the_queue() {
        paused(async {
            let env = Env::simulated(1, 0);
            let queue = FairQueue::new(1, 10);
            let first = enter(&queue, &context(&env, "a")).await.unwrap();
            let late = context(&env, "a");
            env.sleep(Duration::from_secs(599)).await;
            let began = env.monotonic();
            assert!(matches!(enter(&queue, &late).await, Err(Error::Timeout(_))));
            assert_eq!((env.monotonic() - began).as_secs(), 1, "the rest of ten minutes");
            assert_eq!(late.stats().snapshot().queue_ns, 1_000_000_000);
            assert_eq!((queue.running(), queue.waiting()), (1, 0), "it does not count any more");
            drop(first);
            assert_eq!(queue.running(), 0);
        });
    }
}

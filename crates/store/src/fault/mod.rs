//! The fault-injecting twin: a store in memory that fails in the ways of real stores, determined by a
//! seed.
//!
//! [`FaultStore`] implements `object_store::ObjectStore`, so a [`crate::Store`] over it runs the same
//! code as over a bucket. The latency and the fault of each request are drawn from a seeded generator
//! with the probabilities of a [`FaultPlan`]; scripted faults ([`FaultStore::fail_next`]) take
//! precedence. All waiting goes through the `Env`, so that under paused time one seed gives one trace.
//!
//! The faults of writes matter most. A response may be lost after the write was applied. A write may be
//! applied minutes after its sender gave up. A create may be applied twice, so that its sender gets
//! "already exists"; or its sender gets that response although no object exists. If a sender is dropped
//! before its request "arrives", nothing was sent; if it is dropped later, the write was applied.
//!
//! A store can also have the latency of a distant one ([`FaultPlan::distant`]), or accept a limited
//! number of requests per second ([`FaultPlan::limited`]), so that throttling depends on the behaviour
//! of its clients.
//!
//! **Invariants.** The contents of an object are always the complete bytes of one write. Reads see every
//! write that was applied before (as all supported stores promise); only listings may be stale.

mod objects;
mod plan;
mod upload;
mod world;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use sandur_runtime::Env;

pub use plan::{Fault, FaultPlan, Op};
use world::World;

/// A store in memory with faults. Clones share the objects.
#[derive(Clone)]
pub struct FaultStore {
    world: Arc<World>,
    client: Arc<Client>,
}

/// A client of the store: its name in traces, and whether it can reach the store.
struct Client {
    name: String,
    is_cut: AtomicBool,
}

impl FaultStore {
    /// An empty store whose faults are drawn from `seed` with the probabilities of `plan`.
    pub fn new(env: Env, seed: u64, plan: FaultPlan) -> Self {
        let client = Arc::new(Client { name: String::new(), is_cut: AtomicBool::new(false) });
        Self { world: Arc::new(World::new(env, seed, plan)), client }
    }

    /// Another client of the same objects. Its name is in the trace, and it can be disconnected
    /// separately.
    pub fn client(&self, name: &str) -> Self {
        let client = Arc::new(Client { name: format!("{name} "), is_cut: AtomicBool::new(false) });
        Self { world: Arc::clone(&self.world), client }
    }

    /// Disconnects this client from the store, or connects it again. Requests in progress continue.
    pub fn cut(&self, is_cut: bool) {
        self.client.is_cut.store(is_cut, Ordering::Relaxed);
    }

    /// Disables or enables drawn faults and latencies. Scripted faults still happen, and so do delayed
    /// writes and deletes: see [`FaultStore::settle`].
    pub fn quiet(&self, is_quiet: bool) {
        self.world.set_quiet(is_quiet);
    }

    /// Changes the probabilities of later requests.
    pub fn set_plan(&self, plan: FaultPlan) {
        self.world.set_plan(plan);
    }

    /// Makes the next `op` on a path that begins with `path_prefix` fail with `fault`. Several calls are
    /// queued.
    pub fn fail_next(&self, op: Op, path_prefix: &str, fault: Fault) {
        self.world.script(op, path_prefix, fault);
    }

    /// Removes the scripted faults that did not happen yet.
    pub fn clear_scripts(&self) {
        self.world.clear_scripts();
    }

    /// Waits until every delayed write and delete has been applied.
    pub async fn settle(&self) {
        while self.world.has_late_work() {
            self.world.env.sleep(Duration::from_millis(100)).await;
        }
    }

    /// The trace: one line for each request and each delayed write or delete. At most a million lines.
    pub fn trace(&self) -> Vec<String> {
        self.world.trace()
    }

    /// Sets the most requests that are answered: a run of many clients needs more than others.
    pub fn expect_requests(&self, most: u64) {
        self.world.expect_requests(most);
    }

    /// The number of requests so far.
    pub fn requests(&self) -> u64 {
        self.world.requests()
    }

    /// Whether the store got more requests than it answers, which means that a caller is in an endless
    /// loop.
    pub fn is_exhausted(&self) -> bool {
        self.world.is_exhausted()
    }

    /// The number of injected faults of each kind, by name, sorted.
    pub fn injected(&self) -> Vec<(&'static str, u64)> {
        self.world.injected()
    }

    /// The actual objects, without latency, faults or trace.
    pub fn objects(&self) -> Arc<dyn object_store::ObjectStore> {
        Arc::new(self.world.objects())
    }
}

impl std::fmt::Debug for FaultStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "FaultStore({})", self.client.name.trim())
    }
}

impl std::fmt::Display for FaultStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        std::fmt::Debug::fmt(self, f)
    }
}

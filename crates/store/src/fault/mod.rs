//! The fault-injecting twin: a store in memory that fails like real ones do, from a seed.
//!
//! [`FaultStore`] implements `object_store::ObjectStore`, so a [`crate::Store`] over it runs the
//! very code that runs over a bucket. Each request draws its latency and its fault from a seeded
//! generator by the probabilities of a [`FaultPlan`]; scripted faults ([`FaultStore::fail_next`])
//! go first. All waiting is done through the `Env`: under paused time one seed gives one trace.
//!
//! What makes it useful is what happens to writes: an answer may be lost after the write was
//! applied, a write may be applied minutes after its sender gave up, a create may be applied twice
//! so that its sender is told that the name is taken, or be told so although there is no object.
//! A sender that goes away before its request "arrives" has sent nothing; one that goes away
//! later has written.
//!
//! A store may also be far away ([`FaultPlan::distant`]) or answer only so many requests per second
//! ([`FaultPlan::limited`]): then the storm of 503s depends on what its clients do.
//!
//! Invariants: an object's bytes are always the whole bytes of one write; reads see every write
//! that was applied before them (as all supported stores promise), only listings may be stale.

mod objects;
mod plan;
mod upload;
mod world;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use sandur_base::Env;

pub use plan::{Fault, FaultPlan, Op};
use world::World;

/// A store in memory with faults. Clones share the objects.
#[derive(Clone)]
pub struct FaultStore {
    world: Arc<World>,
    client: Arc<Client>,
}

/// Who makes requests: the name in traces, and whether it can reach the store.
struct Client {
    name: String,
    is_cut: AtomicBool,
}

impl FaultStore {
    /// An empty store whose faults are drawn from `seed` by the plan.
    pub fn new(env: Env, seed: u64, plan: FaultPlan) -> Self {
        let client = Arc::new(Client { name: String::new(), is_cut: AtomicBool::new(false) });
        Self { world: Arc::new(World::new(env, seed, plan)), client }
    }

    /// The same objects as seen by another client, whose requests carry its name in traces and
    /// who can be cut off on its own.
    pub fn client(&self, name: &str) -> Self {
        let client = Arc::new(Client { name: format!("{name} "), is_cut: AtomicBool::new(false) });
        Self { world: Arc::clone(&self.world), client }
    }

    /// Cuts this client off from the store, or connects it again. Requests under way go on.
    pub fn cut(&self, is_cut: bool) {
        self.client.is_cut.store(is_cut, Ordering::Relaxed);
    }

    /// Stops (or starts again) all drawn faults and latencies. Scripted faults still happen, and
    /// so do writes and deletes that are already late: see [`FaultStore::settle`].
    pub fn quiet(&self, is_quiet: bool) {
        self.world.set_quiet(is_quiet);
    }

    /// Changes the probabilities from now on.
    pub fn set_plan(&self, plan: FaultPlan) {
        self.world.set_plan(plan);
    }

    /// Makes the next `op` on a path that begins with `path_prefix` meet `fault`. Several calls
    /// queue up.
    pub fn fail_next(&self, op: Op, path_prefix: &str, fault: Fault) {
        self.world.script(op, path_prefix, fault);
    }

    /// Forgets the faults that were scripted and did not happen yet.
    pub fn clear_scripts(&self) {
        self.world.clear_scripts();
    }

    /// Waits until every late write and delete has been applied.
    pub async fn settle(&self) {
        while self.world.has_late_work() {
            self.world.env.sleep(Duration::from_millis(100)).await;
        }
    }

    /// What happened so far, one line per request and per late application. At most a million.
    pub fn trace(&self) -> Vec<String> {
        self.world.trace()
    }

    /// Whether more requests came than the store answers: a caller asks without end.
    pub fn is_exhausted(&self) -> bool {
        self.world.is_exhausted()
    }

    /// How many faults of each kind were injected, by name, sorted.
    pub fn injected(&self) -> Vec<(&'static str, u64)> {
        self.world.injected()
    }

    /// The objects as they really are, without latency, faults or trace.
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

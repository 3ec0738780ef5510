//! The state that all clients of a fault store share: objects, random generator, scripts and trace.
//!
//! Random numbers are drawn in a fixed order, once per request, so that the seed determines everything.
//! No lock is held across a wait.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use object_store::memory::InMemory;
use object_store::path::Path;
use object_store::{ObjectMeta, ObjectStore, PutMode, PutPayload, PutResult, Result};
use sandur_runtime::{Env, Task};

use super::plan::{Fault, FaultPlan, Op};

/// The most requests that are answered, unless a test expects more. Further ones wait, so that a caller in
/// an endless loop does not stop simulated time, and the deadline of the run reveals it.
const REQUESTS_MAX: u64 = 200_000;
/// Longer than any deadline.
pub(super) const NEVER: Duration = Duration::from_secs(24 * 3_600);
/// The most lines of a trace.
const TRACE_MAX: usize = 1_000_000;
/// The most deleted objects that stale listings remember.
const DELETED_MAX: usize = 10_000;

pub(super) struct World {
    pub env: Env,
    /// The objects; clones share them.
    inner: std::sync::Arc<InMemory>,
    state: Mutex<State>,
}

struct State {
    plan: FaultPlan,
    is_quiet: bool,
    /// A separate `Env`, used only for its generator, so that other draws do not affect it.
    dice: Env,
    burst_until: Duration,
    /// Requests that a limited store would still accept, and the time of that number.
    allowance: (f64, Duration),
    scripts: VecDeque<(Op, String, Fault)>,
    trace: Vec<String>,
    injected: BTreeMap<&'static str, u64>,
    requests: u64,
    requests_max: u64,
    /// The time when each object was written: monotonic, and wall clock in milliseconds.
    written: HashMap<Path, (Duration, i64)>,
    deleted: VecDeque<(Duration, ObjectMeta)>,
    late: Vec<Task<()>>,
}

/// The fate of one request.
#[derive(Clone, Copy, Debug)]
pub(super) struct Fate {
    /// Time until the request is applied.
    pub before: Duration,
    /// Time from then until its response arrives.
    pub after: Duration,
    pub fault: Option<Fault>,
}

impl World {
    pub fn new(env: Env, seed: u64, plan: FaultPlan) -> Self {
        let state = State {
            plan,
            is_quiet: false,
            dice: Env::simulated(seed, 0),
            allowance: (0.0, Duration::ZERO),
            burst_until: Duration::ZERO,
            scripts: VecDeque::new(),
            trace: Vec::new(),
            injected: BTreeMap::new(),
            requests: 0,
            requests_max: REQUESTS_MAX,
            written: HashMap::new(),
            deleted: VecDeque::new(),
            late: Vec::new(),
        };
        Self { env, inner: std::sync::Arc::new(InMemory::new()), state: Mutex::new(state) }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn objects(&self) -> std::sync::Arc<InMemory> {
        std::sync::Arc::clone(&self.inner)
    }

    pub fn set_quiet(&self, is_quiet: bool) {
        self.state().is_quiet = is_quiet;
    }

    pub fn set_plan(&self, plan: FaultPlan) {
        self.state().plan = plan;
    }

    pub fn script(&self, op: Op, path_prefix: &str, fault: Fault) {
        self.state().scripts.push_back((op, path_prefix.to_owned(), fault));
    }

    pub fn clear_scripts(&self) {
        self.state().scripts.clear();
    }

    pub fn trace(&self) -> Vec<String> {
        self.state().trace.clone()
    }

    pub fn expect_requests(&self, most: u64) {
        self.state().requests_max = most;
    }

    pub fn requests(&self) -> u64 {
        self.state().requests
    }

    /// Whether there were more requests than are answered.
    pub fn is_exhausted(&self) -> bool {
        let state = self.state();
        state.requests > state.requests_max
    }

    pub fn injected(&self) -> Vec<(&'static str, u64)> {
        self.state().injected.iter().map(|(name, count)| (*name, *count)).collect()
    }

    pub fn has_late_work(&self) -> bool {
        let mut state = self.state();
        state.late.retain(|task| !task.is_finished());
        !state.late.is_empty()
    }

    /// Keeps a task that applies a delayed write or delete.
    pub fn keep(&self, task: Task<()>) {
        let mut state = self.state();
        state.late.retain(|task| !task.is_finished());
        state.late.push(task);
    }

    pub fn note(&self, line: std::fmt::Arguments<'_>) {
        let at = self.env.monotonic();
        let mut state = self.state();
        if state.trace.len() < TRACE_MAX {
            state.trace.push(format!("{:.6} {line}", at.as_secs_f64()));
        }
    }

    /// Draws the fate of a request and adds it to the trace. If `is_spared`, only scripted faults apply.
    pub fn decide(&self, client: &str, op: Op, path: &str, is_spared: bool) -> Fate {
        let now = self.env.monotonic();
        let mut fate = self.state().throw(now, op, path, is_spared);
        if self.state().count_request() {
            fate.before = NEVER;
            return fate;
        }
        let fault = fate.fault.map_or("", Fault::name);
        self.note(format_args!("{client}{} {path} {fault}", op.name()));
        fate
    }

    /// A random number below `bound`, for orders and truncation.
    pub fn below(&self, bound: u64) -> u64 {
        self.state().dice.random_below(bound.max(1))
    }

    /// Applies a write.
    pub async fn apply_put(&self, path: &Path, payload: PutPayload, mode: PutMode) -> Result<PutResult> {
        let result = self.inner.put_opts(path, payload, mode.into()).await?;
        self.mark_written(path);
        Ok(result)
    }

    pub fn mark_written(&self, path: &Path) {
        let (at, wall_ms) = (self.env.monotonic(), self.env.now_ns() / 1_000_000);
        self.state().written.insert(path.clone(), (at, wall_ms));
    }

    /// Applies a delete; with a tag, only if the object still has it.
    pub async fn apply_delete(&self, path: &Path, only: Option<&str>) -> Result<()> {
        use object_store::ObjectStoreExt;
        let Ok(meta) = self.inner.head(path).await else { return Ok(()) };
        if only.is_some_and(|tag| meta.e_tag.as_deref() != Some(tag)) {
            return Ok(());
        }
        self.inner.delete(path).await?;
        let meta = self.dated(meta);
        let at = self.env.monotonic();
        let mut state = self.state();
        state.written.remove(path);
        state.deleted.push_back((at, meta));
        if state.deleted.len() > DELETED_MAX {
            state.deleted.pop_front();
        }
        Ok(())
    }

    /// The object's metadata with the simulated time of its write.
    pub fn dated(&self, mut meta: ObjectMeta) -> ObjectMeta {
        let written = self.state().written.get(&meta.location).copied();
        let (_, wall_ms) = written.unwrap_or_default();
        let since_epoch = Duration::from_millis(wall_ms.max(0) as u64);
        meta.last_modified = (std::time::UNIX_EPOCH + since_epoch).into();
        meta
    }

    /// The contents of a listing. A stale listing lacks the newest objects and contains recently deleted
    /// ones; listings are shuffled with the probability of the plan.
    pub fn as_listed(&self, mut found: Vec<ObjectMeta>, prefix: &Path, is_stale: bool) -> Vec<ObjectMeta> {
        let now = self.env.monotonic();
        let state = self.state();
        if is_stale {
            let back = state.plan.stale_max.max(Duration::from_secs(1)).as_millis() as u64;
            let horizon = now.saturating_sub(Duration::from_millis(1 + state.dice.random_below(back)));
            let written =
                |meta: &ObjectMeta| state.written.get(&meta.location).map_or(Duration::ZERO, |w| w.0);
            found.retain(|meta| written(meta) < horizon);
            let gone = state.deleted.iter().filter(|(at, _)| *at >= horizon);
            let gone = gone.map(|(_, meta)| meta.clone());
            let below = gone.filter(|meta| meta.location.prefix_matches(prefix));
            let below: Vec<ObjectMeta> = below.collect();
            found.extend(below);
        }
        let is_shuffled = !state.is_quiet && state.chance(state.plan.unordered_list);
        if is_shuffled {
            for n in (1..found.len()).rev() {
                let other = state.dice.random_below(n as u64 + 1) as usize;
                found.swap(n, other);
            }
        }
        found
    }
}

impl State {
    /// Counts a request; returns whether there were too many.
    fn count_request(&mut self) -> bool {
        self.requests += 1;
        self.requests > self.requests_max
    }

    fn chance(&self, probability: f64) -> bool {
        self.uniform() < probability
    }

    /// A random number from 0 (inclusive) to 1 (exclusive).
    fn uniform(&self) -> f64 {
        (self.dice.random_u64() >> 11) as f64 / (1u64 << 53) as f64
    }

    fn up_to(&self, longest: Duration) -> Duration {
        let micros = longest.as_micros() as u64;
        Duration::from_micros(1 + self.dice.random_below(micros.max(1)))
    }

    fn throw(&mut self, now: Duration, op: Op, path: &str, is_spared: bool) -> Fate {
        let scripted =
            self.scripts.iter().position(|(o, prefix, _)| *o == op && path.starts_with(prefix.as_str()));
        let scripted = scripted.and_then(|at| self.scripts.remove(at)).map(|(_, _, fault)| fault);
        if self.is_quiet && scripted.is_none() {
            return Fate { before: Duration::ZERO, after: Duration::ZERO, fault: None };
        }
        let extra = if op == Op::Get { self.plan.get_extra } else { Duration::ZERO };
        let whole = self.latency() + extra + self.plan.extra;
        let before = whole.mul_f64(self.uniform());
        let mut fate = Fate { before, after: whole.saturating_sub(before), fault: scripted };
        if scripted.is_none() && !is_spared {
            fate.fault = if self.is_denied(op) {
                Some(Fault::Denied)
            } else if self.is_over_limit(now) {
                Some(Fault::Throttled)
            } else {
                self.draw(now, op)
            };
        }
        if let Some(Fault::Slow(extra)) = fate.fault {
            fate.before += extra / 2;
            fate.after += extra / 2;
        }
        if let Some(fault) = fate.fault {
            *self.injected.entry(fault.name()).or_default() += 1;
        }
        fate
    }

    /// A log-normal latency around the median (Box and Muller, 1958).
    fn latency(&self) -> Duration {
        let (u, v) = (1.0 - self.uniform(), self.uniform());
        let normal = (-2.0 * u.ln()).sqrt() * (std::f64::consts::TAU * v).cos();
        let factor = (self.plan.latency_sigma * normal).exp().min(50.0);
        self.plan.latency_median.mul_f64(factor)
    }

    fn is_denied(&self, op: Op) -> bool {
        if matches!(op, Op::Get | Op::List) { self.plan.denies_reads } else { self.plan.denies_writes }
    }

    /// Whether a limited store refuses the request. Refused requests do not count.
    fn is_over_limit(&mut self, now: Duration) -> bool {
        let rate = self.plan.requests_per_second;
        if rate <= 0.0 {
            return false;
        }
        let (left, since) = self.allowance;
        let earned = now.saturating_sub(since).as_secs_f64() * rate;
        let left = (left + earned).min(self.plan.requests_burst.max(1.0));
        let is_over = left < 1.0;
        self.allowance = (if is_over { left } else { left - 1.0 }, now);
        is_over
    }

    fn draw(&mut self, now: Duration, op: Op) -> Option<Fault> {
        if now < self.burst_until {
            return self.chance(0.9).then_some(Fault::Throttled);
        }
        if self.chance(self.plan.burst) {
            self.burst_until = now + self.up_to(self.plan.burst_max);
            return Some(Fault::Throttled);
        }
        let plan = &self.plan;
        let candidates = [
            (plan.refused, Fault::Refused, true),
            (plan.throttled, Fault::Throttled, true),
            (plan.failed, Fault::Failed, true),
            (plan.hang, Fault::Hang, true),
            (plan.spike, Fault::Slow(self.up_to(plan.spike_max)), true),
            (plan.lost_ack, Fault::LostAck, op.is_write() || op == Op::Upload),
            (plan.late_apply, Fault::LateApply(self.up_to(plan.late_max)), op.is_write()),
            (plan.applied_twice, Fault::AppliedTwice, op.is_write()),
            (plan.false_conflict, Fault::FalseConflict, op.is_conditional()),
            (plan.truncated, Fault::Truncated, op == Op::Get),
            (plan.broken_body, Fault::BrokenBody, op == Op::Get),
            (plan.stale_list, Fault::StaleList, op == Op::List),
            (plan.partial_list, Fault::PartialList, op == Op::List),
            (plan.delayed_delete, Fault::DelayedDelete(self.up_to(plan.late_max)), op == Op::Delete),
        ];
        // One draw for all faults: at most one happens, and their probabilities add up.
        let mut thrown = self.uniform();
        for (probability, fault, applies) in candidates {
            if !applies {
                continue;
            }
            if thrown < probability {
                return Some(fault);
            }
            thrown -= probability;
        }
        None
    }
}

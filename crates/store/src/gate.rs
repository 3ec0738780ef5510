//! Limits the concurrent requests of each lane, and queues the others.
//!
//! Every lane has its own slots, so that many queries cannot take those of the WAL or the catalog. The
//! number of slots follows the responses of the store ([`Window`]). Below the smallest window, requests
//! of the lane are spaced out ([`Pace`]), and so are those of all small lanes together ([`CommonPace`]).
//! A slot is held for one attempt, never during a pause between attempts, and no request holds one slot
//! while it waits for another, so there is no deadlock. The queue is bounded, and is served round-robin
//! over tenants ([`Turns`]). A waiting request that is dropped leaves the queue, or passes its slot on.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use sandur_base::Turns;
use sandur_runtime::Env;
use tokio::sync::oneshot;

use crate::cause::Cause;
use crate::classify::Failure;
use crate::lane::Lane;
use crate::pace::{CommonPace, Pace};
use crate::request_limits::RequestLimits;
use crate::window::{Bounds, Cut, Window};

/// The tenant of a request; `None` for the database itself.
pub(crate) type RequestTenant = Option<Arc<str>>;

/// A lane counts as troubled until this long after the last throttled request or timeout.
const CALM_AFTER: Duration = Duration::from_secs(10);

/// The slots of all lanes.
pub(crate) struct Gate([Arc<LaneGate>; Lane::ALL.len()]);

type Common = Arc<Mutex<CommonPace>>;

struct LaneGate {
    env: Env,
    lane: Lane,
    waiting_max: usize,
    state: Mutex<State>,
    /// The pace shared by all lanes except that of block reads.
    common: Common,
}

struct State {
    window: Window,
    pace: Pace,
    under_way: u32,
    turns: Turns<RequestTenant, oneshot::Sender<()>>,
}

/// The state of a lane, for gauges.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LaneView {
    /// Size of the window: the most requests in progress.
    pub window: u32,
    /// Requests in progress.
    pub under_way: u32,
    /// Requests that wait for a slot.
    pub waiting: usize,
    /// Time between two requests.
    pub spacing: Duration,
}

/// The right to have one request in progress. Dropping it frees the slot.
pub(crate) struct Slot {
    lane: Arc<LaneGate>,
    began: Duration,
}

impl Gate {
    /// Slots for a store over a network, whose latency requires many concurrent requests.
    pub fn bucket(env: &Env, request_limits: &RequestLimits) -> Self {
        Self::with(env, request_limits, |lane| match lane {
            Lane::Wal => Bounds { floor: 8, start: 16, ceiling: 32 },
            Lane::Follow => Bounds { floor: 4, start: 8, ceiling: 16 },
            Lane::Catalog => Bounds { floor: 4, start: 8, ceiling: 16 },
            Lane::Read => adaptive(request_limits.concurrent_reads_max, 32),
            Lane::Write => adaptive(request_limits.concurrent_writes_max, 16),
            Lane::Gc => Bounds { floor: 1, start: 4, ceiling: 8 },
            Lane::Other => Bounds::fixed(4),
        })
    }

    /// Slots for a local directory, where each request occupies a thread and none is throttled.
    pub fn local(env: &Env, request_limits: &RequestLimits) -> Self {
        Self::with(env, request_limits, |lane| match lane {
            Lane::Read => Bounds::fixed(32),
            Lane::Wal | Lane::Follow | Lane::Catalog | Lane::Write => Bounds::fixed(8),
            Lane::Gc | Lane::Other => Bounds::fixed(4),
        })
    }

    fn with(env: &Env, request_limits: &RequestLimits, bounds: impl Fn(Lane) -> Bounds) -> Self {
        let common = Common::default();
        Self(Lane::ALL.map(|lane| {
            let (window, pace, turns) = (Window::new(bounds(lane)), Pace::default(), Turns::default());
            let state = Mutex::new(State { window, pace, under_way: 0, turns });
            let (env, waiting_max, common) = (env.clone(), request_limits.waiting_max, Arc::clone(&common));
            Arc::new(LaneGate { env, lane, waiting_max, state, common })
        }))
    }

    /// Waits for a slot; a retry precedes the other requests of its tenant.
    pub async fn enter(
        &self,
        lane: Lane,
        tenant: &RequestTenant,
        is_repeated: bool,
    ) -> Result<Slot, Failure> {
        let lane = &self.0[lane.index()];
        if let Some(waiting) = lane.line_up(tenant, is_repeated)? {
            waiting.until_granted().await;
        }
        let mut slot = Slot { lane: Arc::clone(lane), began: Duration::ZERO };
        let now = lane.env.monotonic();
        let shared = lane.common().map_or(now, |mut common| common.next(now, lane.lane.is_urgent()));
        let starts_at = lane.state().pace.next(now).max(shared);
        if starts_at > now {
            lane.env.sleep(starts_at - now).await;
        }
        slot.began = lane.env.monotonic();
        Ok(slot)
    }

    /// A slot, if one is free and no request waits.
    pub fn try_enter(&self, lane: Lane) -> Option<Slot> {
        let lane = &self.0[lane.index()];
        let began = lane.env.monotonic();
        lane.state().take().then(|| Slot { lane: Arc::clone(lane), began })
    }

    /// Whether the store has not throttled the lane recently.
    pub fn is_calm(&self, lane: Lane) -> bool {
        let lane = &self.0[lane.index()];
        let now = lane.env.monotonic();
        let state = lane.state();
        state.pace.spacing().is_zero() && state.window.cut_at().is_none_or(|at| at + CALM_AFTER < now)
    }

    /// The state of a lane.
    pub fn view(&self, lane: Lane) -> LaneView {
        let state = self.0[lane.index()].state();
        let (window, spacing) = (state.window.slots(), state.pace.spacing());
        LaneView { window, under_way: state.under_way, waiting: state.turns.len(), spacing }
    }
}

/// Bounds of a window from a few slots to `ceiling`.
fn adaptive(ceiling: u32, start: u32) -> Bounds {
    let ceiling = ceiling.max(1);
    Bounds { floor: ceiling.min(4), start: ceiling.min(start), ceiling }
}

impl LaneGate {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The common pace, if it applies to the lane. Block reads are frequent enough to find their own
    /// pace.
    fn common(&self) -> Option<MutexGuard<'_, CommonPace>> {
        let keeps = self.lane != Lane::Read;
        keeps.then(|| self.common.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Takes a slot (`None`: no need to wait), or a place in the queue.
    fn line_up(
        self: &Arc<Self>,
        tenant: &RequestTenant,
        is_repeated: bool,
    ) -> Result<Option<Waiting>, Failure> {
        let mut state = self.state();
        if state.take() {
            return Ok(None);
        }
        if state.turns.len() >= self.waiting_max {
            let reason = format!(
                "{} requests of lane {} are waiting (storage.max_waiting)",
                self.waiting_max,
                self.lane.name()
            );
            return Err(Failure::new(Cause::Busy, reason));
        }
        let (grant, granted) = oneshot::channel();
        // A retry goes to the front: it has waited before.
        let number = match is_repeated {
            true => state.turns.push_first(tenant.clone(), grant),
            false => state.turns.push(tenant.clone(), grant),
        };
        Ok(Some(Waiting { lane: Arc::clone(self), tenant: tenant.clone(), number, granted: Some(granted) }))
    }

    fn give_back(&self) {
        let mut state = self.state();
        state.under_way -= 1;
        state.grant();
    }
}

impl State {
    fn take(&mut self) -> bool {
        let is_free = self.turns.is_empty() && self.under_way < self.window.slots();
        self.under_way += u32::from(is_free);
        is_free
    }

    /// Gives free slots to waiting requests.
    fn grant(&mut self) {
        while self.under_way < self.window.slots() {
            let Some(next) = self.turns.pop() else { return };
            // A dropped request has left the queue; a grant that is not received is taken back.
            self.under_way += u32::from(next.send(()).is_ok());
        }
    }
}

/// A place in the queue. Dropping it leaves the queue, or releases a slot that was granted meanwhile.
struct Waiting {
    lane: Arc<LaneGate>,
    tenant: RequestTenant,
    number: u64,
    granted: Option<oneshot::Receiver<()>>,
}

impl Waiting {
    async fn until_granted(mut self) {
        if let Some(granted) = &mut self.granted {
            let grant = granted.await;
            debug_assert!(grant.is_ok(), "only a request that leaves removes its own grant from the queue");
        }
        self.granted = None;
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        let Some(mut granted) = self.granted.take() else { return };
        self.lane.state().turns.leave(&self.tenant, self.number);
        granted.close();
        if granted.try_recv().is_ok() {
            self.lane.give_back();
        }
    }
}

impl Slot {
    /// Ends the attempt, with success or with this failure, and adjusts window and pace.
    pub fn finish(self, failure: Option<&Failure>) {
        let now = self.lane.env.monotonic();
        let mut state = self.lane.state();
        let under_way = state.under_way;
        match failure {
            Some(failure) if failure.is_pressure() => {
                if let Some(mut common) = self.lane.common() {
                    common.slow_down(self.began, now);
                }
                let cut = state.window.cut(self.began, now);
                if self.lane.lane.is_urgent() {
                    return;
                }
                if cut == Cut::AtFloor {
                    state.pace.slow_down();
                }
                if let Some(held) = failure.retry_after {
                    state.pace.hold(now, held);
                }
            }
            Some(failure) if !failure.is_answer() => {}
            _ => {
                if let Some(mut common) = self.lane.common() {
                    common.ease(now);
                }
                if state.pace.spacing().is_zero() {
                    state.window.grow(under_way);
                } else {
                    state.pace.ease();
                }
            }
        }
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.lane.give_back();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;

    fn gate(request_limits: RequestLimits) -> (Env, Arc<Gate>) {
        let env = Env::simulated(1, 0);
        (env.clone(), Arc::new(Gate::bucket(&env, &request_limits)))
    }

    fn throttled() -> Failure {
        Failure::new(Cause::Throttled, "503")
    }

    async fn fill(gate: &Gate, lane: Lane) -> Vec<Slot> {
        let mut slots = Vec::new();
        while slots.len() < gate.view(lane).window as usize {
            slots.push(gate.enter(lane, &None, false).await.unwrap());
        }
        slots
    }

    #[tokio::test(start_paused = true)]
    async fn urgent_lanes_keep_their_reserved_slots_and_are_not_spaced_out() {
        let (env, gate) = gate(RequestLimits::default());
        for lane in [Lane::Wal, Lane::Catalog, Lane::Read, Lane::Write, Lane::Gc] {
            for _ in 0..50 {
                env.sleep(Duration::from_millis(1)).await;
                gate.enter(lane, &None, false).await.unwrap().finish(Some(&throttled()));
            }
        }
        let view = |lane| (gate.view(lane).window, gate.view(lane).spacing.is_zero());
        assert_eq!([view(Lane::Wal), view(Lane::Catalog)], [(8, true), (4, true)]);
        assert_eq!(
            [view(Lane::Read), view(Lane::Write), view(Lane::Gc)],
            [(4, false), (4, false), (1, false)]
        );
        assert!(!gate.is_calm(Lane::Read) && gate.is_calm(Lane::Other));
    }

    #[tokio::test(start_paused = true)]
    async fn the_queue_is_bounded_and_the_error_names_the_limit() {
        let (env, gate) = gate(RequestLimits { waiting_max: 10, ..RequestLimits::default() });
        let held = fill(&gate, Lane::Read).await;
        assert!(gate.try_enter(Lane::Read).is_none());
        let waiting: Vec<_> = (0..10)
            .map(|_| {
                let gate = Arc::clone(&gate);
                env.spawn("waiter", async move { gate.enter(Lane::Read, &None, false).await.map(drop) })
            })
            .collect();
        env.sleep(Duration::from_millis(1)).await;
        let refused = gate.enter(Lane::Read, &None, false).await.err().unwrap();
        assert!(refused.cause == Cause::Busy && refused.reason.contains("storage.max_waiting"));
        assert!(gate.enter(Lane::Wal, &None, false).await.is_ok(), "another lane has its own queue");
        drop(held);
        for waiter in waiting {
            waiter.join().await.unwrap().unwrap();
        }
        assert_eq!((gate.view(Lane::Read).under_way, gate.view(Lane::Read).waiting), (0, 0));
    }

    /// Goal: no slot is lost or duplicated, whenever waiting requests are dropped.
    #[tokio::test(start_paused = true)]
    async fn slots_are_neither_lost_nor_duplicated_when_waiters_are_dropped() {
        for seed in 0..50 {
            let env = Env::simulated(seed, 0);
            let gate = Arc::new(Gate::bucket(&env, &RequestLimits::default()));
            let most = Arc::new(AtomicU32::new(0));
            let tasks: Vec<_> = (0..300)
                .map(|n| {
                    let (env, gate, most) = (env.clone(), Arc::clone(&gate), Arc::clone(&most));
                    let name = env.clone();
                    name.spawn("client", async move {
                        let tenant: RequestTenant = Some(format!("{}", n % 3).into());
                        env.sleep(Duration::from_millis(env.random_below(20))).await;
                        let patience = Duration::from_millis(env.random_below(40));
                        let entered =
                            env.timeout(patience, gate.enter(Lane::Write, &tenant, n % 7 == 0)).await;
                        let Some(Ok(slot)) = entered else { return };
                        most.fetch_max(gate.view(Lane::Write).under_way, Ordering::Relaxed);
                        env.sleep(Duration::from_millis(env.random_below(10))).await;
                        match env.random_below(3) {
                            0 => slot.finish(None),
                            1 => slot.finish(Some(&throttled())),
                            _ => drop(slot),
                        }
                    })
                })
                .collect();
            for task in tasks {
                task.join().await.unwrap();
            }
            let view = gate.view(Lane::Write);
            assert_eq!((view.under_way, view.waiting), (0, 0), "seed {seed}");
            assert!(most.load(Ordering::Relaxed) <= 32, "seed {seed}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn retry_after_holds_lanes_that_are_not_urgent() {
        let (env, gate) = gate(RequestLimits::default());
        let asked = Failure { retry_after: Some(Duration::from_secs(2)), ..throttled() };
        for lane in [Lane::Read, Lane::Wal] {
            gate.enter(lane, &None, false).await.unwrap().finish(Some(&asked));
        }
        let began = env.monotonic();
        drop(gate.enter(Lane::Wal, &None, false).await.unwrap());
        assert!(env.monotonic() < began + Duration::from_millis(10), "only the common pace delays it");
        drop(gate.enter(Lane::Read, &None, false).await.unwrap());
        assert_eq!(env.monotonic(), began + Duration::from_secs(2));
    }
}

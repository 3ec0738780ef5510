//! Shares a memory budget fairly: requests wait when it is short, and no party can starve the others.
//!
//! A [`FairReservation`] belongs to two parties (a tenant and an address) and grows in steps while its
//! work runs.
//!
//! **Shares.** A party may hold at most a fixed multiple of the bytes that remain free after the step
//! (the dynamic thresholds of shared-memory switches, Choudhury and Hahne, 1998). With a multiple of
//! two, one party alone gets two thirds of the budget and two parties get two fifths each. Some memory
//! always stays free for the next party, and the number of parties need not be known.
//!
//! **Progress.** Waiting reservations that already hold memory are served before those that hold none,
//! the oldest first. When every reservation that could release memory waits for memory, the youngest of
//! them is given up, so that the oldest always finishes. While others wait, a reservation that has been
//! receiving from a client for longer than [`Patience::receive`] is given up too. A lasting reservation
//! (the buffers of a long-lived connection) is not expected to end by itself. It is given up only
//! because its client is slow, and only other lasting reservations are given up for it.
//!
//! **Invariants.** The sum of all reservations never exceeds the limit. Memory that other users hold of the
//! budget, or of its ancestors, is not free either. Every wait ends: with memory, at its time limit, or
//! because the reservation was given up.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;

use sandur_base::units::ByteSize;
use sandur_memory::{MemoryBudget, Reservation};

use crate::env::Env;

/// A tenant or an address that shares the budget, and its bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Party {
    /// Identifies the party.
    pub key: u64,
    /// The party may hold at most this multiple of the bytes that remain free.
    pub multiple: u64,
}

/// Limits on waiting.
#[derive(Clone, Copy, Debug)]
pub struct Patience {
    /// Longest wait for memory.
    pub wait: Duration,
    /// The most reservations that may wait at once.
    pub waiting_max: usize,
    /// How long a reservation may receive from its client while others wait.
    pub receive: Duration,
}

/// Why a reservation did not grow.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Short {
    /// The reservation would exceed the most that one reservation may hold.
    #[error(
        "one request needs {}, but the memory budget '{budget}' allows at most {} for one request",
        ByteSize(*.asked), ByteSize(*.most)
    )]
    TooLarge {
        /// Name of the budget.
        budget: String,
        /// Bytes of the reservation including the step.
        asked: u64,
        /// The most bytes of one reservation.
        most: u64,
    },
    /// No memory became free in time, too many reservations wait, or the reservation was given up for
    /// others.
    #[error("the memory budget '{budget}' of {} is in use by other requests", ByteSize(*.limit))]
    Busy {
        /// Name of the budget.
        budget: String,
        /// Bytes of the budget.
        limit: u64,
    },
}

/// A shared budget. Cheap to clone: a handle.
#[derive(Clone)]
pub struct FairBudget(Arc<Inner>);

struct Inner {
    env: Env,
    budget: MemoryBudget,
    patience: Patience,
    state: Mutex<State>,
}

struct State {
    by_party: HashMap<u64, u64>,
    /// By ticket, the oldest reservation first.
    reservations: BTreeMap<u64, Standing>,
    next: u64,
    waiting: usize,
    paused: bool,
}

struct Standing {
    parties: [Party; 2],
    held: Reservation,
    /// Bytes that the reservation waits for; 0 when it does not wait.
    wants: u64,
    receiving_since: Option<Duration>,
    /// Whether the reservation is not expected to end by itself.
    lasts: bool,
    given_up: bool,
    news: Arc<Notify>,
}

const IS_IN_TABLE: &str = "a reservation is in the table until it is dropped";

impl Standing {
    fn is_new(&self) -> bool {
        self.held.bytes() == 0
    }
}

/// How often a waiting reservation checks whether another one has been receiving for too long.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// One reservation gets at most the budget divided by this number: less than the two thirds that one
/// address alone may hold.
const RESERVATION_PART: u64 = 2;

impl FairBudget {
    /// Shares `budget` between reservations, which wait within the limits of `patience`.
    pub fn new(env: Env, budget: MemoryBudget, patience: Patience) -> Self {
        let state = State {
            by_party: HashMap::new(),
            reservations: BTreeMap::new(),
            next: 0,
            waiting: 0,
            paused: false,
        };
        Self(Arc::new(Inner { env, budget, patience, state: Mutex::new(state) }))
    }

    /// A reservation of two parties that holds no bytes yet.
    pub fn reservation(&self, parties: [Party; 2]) -> FairReservation {
        let mut state = self.state();
        let ticket = state.next;
        state.next += 1;
        let news = Arc::new(Notify::new());
        let standing = Standing {
            parties,
            held: self.0.budget.empty(),
            wants: 0,
            receiving_since: None,
            lasts: false,
            given_up: false,
            news: Arc::clone(&news),
        };
        state.reservations.insert(ticket, standing);
        FairReservation { memory: self.clone(), ticket, news }
    }

    /// The budget that the reservations share.
    pub fn budget(&self) -> &MemoryBudget {
        &self.0.budget
    }

    /// The most bytes of one reservation.
    pub fn reservation_max(&self) -> u64 {
        self.0.budget.limit() / RESERVATION_PART
    }

    /// While paused, no reservation grows.
    pub fn set_paused(&self, paused: bool) {
        let mut state = self.state();
        state.paused = paused;
        state.settle(self.0.env.monotonic(), self.0.patience.receive);
    }

    /// How many reservations wait.
    pub fn waiting(&self) -> usize {
        self.state().waiting
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn busy(&self) -> Short {
        Short::Busy { budget: self.0.budget.name().to_owned(), limit: self.0.budget.limit() }
    }
}

impl State {
    /// What prevents a reservation from growing by `more` bytes: `None` when nothing does,
    /// `Some(Some(key))` when the share of a party does, `Some(None)` when the budget does.
    fn obstacle(&self, standing: &Standing, more: u64) -> Option<Option<u64>> {
        if self.paused {
            return Some(None);
        }
        let Some(free) = standing.held.budget().available().checked_sub(more) else { return Some(None) };
        let over = standing.parties.iter().find(|party| {
            let held = self.by_party.get(&party.key).copied().unwrap_or(0);
            held.saturating_add(more) > party.multiple.saturating_mul(free)
        });
        over.map(|party| Some(party.key))
    }

    /// Grants a reservation `more` bytes; false when other users of the budget have taken them in the
    /// meantime.
    fn grant(&mut self, ticket: u64, more: u64) -> bool {
        let standing = self.reservations.get_mut(&ticket).expect(IS_IN_TABLE);
        if standing.held.grow(more).is_err() {
            return false;
        }
        if standing.wants > 0 {
            standing.wants = 0;
            self.waiting -= 1;
        }
        standing.news.notify_one();
        for party in standing.parties {
            *self.by_party.entry(party.key).or_default() += more;
        }
        true
    }

    fn release(&mut self, ticket: u64, less: u64) {
        let Some(standing) = self.reservations.get_mut(&ticket) else { return };
        let less = less.min(standing.held.bytes());
        standing.held.shrink(less);
        for party in standing.parties {
            if let Some(held) = self.by_party.get_mut(&party.key) {
                *held -= less;
                if *held == 0 {
                    self.by_party.remove(&party.key);
                }
            }
        }
    }

    fn give_up(&mut self, ticket: u64) {
        let Some(standing) = self.reservations.get_mut(&ticket) else { return };
        standing.given_up = true;
        if standing.wants > 0 {
            standing.wants = 0;
            self.waiting -= 1;
        }
        standing.news.notify_one();
    }

    /// Distributes free memory to the waiting reservations; gives a reservation up if it does not suffice.
    fn settle(&mut self, now: Duration, receive_max: Duration) {
        if self.waiting == 0 {
            return;
        }
        let mut queue: Vec<(bool, u64, u64)> = self
            .reservations
            .iter()
            .filter(|(_, s)| s.wants > 0)
            .map(|(ticket, s)| {
                let most =
                    s.parties.iter().filter_map(|p| self.by_party.get(&p.key)).max().copied().unwrap_or(0);
                // Reservations that hold memory are ordered by age, new ones by the bytes that their
                // parties hold.
                (s.is_new(), if s.is_new() { most } else { 0 }, *ticket)
            })
            .collect();
        queue.sort_unstable();
        let (mut shortage, mut lasting) = (None, None);
        for (is_new, _, ticket) in queue {
            let standing = &self.reservations[&ticket];
            let (wants, lasts) = (standing.wants, standing.lasts);
            match self.obstacle(standing, wants) {
                None if self.grant(ticket, wants) => {}
                obstacle => {
                    let obstacle = obstacle.flatten();
                    let before = if lasts { &mut lasting } else { &mut shortage };
                    before.get_or_insert((ticket, is_new, obstacle));
                    if obstacle.is_none() && !lasts {
                        break; // later reservations must not take the memory that this one waits for
                    }
                }
            }
        }
        if let Some((ticket, is_new, obstacle)) = shortage.or(lasting).filter(|_| !self.paused) {
            self.make_room(ticket, is_new, obstacle, now.saturating_sub(receive_max));
        }
    }

    /// Gives up a reservation for the first waiting one, unless another reservation is expected to
    /// release memory by itself.
    fn make_room(&mut self, for_ticket: u64, is_new: bool, obstacle: Option<u64>, before: Duration) {
        let others = || self.reservations.iter().filter(|(ticket, s)| **ticket != for_ticket && !s.is_new());
        if others().any(|(_, s)| s.given_up) {
            return; // another reservation has been given up and will release memory
        }
        let lasts = self.reservations.get(&for_ticket).is_some_and(|s| s.lasts);
        let slow = others().filter(|(_, s)| s.receiving_since.is_some_and(|since| since < before));
        if let Some((&ticket, _)) =
            slow.filter(|(_, s)| s.lasts || !lasts).max_by_key(|(_, s)| s.held.bytes())
        {
            return self.give_up(ticket);
        }
        if is_new || lasts || others().any(|(_, s)| s.wants == 0 && !s.lasts) {
            return; // another reservation will end by itself, or the waiting one has no precedence
        }
        // Shares shrink with free memory, so the end of any reservation helps; one of the same party helps
        // most.
        let same = |s: &Standing| s.parties.iter().any(|p| Some(p.key) == obstacle);
        let ending = others().filter(|(_, s)| !s.lasts);
        let youngest = ending.max_by_key(|(ticket, s)| (same(s), **ticket)).map(|(ticket, _)| *ticket);
        if let Some(ticket) = youngest {
            self.give_up(ticket);
        }
    }
}

/// The memory of one request. Dropping it releases all of it.
pub struct FairReservation {
    memory: FairBudget,
    ticket: u64,
    news: Arc<Notify>,
}

impl FairReservation {
    /// Bytes held.
    pub fn bytes(&self) -> u64 {
        self.memory.state().reservations[&self.ticket].held.bytes()
    }

    fn check_size(&self, held: u64, more: u64) -> Result<(), Short> {
        let (asked, most) = (held.saturating_add(more), self.memory.reservation_max());
        if asked > most {
            return Err(Short::TooLarge { budget: self.memory.0.budget.name().to_owned(), asked, most });
        }
        Ok(())
    }

    /// Reserves `more` bytes now; fails instead of waiting.
    pub fn try_grow(&mut self, more: u64) -> Result<(), Short> {
        let mut state = self.memory.state();
        let standing = &state.reservations[&self.ticket];
        self.check_size(standing.held.bytes(), more)?;
        // Waiting reservations are served first; else many small steps would starve a large one.
        let is_refused = standing.given_up || state.waiting > 0 || state.obstacle(standing, more).is_some();
        if is_refused || !state.grant(self.ticket, more) {
            return Err(self.memory.busy());
        }
        Ok(())
    }

    /// Reserves `more` bytes; waits for them if necessary.
    pub async fn grow(&mut self, more: u64) -> Result<(), Short> {
        if more == 0 {
            return Ok(());
        }
        match self.try_grow(more) {
            Ok(()) => return Ok(()),
            Err(error @ Short::TooLarge { .. }) => return Err(error),
            Err(Short::Busy { .. }) => {}
        }
        let inner = Arc::clone(&self.memory.0);
        let deadline = inner.env.monotonic() + inner.patience.wait;
        self.begin_waiting(more)?;
        let waiting = Waiting(self);
        loop {
            let _ = inner.env.timeout(LOOK_EVERY, waiting.0.news.notified()).await;
            let now = inner.env.monotonic();
            let mut state = waiting.0.memory.state();
            state.settle(now, inner.patience.receive);
            let standing = &state.reservations[&waiting.0.ticket];
            let (given_up, granted) = (standing.given_up, standing.wants == 0);
            drop(state);
            if given_up || (!granted && now >= deadline) {
                return Err(waiting.0.memory.busy());
            }
            if granted {
                return Ok(());
            }
        }
    }

    fn begin_waiting(&mut self, more: u64) -> Result<(), Short> {
        let inner = &self.memory.0;
        let mut state = self.memory.state();
        let waiting = state.waiting;
        let standing = state.reservations.get_mut(&self.ticket).expect(IS_IN_TABLE);
        if standing.given_up || waiting >= inner.patience.waiting_max {
            return Err(self.memory.busy());
        }
        standing.wants = more;
        state.waiting += 1;
        state.settle(inner.env.monotonic(), inner.patience.receive);
        Ok(())
    }

    /// Releases `less` bytes (at most what is held).
    pub fn shrink(&mut self, less: u64) {
        let mut state = self.memory.state();
        state.release(self.ticket, less);
        let (now, receive) = (self.memory.0.env.monotonic(), self.memory.0.patience.receive);
        state.settle(now, receive);
    }

    /// Marks the reservation as lasting: its end is not expected, so no other reservation waits for it.
    #[must_use]
    pub fn lasting(self) -> Self {
        if let Some(standing) = self.memory.state().reservations.get_mut(&self.ticket) {
            standing.lasts = true;
        }
        self
    }

    /// Notes whether the reservation is receiving bytes from a client, which may be slow.
    pub fn set_receiving(&self, receiving: bool) {
        let now = self.memory.0.env.monotonic();
        let mut state = self.memory.state();
        if let Some(standing) = state.reservations.get_mut(&self.ticket) {
            standing.receiving_since = receiving.then_some(now);
        }
    }

    /// Completes when the reservation is given up for others.
    pub async fn given_up(&self) -> Short {
        loop {
            let news = self.news.notified();
            if self.memory.state().reservations.get(&self.ticket).is_none_or(|s| s.given_up) {
                return self.memory.busy();
            }
            news.await;
        }
    }
}

impl Drop for FairReservation {
    fn drop(&mut self) {
        let mut state = self.memory.state();
        state.release(self.ticket, u64::MAX);
        if state.reservations.remove(&self.ticket).is_some_and(|s| s.wants > 0) {
            state.waiting -= 1;
        }
        let (now, receive) = (self.memory.0.env.monotonic(), self.memory.0.patience.receive);
        state.settle(now, receive);
    }
}

/// A reservation in the queue. Dropping it leaves the queue.
struct Waiting<'a>(&'a mut FairReservation);

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        let mut state = self.0.memory.state();
        let wanted = state.reservations.get_mut(&self.0.ticket).map_or(0, |s| std::mem::take(&mut s.wants));
        state.waiting -= usize::from(wanted > 0);
    }
}

#[cfg(test)]
#[path = "fair_budget_tests.rs"]
mod tests;

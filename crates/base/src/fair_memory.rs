//! A memory budget that many parties share: a party that finds it short waits, and no party keeps others out.
//!
//! A [`Claim`] belongs to two parties (a tenant and an address) and grows in steps while its work goes on.
//!
//! **Shares.** A party may hold at most a multiple of what is left free after the step (the dynamic
//! thresholds of shared-memory switches). With a multiple of two a party alone gets two thirds, two parties
//! two fifths each: something is always left for the next one, and nothing has to be known about who will
//! come.
//!
//! **Progress.** Claims that began go before those that hold nothing, the oldest first. When everyone who
//! could give memory back waits for some, the youngest of them is given up, so that the oldest always ends.
//! While others wait, a claim that has been receiving from a client for longer than the grace is given up
//! too. A claim that lasts (the buffers of a connection that stays) does not count as one that ends by
//! itself; it is given up for its slow client alone, and pushes nothing out but others that last.
//!
//! **Invariants.** The sum of all claims never exceeds the limit. What others hold of the budget, or of one
//! above it, is as little free as what claims hold. A wait ends: by memory, by its time, or because the claim
//! was given up.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;

use crate::budget::MemoryBudget;
use crate::budget::Reservation;
use crate::env::Env;
use crate::units::ByteSize;

/// One of those who share: its number, and how many times as much as is free it may hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Party {
    /// Tells parties apart.
    pub key: u64,
    /// Most that it may hold, as a multiple of what is free.
    pub multiple: u64,
}

/// How claims wait.
#[derive(Clone, Copy, Debug)]
pub struct Patience {
    /// Longest wait for memory.
    pub wait: Duration,
    /// Claims that may wait at a time.
    pub waiting_max: usize,
    /// How long a claim may receive while others wait.
    pub receive: Duration,
}

/// Why a claim did not grow.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Short {
    /// It would not even fit if it were alone.
    #[error(
        "{} are needed at once, the memory budget '{budget}' gives one request {} at most",
        ByteSize(*.asked), ByteSize(*.most)
    )]
    TooLarge {
        /// Name of the budget.
        budget: String,
        /// Bytes of the claim with the step.
        asked: u64,
        /// Most bytes of one claim.
        most: u64,
    },
    /// There was no memory in time, too many wait, or the claim was given up for others.
    #[error("the memory budget '{budget}' of {} is taken by others", ByteSize(*.limit))]
    Busy {
        /// Name of the budget.
        budget: String,
        /// Bytes of the budget.
        limit: u64,
    },
}

/// A shared budget. Cheap to clone: a handle.
#[derive(Clone)]
pub struct FairMemory(Arc<Inner>);

struct Inner {
    env: Env,
    budget: MemoryBudget,
    patience: Patience,
    state: Mutex<State>,
}

struct State {
    /// What all claims hold.
    whole: Reservation,
    /// What `whole` is reserved from; others may hold of it too.
    budget: MemoryBudget,
    by_party: HashMap<u64, u64>,
    /// By age.
    claims: BTreeMap<u64, Standing>,
    next: u64,
    waiting: usize,
    paused: bool,
}

struct Standing {
    parties: [Party; 2],
    held: u64,
    /// Bytes that it waits for; 0: it does not wait.
    wants: u64,
    receiving_since: Option<Duration>,
    /// Whether its end is not in sight.
    lasts: bool,
    given_up: bool,
    news: Arc<Notify>,
}

/// How often a wait looks whether a party receives for too long.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// A claim gets at most this part of the budget: what one address may hold when it is alone, with room to
/// spare.
const CLAIM_PART: u64 = 2;

impl FairMemory {
    /// A budget whose claims wait like that.
    pub fn new(env: Env, budget: MemoryBudget, patience: Patience) -> Self {
        let whole = budget.reserve(0).expect("nothing fits every budget");
        let state = State {
            whole,
            budget: budget.clone(),
            by_party: HashMap::new(),
            claims: BTreeMap::new(),
            next: 0,
            waiting: 0,
            paused: false,
        };
        Self(Arc::new(Inner { env, budget, patience, state: Mutex::new(state) }))
    }

    /// A claim that holds nothing yet.
    pub fn claim(&self, parties: [Party; 2]) -> Claim {
        let mut state = self.state();
        let ticket = state.next;
        state.next += 1;
        let news = Arc::new(Notify::new());
        let standing = Standing {
            parties,
            held: 0,
            wants: 0,
            receiving_since: None,
            lasts: false,
            given_up: false,
            news: Arc::clone(&news),
        };
        state.claims.insert(ticket, standing);
        Claim { memory: self.clone(), ticket, news, held: 0 }
    }

    /// The budget beneath.
    pub fn budget(&self) -> &MemoryBudget {
        &self.0.budget
    }

    /// Most bytes of one claim.
    pub fn claim_max(&self) -> u64 {
        self.0.budget.limit() / CLAIM_PART
    }

    /// Lets no claim grow until it is called again, or lets those go on that wait.
    pub fn set_paused(&self, paused: bool) {
        let mut state = self.state();
        state.paused = paused;
        state.settle(self.0.env.monotonic(), self.0.patience.receive);
    }

    /// Claims that wait now.
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
    /// Whether a claim may hold `more` bytes in addition: `None` when it may, else the party whose share it
    /// would exceed, or none when the budget itself is short.
    fn obstacle(&self, standing: &Standing, more: u64) -> Option<Option<u64>> {
        if self.paused {
            return Some(None);
        }
        let Some(free) = self.budget.available().checked_sub(more) else { return Some(None) };
        let over = standing.parties.iter().find(|party| {
            let held = self.by_party.get(&party.key).copied().unwrap_or(0);
            held.saturating_add(more) > party.multiple.saturating_mul(free)
        });
        over.map(|party| Some(party.key))
    }

    /// Gives a claim `more` bytes; false when others than claims took them since they were seen to be free.
    fn grant(&mut self, ticket: u64, more: u64) -> bool {
        if self.whole.grow(more).is_err() {
            return false;
        }
        let standing = self.claims.get_mut(&ticket).expect("a claim stands until it is dropped");
        standing.held += more;
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
        let Some(standing) = self.claims.get_mut(&ticket) else { return };
        standing.held -= less;
        for party in standing.parties {
            if let Some(held) = self.by_party.get_mut(&party.key) {
                *held -= less;
                if *held == 0 {
                    self.by_party.remove(&party.key);
                }
            }
        }
        self.whole.shrink(less);
    }

    fn give_up(&mut self, ticket: u64) {
        let Some(standing) = self.claims.get_mut(&ticket) else { return };
        standing.given_up = true;
        if standing.wants > 0 {
            standing.wants = 0;
            self.waiting -= 1;
        }
        standing.news.notify_one();
    }

    /// Gives what is free to those who wait; when it is too little, gives a claim up.
    fn settle(&mut self, now: Duration, receive_max: Duration) {
        if self.waiting == 0 {
            return;
        }
        let mut queue: Vec<(bool, u64, u64)> = self
            .claims
            .iter()
            .filter(|(_, s)| s.wants > 0)
            .map(|(ticket, s)| {
                let most =
                    s.parties.iter().filter_map(|p| self.by_party.get(&p.key)).max().copied().unwrap_or(0);
                // Those that began go by age, new ones by what their parties hold.
                (s.held == 0, if s.held == 0 { most } else { 0 }, *ticket)
            })
            .collect();
        queue.sort_unstable();
        let (mut shortage, mut lasting) = (None, None);
        for (is_new, _, ticket) in queue {
            let standing = &self.claims[&ticket];
            let (wants, lasts) = (standing.wants, standing.lasts);
            match self.obstacle(standing, wants) {
                None if self.grant(ticket, wants) => {}
                obstacle => {
                    let obstacle = obstacle.flatten();
                    let before = if lasts { &mut lasting } else { &mut shortage };
                    before.get_or_insert((ticket, is_new, obstacle));
                    if obstacle.is_none() && !lasts {
                        break; // those behind must not take what this one waits for
                    }
                }
            }
        }
        if let Some((ticket, is_new, obstacle)) = shortage.or(lasting).filter(|_| !self.paused) {
            self.make_room(ticket, is_new, obstacle, now.saturating_sub(receive_max));
        }
    }

    /// Gives a claim up for the one that waits at the front, if no party will give memory back without that.
    fn make_room(&mut self, for_ticket: u64, is_new: bool, obstacle: Option<u64>, before: Duration) {
        let others = || self.claims.iter().filter(|(ticket, s)| **ticket != for_ticket && s.held > 0);
        if others().any(|(_, s)| s.given_up) {
            return; // a claim is being given up already
        }
        let lasts = self.claims.get(&for_ticket).is_some_and(|s| s.lasts);
        let slow = others().filter(|(_, s)| s.receiving_since.is_some_and(|since| since < before));
        if let Some((&ticket, _)) = slow.filter(|(_, s)| s.lasts || !lasts).max_by_key(|(_, s)| s.held) {
            return self.give_up(ticket);
        }
        if is_new || lasts || others().any(|(_, s)| s.wants == 0 && !s.lasts) {
            return; // a party ends by itself, or the one that waits does not go before others
        }
        // Shares shrink with what is free, so any end helps; one of the same party helps most.
        let same = |s: &Standing| s.parties.iter().any(|p| Some(p.key) == obstacle);
        let ending = others().filter(|(_, s)| !s.lasts);
        let youngest = ending.max_by_key(|(ticket, s)| (same(s), **ticket)).map(|(ticket, _)| *ticket);
        if let Some(ticket) = youngest {
            self.give_up(ticket);
        }
    }
}

/// Memory of one piece of work. Dropping it gives all of it back.
pub struct Claim {
    memory: FairMemory,
    ticket: u64,
    news: Arc<Notify>,
    held: u64,
}

impl Claim {
    /// Bytes held.
    pub fn bytes(&self) -> u64 {
        self.held
    }

    fn check_size(&self, more: u64) -> Result<(), Short> {
        let (asked, most) = (self.held.saturating_add(more), self.memory.claim_max());
        if asked > most {
            return Err(Short::TooLarge { budget: self.memory.0.budget.name().to_owned(), asked, most });
        }
        Ok(())
    }

    /// Takes `more` bytes now, or says that there are none without waiting.
    pub fn try_grow(&mut self, more: u64) -> Result<(), Short> {
        self.check_size(more)?;
        let mut state = self.memory.state();
        let standing = &state.claims[&self.ticket];
        // Waiting parties are served first: otherwise small steps of many would starve a large one.
        let is_refused = standing.given_up || state.waiting > 0 || state.obstacle(standing, more).is_some();
        if is_refused || !state.grant(self.ticket, more) {
            return Err(self.memory.busy());
        }
        self.held += more;
        Ok(())
    }

    /// Takes `more` bytes, and waits for them if need be.
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
        let waiting = Waiting { claim: self, more };
        loop {
            let _ = inner.env.timeout(LOOK_EVERY, waiting.claim.news.notified()).await;
            let now = inner.env.monotonic();
            let mut state = waiting.claim.memory.state();
            state.settle(now, inner.patience.receive);
            let standing = &state.claims[&waiting.claim.ticket];
            let (given_up, granted) = (standing.given_up, standing.wants == 0);
            drop(state);
            if given_up || (!granted && now >= deadline) {
                return Err(waiting.claim.memory.busy());
            }
            if granted {
                waiting.done();
                return Ok(());
            }
        }
    }

    fn begin_waiting(&mut self, more: u64) -> Result<(), Short> {
        let inner = &self.memory.0;
        let mut state = self.memory.state();
        let waiting = state.waiting;
        let standing = state.claims.get_mut(&self.ticket).expect("a claim stands until it is dropped");
        if standing.given_up || waiting >= inner.patience.waiting_max {
            return Err(self.memory.busy());
        }
        standing.wants = more;
        state.waiting += 1;
        state.settle(inner.env.monotonic(), inner.patience.receive);
        Ok(())
    }

    /// Gives back `less` bytes (at most what is held).
    pub fn shrink(&mut self, less: u64) {
        let less = less.min(self.held);
        self.held -= less;
        let mut state = self.memory.state();
        state.release(self.ticket, less);
        let (now, receive) = (self.memory.0.env.monotonic(), self.memory.0.patience.receive);
        state.settle(now, receive);
    }

    /// Says that the claim stays for as long as its owner likes: nobody waits for its end.
    #[must_use]
    pub fn lasting(self) -> Self {
        if let Some(standing) = self.memory.state().claims.get_mut(&self.ticket) {
            standing.lasts = true;
        }
        self
    }

    /// Says whether the bytes come from a client, who may be slow.
    pub fn set_receiving(&self, receiving: bool) {
        let now = self.memory.0.env.monotonic();
        let mut state = self.memory.state();
        if let Some(standing) = state.claims.get_mut(&self.ticket) {
            standing.receiving_since = receiving.then_some(now);
        }
    }

    /// Waits until the claim is given up for others.
    pub async fn given_up(&self) -> Short {
        loop {
            let news = self.news.notified();
            if self.memory.state().claims.get(&self.ticket).is_none_or(|s| s.given_up) {
                return self.memory.busy();
            }
            news.await;
        }
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        let mut state = self.memory.state();
        let held = self.held;
        state.release(self.ticket, held);
        if state.claims.remove(&self.ticket).is_some_and(|s| s.wants > 0) {
            state.waiting -= 1;
        }
        let (now, receive) = (self.memory.0.env.monotonic(), self.memory.0.patience.receive);
        state.settle(now, receive);
    }
}

/// A claim that stands in the queue; leaves it when the wait is dropped, and keeps what came too late.
struct Waiting<'a> {
    claim: &'a mut Claim,
    more: u64,
}

impl Waiting<'_> {
    fn done(self) {}
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        let mut state = self.claim.memory.state();
        let Some(standing) = state.claims.get_mut(&self.claim.ticket) else { return };
        if standing.wants > 0 {
            standing.wants = 0;
            state.waiting -= 1;
        } else if standing.held > self.claim.held {
            self.claim.held += self.more;
        }
    }
}

#[cfg(test)]
#[path = "fair_memory_tests.rs"]
mod tests;

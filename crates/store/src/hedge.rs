//! A second request for a read that takes unusually long: the first answer wins, the other is dropped.
//!
//! Stores answer a few requests in a hundred from a slow disk or a slow machine; asking again usually
//! meets another one (Dean and Barroso, "The tail at scale", 2013). It is only done for block reads, which
//! change nothing and may be answered by anyone; when the read took longer than 97 of 100 of its size; when
//! a slot is free; when the store did not ask for less lately; and within a budget, a token bucket that
//! earns its percentage with each read.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::future::{Either, select};

use crate::classify::Failure;
use crate::lane::Lane;
use crate::latency::{Latencies, SIZE_CLASSES, size_class};
use crate::manners::Manners;
use crate::meter::HedgeOutcome;
use crate::request::{Call, Requester};

/// Hundredths of a second request that can be saved up: 16 requests.
const SAVED_MAX: u32 = 1_600;

/// What is known about reads, and what may still be spent.
pub(crate) struct Hedges {
    percent: u32,
    after_min: Duration,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    times: [Latencies; SIZE_CLASSES],
    /// Hundredths of a request.
    saved: u32,
}

impl Hedges {
    pub fn new(manners: &Manners) -> Self {
        let (percent, after_min) = (manners.hedge_percent.min(100), manners.hedge_after_min);
        Self { percent, after_min, state: Mutex::default() }
    }

    pub fn none() -> Self {
        Self::new(&Manners { hedge_percent: 0, ..Manners::default() })
    }

    /// A read begins; after how long it is slow.
    fn begin(&self, bytes: u64) -> Option<Duration> {
        if self.percent == 0 {
            return None;
        }
        let mut state = self.state();
        state.saved = (state.saved + self.percent).min(SAVED_MAX);
        state.times[size_class(bytes)].usual().map(|usual| usual.max(self.after_min))
    }

    fn observe(&self, bytes: u64, took: Duration) {
        self.state().times[size_class(bytes)].observe(took);
    }

    fn pay(&self) -> bool {
        let mut state = self.state();
        let can_pay = state.saved >= 100;
        state.saved -= if can_pay { 100 } else { 0 };
        can_pay
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Requester {
    /// One attempt of a block read, with a second request when the first is slow.
    pub async fn hedged<T, F>(&self, call: &Call<'_>, read: impl Fn() -> F) -> Result<T, Failure>
    where
        F: Future<Output = Result<T, Failure>>,
    {
        // Boxed: two reads by value, each in several layers, would make the futures of all callers large.
        let first = Box::pin(self.timed(call, Box::pin(read())));
        let Some(patience) = self.hedges.begin(call.bytes) else { return first.await };
        let first = match select(first, std::pin::pin!(self.env.sleep(patience))).await {
            Either::Left((outcome, _)) => return outcome,
            Either::Right(((), first)) => first,
        };
        let Some(slot) = self.slot_for_hedge() else {
            self.meter.hedge(HedgeOutcome::Withheld);
            return first.await;
        };
        let second = Box::pin(self.once_in(slot, call, Box::pin(self.timed(call, Box::pin(read())))));
        match select(first, second).await {
            Either::Left((outcome, second)) => {
                if outcome.as_ref().is_err_and(Failure::is_transient) {
                    let other = second.await;
                    let has_won = other.is_ok();
                    self.meter.hedge(if has_won { HedgeOutcome::Won } else { HedgeOutcome::Failed });
                    return if has_won { other } else { outcome };
                }
                self.meter.hedge(HedgeOutcome::Lost);
                outcome
            }
            Either::Right((outcome, first)) => {
                if outcome.is_ok() {
                    self.meter.hedge(HedgeOutcome::Won);
                    return outcome;
                }
                self.meter.hedge(HedgeOutcome::Failed);
                first.await
            }
        }
    }

    fn slot_for_hedge(&self) -> Option<crate::gate::Slot> {
        if !self.gate.is_calm(Lane::Read) {
            return None;
        }
        let slot = self.gate.try_enter(Lane::Read)?;
        self.hedges.pay().then_some(slot)
    }

    /// Runs a read and remembers its time. One that is dropped took at least as long as it was run: else
    /// slow reads would vanish from the picture as soon as they are hedged.
    async fn timed<T>(
        &self,
        call: &Call<'_>,
        read: impl Future<Output = Result<T, Failure>>,
    ) -> Result<T, Failure> {
        let began = self.env.monotonic();
        let mut timing = Timing { requester: self, bytes: call.bytes, began, counts: true };
        let outcome = read.await;
        // A refusal comes quickly and says nothing about reads.
        timing.counts = outcome.is_ok();
        outcome
    }
}

struct Timing<'a> {
    requester: &'a Requester,
    bytes: u64,
    began: Duration,
    counts: bool,
}

impl Drop for Timing<'_> {
    fn drop(&mut self) {
        if !self.counts {
            return;
        }
        let took = self.requester.env.monotonic().saturating_sub(self.began);
        self.requester.hedges.observe(self.bytes, took);
    }
}

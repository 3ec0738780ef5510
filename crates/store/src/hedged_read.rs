//! Hedged reads: a second request for an unusually slow read. The first response wins, and the other
//! request is dropped.
//!
//! A few percent of a store's responses come from a slow disk or machine; a second request usually
//! reaches another one (Dean and Barroso, "The tail at scale", 2013). Only block reads are hedged,
//! because they change nothing and any machine of the store may answer them. Further conditions: the
//! read has taken longer than 97 % of the reads of its size, a slot is free, the store has not throttled
//! recently, and the budget permits it ([`Hedges`](crate::hedge::Hedges)).

use std::time::Duration;

use futures_util::future::{Either, select};

use crate::call::Call;
use crate::classify::Failure;
use crate::lane::Lane;
use crate::meter::HedgeOutcome;
use crate::request::Requester;

impl Requester {
    /// One attempt of a block read, with a second request if the first is slow.
    pub async fn hedged<T, F>(&self, call: &Call<'_>, read: impl Fn() -> F) -> Result<T, Failure>
    where
        F: Future<Output = Result<T, Failure>>,
    {
        // Boxed, because two reads by value, each in several layers, would make the futures of all
        // callers large.
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

    /// Runs a read and records its latency. A dropped read counts with the time until the drop, because
    /// otherwise slow reads would disappear from the statistics as soon as they are hedged.
    async fn timed<T>(
        &self,
        call: &Call<'_>,
        read: impl Future<Output = Result<T, Failure>>,
    ) -> Result<T, Failure> {
        let began = self.env.monotonic();
        let mut timing = Timing { requester: self, bytes: call.bytes, began, counts: true };
        let outcome = read.await;
        // An error returns quickly and is not representative of reads.
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

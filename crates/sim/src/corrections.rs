//! Values of carbon metrics that are overwritten repeatedly: the last value of each instant must be
//! found.
//!
//! It is known in three cases that a value is later than another one: a process was sent it after it had
//! acknowledged the other under the same incarnation; or the other one was in a block by then
//! (*settled*); or the process that accepted the other one had *ended* before the process started that
//! was sent it. An instant with an acknowledged value has a value, and not one that a later acknowledged
//! value replaced. Values of several processes that are not settled may be in any order. Once they are
//! settled, all readers find the same value.

use std::collections::BTreeMap;

use anyhow::{Result, bail, ensure};
use sandur_base::Id;

/// A path and a time in milliseconds since the epoch.
pub type Instant = (String, i64);

/// A value that was sent.
#[derive(Clone, Copy, Debug)]
struct Write {
    bits: u64,
    /// When it was sent and acknowledged, as numbers of events.
    sent: u64,
    acknowledged: Option<u64>,
    /// The incarnation that accepted it, if that is certain.
    incarnation: Option<Id>,
}

/// Every value that was ever written.
#[derive(Debug, Default)]
pub struct Corrections {
    writes: BTreeMap<Instant, Vec<Write>>,
    happened: u64,
    settled: u64,
    /// The number of the event at which an incarnation had ended.
    ended: BTreeMap<Id, u64>,
    /// The values that were found for settled instants.
    found: BTreeMap<Instant, u64>,
}

impl Corrections {
    /// Returns the number of a new event. Events that are recorded later have larger numbers.
    pub fn now(&mut self) -> u64 {
        self.happened += 1;
        self.happened
    }

    /// Records values before they are sent. Returns the number of the event.
    pub fn sent(&mut self, values: &[(Instant, u64)]) -> u64 {
        let sent = self.now();
        for (instant, bits) in values {
            let write = Write { bits: *bits, sent, acknowledged: None, incarnation: None };
            self.writes.entry(instant.clone()).or_default().push(write);
        }
        sent
    }

    /// Records that the values sent at event `sent` were acknowledged.
    pub fn acknowledged(&mut self, sent: u64, values: &[(Instant, u64)], incarnation: Option<Id>) {
        let now = self.now();
        for (instant, _) in values {
            let writes = self.writes.get_mut(instant).into_iter().flatten();
            for write in writes.filter(|write| write.sent == sent) {
                (write.acknowledged, write.incarnation) = (Some(now), incarnation);
            }
        }
    }

    /// Records that everything written so far is in blocks.
    pub fn settle(&mut self) {
        self.settled = self.now();
        self.found.clear();
    }

    /// Records that the process of an incarnation has ended.
    pub fn ended(&mut self, incarnation: Id) {
        let now = self.now();
        self.ended.insert(incarnation, now);
    }

    /// Returns the number of instants, and of their acknowledged values.
    pub fn counts(&self) -> (usize, usize) {
        let acknowledged = self.writes.values().flatten().filter(|write| write.acknowledged.is_some());
        (self.writes.len(), acknowledged.count())
    }

    /// Returns all instants.
    pub fn instants(&self) -> Vec<Instant> {
        self.writes.keys().cloned().collect()
    }

    /// Checks what a reader found that began at event `began`. It knows what was written under the
    /// incarnation `own` until then; with `all` it knows everything.
    pub fn check(
        &mut self,
        reader: &str,
        (began, own): (u64, Id),
        found: &[(Instant, u64)],
        all: bool,
    ) -> Result<()> {
        let values: BTreeMap<&Instant, u64> = found.iter().map(|(at, bits)| (at, *bits)).collect();
        ensure!(values.len() == found.len(), "{reader} found an instant twice among {found:?}");
        for (at, bits) in &values {
            let Some(writes) = self.writes.get(*at) else {
                bail!("{reader} found {at:?}, which was never written")
            };
            let Some(write) = writes.iter().find(|write| write.bits == *bits) else {
                bail!(
                    "{reader} found {} at {at:?}, the written values are {writes:?}",
                    f64::from_bits(*bits)
                );
            };
            let replaces = |later: &&Write| {
                let is_known = all || later.incarnation == Some(own);
                let is_later = match (write.acknowledged, write.incarnation, later.incarnation) {
                    (Some(before), Some(one), Some(other)) if one == other => before < later.sent,
                    (Some(_), Some(one), Some(other)) if one < other => {
                        self.ended.get(&one).is_some_and(|ended| *ended < later.sent)
                    }
                    _ => false,
                };
                let is_settled = write.sent < self.settled && self.settled < later.sent;
                let is_there = later.acknowledged.is_some_and(|at| at < began);
                is_known && is_there && (is_later || is_settled)
            };
            if let Some(later) = writes.iter().find(replaces) {
                bail!("{reader} found {write:?} at {at:?}, which {later:?} has replaced");
            }
        }
        if !all {
            return Ok(());
        }
        for (at, writes) in &self.writes {
            let is_there = writes.iter().any(|write| write.acknowledged.is_some_and(|at| at < began));
            ensure!(!is_there || values.contains_key(at), "{reader} finds nothing at {at:?} of {writes:?}");
            let is_settled = writes.iter().all(|write| write.sent < self.settled);
            if let (true, Some(bits)) = (is_settled, values.get(at)) {
                let first = *self.found.entry(at.clone()).or_insert(*bits);
                ensure!(first == *bits, "{reader} found {bits:#x} at {at:?}, but another reader {first:#x}");
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: i64) -> Instant {
        ("carbon.a".to_owned(), ms)
    }

    #[test]
    fn a_replaced_value_that_is_found_again_is_detected() {
        let mut oracle = Corrections::default();
        let (one, two) = (Id(1), Id(2));
        let write = |oracle: &mut Corrections, bits, incarnation| {
            let values = [(at(5), bits)];
            let sent = oracle.sent(&values);
            oracle.acknowledged(sent, &values, Some(incarnation));
        };
        write(&mut oracle, 1, one);
        write(&mut oracle, 2, one);
        write(&mut oracle, 3, two);
        let check = |oracle: &mut Corrections, own, bits, all| {
            let now = oracle.now();
            oracle.check("r", (now, own), &[(at(5), bits)], all)
        };
        assert!(check(&mut oracle, one, 1, false).is_err(), "it replaced this value itself");
        assert!(check(&mut oracle, two, 1, false).is_ok(), "it need not know the new value yet");
        assert!(check(&mut oracle, two, 1, true).is_err());
        assert!(check(&mut oracle, two, 2, true).is_ok() && check(&mut oracle, one, 3, true).is_ok());
        assert!(check(&mut oracle, one, 4, true).is_err(), "it was never written");
        let now = oracle.now();
        assert!(oracle.check("r", (now, one), &[], true).is_err(), "lost");
        oracle.settle();
        assert!(check(&mut oracle, one, 2, true).is_ok());
        assert!(check(&mut oracle, one, 3, true).is_err(), "it changed without a write");
        write(&mut oracle, 9, two);
        assert!(check(&mut oracle, one, 2, true).is_err() && check(&mut oracle, one, 9, true).is_ok());
        assert_eq!(oracle.counts(), (1, 4));
        write(&mut oracle, 10, one);
        write(&mut oracle, 11, two);
        assert!(check(&mut oracle, one, 10, true).is_ok(), "both processes were running");
        oracle.ended(one);
        write(&mut oracle, 12, two);
        assert!(check(&mut oracle, one, 10, true).is_err(), "one had ended");
    }
}

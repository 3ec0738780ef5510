//! Values of carbon's that are written again and again: of each instant the last one must be found.
//!
//! Which of two values is the later one is known in three cases: one process, under one incarnation, was sent
//! it after it had acknowledged the other; or the other one was in a block by then (*settled*); or the
//! process that took the other one had *ended* before, and it was sent to one that began after that. An
//! instant with an acknowledged value has a value, and none that a later acknowledged one replaces. Values of
//! several processes that are not settled may count in any order; once they are settled, everybody finds the
//! same.

use std::collections::BTreeMap;

use anyhow::{Result, bail, ensure};
use sandur_base::Id;

/// A path and a time in milliseconds.
pub type Instant = (String, i64);

/// A value that was sent.
#[derive(Clone, Copy, Debug)]
struct Write {
    bits: u64,
    /// When it was sent and when it was acknowledged, by the number of what happened before.
    sent: u64,
    acknowledged: Option<u64>,
    /// Under which incarnation, if that is certain.
    incarnation: Option<Id>,
}

/// Every value that was ever written.
#[derive(Debug, Default)]
pub struct Corrections {
    writes: BTreeMap<Instant, Vec<Write>>,
    happened: u64,
    settled: u64,
    /// When processes had ended, by their incarnations.
    ended: BTreeMap<Id, u64>,
    /// What was found of settled values.
    found: BTreeMap<Instant, u64>,
}

impl Corrections {
    /// The moment; what is told later happened after it.
    pub fn now(&mut self) -> u64 {
        self.happened += 1;
        self.happened
    }

    /// Notes values before they are sent; gives the moment.
    pub fn sent(&mut self, values: &[(Instant, u64)]) -> u64 {
        let sent = self.now();
        for (instant, bits) in values {
            let write = Write { bits: *bits, sent, acknowledged: None, incarnation: None };
            self.writes.entry(instant.clone()).or_default().push(write);
        }
        sent
    }

    /// Notes that the values that were sent at a moment were acknowledged.
    pub fn acknowledged(&mut self, sent: u64, values: &[(Instant, u64)], incarnation: Option<Id>) {
        let now = self.now();
        for (instant, _) in values {
            let writes = self.writes.get_mut(instant).into_iter().flatten();
            for write in writes.filter(|write| write.sent == sent) {
                (write.acknowledged, write.incarnation) = (Some(now), incarnation);
            }
        }
    }

    /// Notes that everything that was written so far is in blocks.
    pub fn settle(&mut self) {
        self.settled = self.now();
        self.found.clear();
    }

    /// Notes that the process of an incarnation does not live any more.
    pub fn ended(&mut self, incarnation: Id) {
        let now = self.now();
        self.ended.insert(incarnation, now);
    }

    /// Instants, and how many values of them were acknowledged.
    pub fn counts(&self) -> (usize, usize) {
        let acknowledged = self.writes.values().flatten().filter(|write| write.acknowledged.is_some());
        (self.writes.len(), acknowledged.count())
    }

    /// All instants.
    pub fn instants(&self) -> Vec<Instant> {
        self.writes.keys().cloned().collect()
    }

    /// Compares what a reader found, who began at a moment. It knows what was written under `own` up to then;
    /// with `all` it knows everything.
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
                bail!("{reader} found {at:?}, which nobody wrote")
            };
            let Some(write) = writes.iter().find(|write| write.bits == *bits) else {
                bail!("{reader} found {} at {at:?}, written were {writes:?}", f64::from_bits(*bits));
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
                ensure!(first == *bits, "{reader} found {bits:#x} at {at:?}, another one {first:#x}");
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
    fn a_value_that_was_replaced_and_comes_back_is_noticed() {
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
        assert!(check(&mut oracle, one, 1, false).is_err(), "its own, replaced");
        assert!(check(&mut oracle, two, 1, false).is_ok(), "it need not know yet");
        assert!(check(&mut oracle, two, 1, true).is_err());
        assert!(check(&mut oracle, two, 2, true).is_ok() && check(&mut oracle, one, 3, true).is_ok());
        assert!(check(&mut oracle, one, 4, true).is_err(), "nobody wrote it");
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
        assert!(check(&mut oracle, one, 10, true).is_ok(), "both lived");
        oracle.ended(one);
        write(&mut oracle, 12, two);
        assert!(check(&mut oracle, one, 10, true).is_err(), "one had ended");
    }
}

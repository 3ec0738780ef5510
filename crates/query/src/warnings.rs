//! Warnings of a query for its client: the result is incomplete or unusual.
//!
//! **Invariant.** A handle keeps the warnings alive and nothing else of the query: neither its memory nor its
//! account.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use sandur_base::Id;

use crate::staleness::{Staleness, WriterLag, oldest_of};

/// The most warnings that are kept; further ones would repeat each other.
const WARNINGS_MAX: usize = 20;
/// The most writers that have a warning of their own; the others share one.
const WRITERS_NAMED: usize = 3;
/// The most writers whose lag is kept. The warning about the others has their number at least.
const WRITERS_MAX: usize = 256;

/// The warnings of one query. Cheap to clone: a handle.
#[derive(Clone, Debug, Default)]
pub struct Warnings(Arc<Mutex<Noted>>);

#[derive(Debug, Default)]
struct Noted {
    texts: Vec<String>,
    /// The oldest of the views that were too old.
    staleness: Option<Staleness>,
    /// For each writer whose rows may be missing, the oldest of its ages.
    lags: BTreeMap<Id, WriterLag>,
}

impl Warnings {
    /// Adds a warning, unless it is there already or there are too many.
    pub fn add(&self, warning: String) {
        let mut noted = self.noted();
        if noted.texts.len() < WARNINGS_MAX && !noted.texts.contains(&warning) {
            noted.texts.push(warning);
        }
    }

    /// Notes that a view of the store that the query used is too old. The query has one such warning, for
    /// its oldest view.
    pub fn add_age(&self, staleness: Staleness) {
        let mut noted = self.noted();
        noted.staleness = noted.staleness.max(Some(staleness));
    }

    /// Notes that rows of a writer may be missing from a view that the query used. The query has one such
    /// warning for each writer, for the oldest view.
    pub fn add_lag(&self, lag: WriterLag) {
        let mut noted = self.noted();
        let is_known = noted.lags.contains_key(&lag.writer);
        if is_known || noted.lags.len() < WRITERS_MAX {
            let known = noted.lags.entry(lag.writer).or_insert_with(|| lag.clone());
            if lag.rank() > known.rank() {
                *known = lag;
            }
        }
    }

    /// The warnings so far. Those about missing rows come first.
    pub fn all(&self) -> Vec<String> {
        let noted = self.noted();
        let age = noted.staleness.iter().map(ToString::to_string);
        age.chain(texts_of(&noted.lags)).chain(noted.texts.iter().cloned()).collect()
    }

    fn noted(&self) -> MutexGuard<'_, Noted> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A warning for each of the writers that are known the least, and one for all others.
fn texts_of(lags: &BTreeMap<Id, WriterLag>) -> Vec<String> {
    let mut lags: Vec<&WriterLag> = lags.values().collect();
    lags.sort_by_key(|lag| std::cmp::Reverse(lag.rank()));
    let (named, others) = lags.split_at(lags.len().min(WRITERS_NAMED));
    let mut texts: Vec<String> = named.iter().map(ToString::to_string).collect();
    if !others.is_empty() {
        let (count, age) = (others.len(), oldest_of(others.iter().copied()));
        let reason = others.iter().map(|lag| &lag.reason).find(|reason| !reason.is_empty());
        let reason = reason.map(|reason| format!(": {reason}")).unwrap_or_default();
        texts.push(format!("rows that {count} other writers stored{age} may be missing{reason}"));
    }
    texts
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn few_writers_are_named_and_the_oldest_age_of_each_counts() {
        let warnings = Warnings::default();
        warnings.add("a block is missing".to_owned());
        let lag = |writer: u128, seconds: u64| WriterLag {
            writer: Id(writer),
            age: Some(Duration::from_secs(seconds)),
            reason: "no answer".to_owned(),
        };
        for (writer, seconds) in [(1, 7), (1, 9), (1, 8)] {
            warnings.add_lag(lag(writer, seconds));
        }
        let all = warnings.all();
        assert!(all.len() == 2 && all[0].contains("in the last 9s may be missing: no answer"), "{all:?}");
        (2..2_000).for_each(|writer| warnings.add_lag(lag(writer, 10 + u64::from(writer == 200))));
        warnings.add_lag(WriterLag { writer: Id(3), age: None, reason: String::new() });
        let all = warnings.all();
        assert_eq!(all.len(), WRITERS_NAMED + 2, "{all:?}");
        assert!(all[0].contains("was not read to the end yet"), "{all:?}");
        assert!(all[1].contains("in the last 11s"), "{all:?}");
        assert!(all[3].starts_with("rows that 253 other writers stored in the last 10s"), "{all:?}");
    }
}

//! What must be true: the rows that writers wrote, and what they were told about them.
//!
//! A row that was acknowledged must be found exactly once. A row whose push failed may be there once or
//! not at all: the writer was not told. A row that was not written must not be there. A row that a delete
//! request names must not be there once the request was acknowledged, if the row was settled before the
//! request was made; one that was on its way meanwhile may be there or not. Rows are entries and samples
//! alike: a row of the other signal is one that was not written.

use std::collections::BTreeMap;

use anyhow::{Result, bail};
use sandur_model::{Signal, TimeRange};

/// What a writer was told about a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It is durable.
    Acknowledged,
    /// Nothing: the push failed or its writer was killed while it waited.
    Unknown,
    /// It was deleted.
    Deleted,
    /// It was on its way while it was deleted, or it is not known whether it was deleted.
    Maybe,
}

/// A row that was written.
#[derive(Clone, Debug)]
struct Written {
    signal: Signal,
    stream: String,
    timestamp: i64,
    fate: Fate,
    /// Pushes that were not answered.
    pushes: u32,
}

/// A delete request: which rows it names.
#[derive(Clone, Debug)]
pub struct Deletion {
    /// Of which signal.
    pub signal: Signal,
    /// Of which stream.
    pub stream: String,
    /// Of which times.
    pub range: TimeRange,
}

/// Every row that was ever written.
#[derive(Debug, Default)]
pub struct Oracle {
    rows: BTreeMap<String, Written>,
    deletions: Vec<Deletion>,
}

impl Deletion {
    fn names(&self, row: &Written) -> bool {
        self.signal == row.signal && self.stream == row.stream && self.range.contains(row.timestamp)
    }
}

impl Oracle {
    /// Notes a row before it is sent.
    pub fn sent(&mut self, signal: Signal, stream: &str, timestamp: i64, line: &str) {
        let mut row =
            Written { signal, stream: stream.to_owned(), timestamp, fate: Fate::Unknown, pushes: 0 };
        if self.deletions.iter().any(|deletion| deletion.names(&row)) {
            row.fate = Fate::Maybe;
        }
        self.rows.entry(line.to_owned()).or_insert(row).pushes += 1;
    }

    /// Notes that a push of a row was answered, and whether it was acknowledged.
    pub fn answered(&mut self, line: &str, acknowledged: bool) {
        let Some(row) = self.rows.get_mut(line) else { return };
        row.pushes -= 1;
        if acknowledged && row.fate == Fate::Unknown {
            row.fate = Fate::Acknowledged;
        }
    }

    /// Notes a delete request before it is made: what it names may be gone from now on.
    pub fn deleting(&mut self, deletion: &Deletion) -> Vec<String> {
        self.deletions.push(deletion.clone());
        let mut settled = Vec::new();
        for (line, row) in self.rows.iter_mut().filter(|(_, row)| deletion.names(row)) {
            if row.pushes == 0 && matches!(row.fate, Fate::Acknowledged | Fate::Deleted) {
                settled.push(line.clone());
            }
            if row.fate != Fate::Deleted {
                row.fate = Fate::Maybe;
            }
        }
        settled
    }

    /// Notes that a delete request was acknowledged: the rows that were settled before it are gone.
    pub fn deleted(&mut self, settled: &[String]) {
        for line in settled {
            if let Some(row) = self.rows.get_mut(line) {
                row.fate = Fate::Deleted;
            }
        }
    }

    /// Rows that were sent, and how many of them were acknowledged.
    pub fn counts(&self) -> (usize, usize) {
        let acknowledged = self.rows.values().filter(|row| row.fate == Fate::Acknowledged).count();
        (self.rows.len(), acknowledged)
    }

    /// Rows that are deleted.
    pub fn deleted_rows(&self) -> usize {
        self.rows.values().filter(|row| row.fate == Fate::Deleted).count()
    }

    /// Compares what `reader` found of a signal with what was written. With `all` every acknowledged row must
    /// be there and every deleted one gone; without it only rows beyond what was written are wrong.
    pub fn check(&self, reader: &str, signal: Signal, found: &[String], all: bool) -> Result<()> {
        let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
        for line in found {
            *counts.entry(line).or_default() += 1;
        }
        for (line, count) in &counts {
            match self.rows.get(*line).filter(|row| row.signal == signal) {
                None => bail!("{reader} found among {signal} a row that nobody wrote: '{line}'"),
                Some(row) if *count > 1 => {
                    bail!("{reader} found '{line}' {count} times; it is {:?}", row.fate)
                }
                Some(row) if all && row.fate == Fate::Deleted => {
                    bail!("{reader} found '{line}', which is deleted")
                }
                Some(_) => {}
            }
        }
        if all {
            for (line, row) in self.rows.iter().filter(|(_, row)| row.signal == signal) {
                if row.fate == Fate::Acknowledged && !counts.contains_key(line.as_str()) {
                    bail!("{reader} does not find the acknowledged row '{line}'");
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(all: &[&str]) -> Vec<String> {
        all.iter().map(|l| (*l).to_owned()).collect()
    }

    #[test]
    fn lost_doubled_and_invented_rows_are_noticed() {
        let mut oracle = Oracle::default();
        oracle.sent(Signal::Logs, "s", 1, "a");
        oracle.answered("a", true);
        oracle.sent(Signal::Logs, "s", 2, "b");
        let check = |found: &[&str], all| oracle.check("r", Signal::Logs, &lines(found), all);
        assert!(check(&["a"], true).is_ok());
        assert!(check(&["a", "b"], true).is_ok());
        assert!(check(&["b"], true).is_err(), "lost");
        assert!(check(&["b"], false).is_ok());
        assert!(check(&["a", "b", "b"], false).is_err(), "doubled");
        assert!(check(&["a", "x"], false).is_err(), "invented");
        assert!(oracle.check("r", Signal::Metrics, &lines(&["a"]), false).is_err(), "of the other signal");
        assert!(oracle.check("r", Signal::Metrics, &[], true).is_ok());
        assert_eq!(oracle.counts(), (2, 1));
    }

    #[test]
    fn deleted_rows_that_are_found_are_noticed() {
        let mut oracle = Oracle::default();
        for (line, timestamp) in [("settled", 1), ("late", 9), ("on its way", 2)] {
            oracle.sent(Signal::Logs, "s", timestamp, line);
        }
        oracle.answered("settled", true);
        oracle.answered("late", true);
        let range = TimeRange::new(0, 5);
        let deletion = Deletion { signal: Signal::Logs, stream: "s".to_owned(), range };
        let settled = oracle.deleting(&deletion);
        assert!(oracle.check("r", Signal::Logs, &lines(&["settled", "late"]), true).is_ok(), "not yet");
        oracle.deleted(&settled);
        oracle.answered("on its way", true);
        let check = |found: &[&str], all| oracle.check("r", Signal::Logs, &lines(found), all);
        assert!(check(&["late"], true).is_ok() && check(&["late", "on its way"], true).is_ok());
        assert!(check(&["late", "settled"], true).is_err(), "it is back");
        assert!(check(&[], true).is_err(), "more than was asked for");
        assert_eq!(oracle.deleted_rows(), 1);
    }
}

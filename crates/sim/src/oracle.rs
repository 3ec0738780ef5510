//! The expected state: the rows that writers wrote, and the answers they got.
//!
//! A row that was acknowledged must be found exactly once, bit for bit. If several values were sent for
//! one series and instant, one of them is found. Different help texts of a metric family may all be
//! found, and are never deleted. A row whose push failed may be found once or not at all, because its
//! writer got no answer. A row that was not written must not be found. A row that a delete request
//! covers must not be found once the request was acknowledged, if the row was settled before the request
//! was sent; a row in transit at that time may be found or not. Rows are entries or samples; a row
//! that is found in the other signal counts as not written.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Result, bail};
use sandur_model::{Signal, TimeRange};

use crate::row::{Found, Row};

/// The state of a row as far as its writer knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It is durable.
    Acknowledged,
    /// The push failed, or its writer was killed while it waited.
    Unknown,
    /// It was deleted.
    Deleted,
    /// It was in transit when it was deleted, or it is not known whether the delete succeeded.
    Maybe,
}

/// A row that was written.
#[derive(Clone, Debug)]
struct Written {
    signal: Signal,
    stream: String,
    timestamp: i64,
    /// The contents that were sent under its identity.
    texts: BTreeSet<String>,
    is_description: bool,
    fate: Fate,
    /// Number of pushes without an answer.
    pushes: u32,
}

/// A delete request.
#[derive(Clone, Debug)]
pub struct Deletion {
    /// The signal that it covers.
    pub signal: Signal,
    /// The stream that it covers.
    pub stream: String,
    /// The times that it covers.
    pub range: TimeRange,
}

/// Every row that was ever written.
#[derive(Debug, Default)]
pub struct Oracle {
    rows: BTreeMap<String, Written>,
    deletions: Vec<Deletion>,
}

/// The rows that are settled at a moment, by identity.
#[derive(Clone, Debug, Default)]
pub struct Settled {
    acknowledged: BTreeSet<String>,
    deleted: BTreeSet<String>,
}

impl Deletion {
    fn names(&self, row: &Written) -> bool {
        let names_it = !row.is_description && self.range.contains(row.timestamp);
        names_it && self.signal == row.signal && self.stream == row.stream
    }
}

impl Oracle {
    /// Records a row before it is sent.
    pub fn sent(&mut self, signal: Signal, row: &Row) {
        let Found { identity, text } = row.found();
        let written = self.rows.entry(identity).or_insert_with(|| Written {
            signal,
            stream: row.stream.clone(),
            timestamp: row.timestamp,
            texts: BTreeSet::new(),
            is_description: row.is_description(),
            fate: Fate::Unknown,
            pushes: 0,
        });
        written.texts.insert(text);
        written.pushes += 1;
        if self.deletions.iter().any(|deletion| deletion.names(written)) {
            written.fate = Fate::Maybe;
        }
    }

    /// Records that a push of a row was answered, and whether it was acknowledged.
    pub fn answered(&mut self, row: &Row, acknowledged: bool) {
        let Some(row) = self.rows.get_mut(&row.found().identity) else { return };
        row.pushes -= 1;
        if acknowledged && row.fate == Fate::Unknown {
            row.fate = Fate::Acknowledged;
        }
    }

    /// Records a delete request before it is sent: the rows that it covers may disappear from now on.
    /// Returns those that are settled.
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

    /// Records that a delete request was acknowledged: the rows that were settled before it are deleted.
    pub fn deleted(&mut self, settled: &[String]) {
        for line in settled {
            if let Some(row) = self.rows.get_mut(line) {
                row.fate = Fate::Deleted;
            }
        }
    }

    /// Returns the number of rows that were sent, and of those that were acknowledged.
    pub fn counts(&self) -> (usize, usize) {
        let acknowledged = self.rows.values().filter(|row| row.fate == Fate::Acknowledged).count();
        (self.rows.len(), acknowledged)
    }

    /// Returns the number of deleted rows.
    pub fn deleted_rows(&self) -> usize {
        self.rows.values().filter(|row| row.fate == Fate::Deleted).count()
    }

    /// Returns the rows that are settled now.
    pub fn settled(&self) -> Settled {
        let of = |fate| {
            let rows = self.rows.iter().filter(|(_, row)| row.fate == fate);
            rows.map(|(identity, _)| identity.clone()).collect()
        };
        Settled { acknowledged: of(Fate::Acknowledged), deleted: of(Fate::Deleted) }
    }

    /// Checks the rows of a signal in a copy that was made between two moments: those that were
    /// acknowledged at its beginning, and not deleted at its end, are there once; those that were deleted at
    /// its beginning are not.
    pub fn check_copy(
        &self,
        reader: &str,
        signal: Signal,
        found: &[Found],
        (began, ended): (&Settled, &Settled),
    ) -> Result<()> {
        self.check(reader, signal, found, false)?;
        let identities: BTreeSet<&str> = found.iter().map(|found| found.identity.as_str()).collect();
        for (identity, _) in self.rows.iter().filter(|(_, row)| row.signal == signal) {
            let is_kept = began.acknowledged.contains(identity) && ended.acknowledged.contains(identity);
            if is_kept && !identities.contains(identity.as_str()) {
                bail!("{reader} does not find '{identity}', which was acknowledged before the backup began");
            }
            if began.deleted.contains(identity) && identities.contains(identity.as_str()) {
                bail!("{reader} finds '{identity}', which was deleted before the backup began");
            }
        }
        Ok(())
    }

    /// Compares the rows of a signal that `reader` found with those that were written. With `all`, every
    /// acknowledged row must be found and no deleted one; without it, only rows that were not written
    /// are errors.
    pub fn check(&self, reader: &str, signal: Signal, found: &[Found], all: bool) -> Result<()> {
        let mut counts: BTreeMap<&str, BTreeMap<&str, usize>> = BTreeMap::new();
        for Found { identity, text } in found {
            *counts.entry(identity).or_default().entry(text).or_default() += 1;
        }
        for (line, texts) in &counts {
            let Some(row) = self.rows.get(*line).filter(|row| row.signal == signal) else {
                bail!("{reader} found among {signal} a row that was never written: '{line}' {texts:?}");
            };
            if let Some(other) = texts.keys().find(|text| !row.texts.contains(**text)) {
                bail!("{reader} found '{line}' as '{other}', written was {:?}", row.texts);
            }
            if texts.values().any(|count| *count > 1) || (texts.len() > 1 && !row.is_description) {
                bail!("{reader} found '{line}' several times, {texts:?}; it is {:?}", row.fate);
            }
            if all && row.fate == Fate::Deleted {
                bail!("{reader} found '{line}', which is deleted");
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

    use crate::row::Content;

    fn lines(all: &[&str]) -> Vec<Found> {
        all.iter().map(|line| row(line, 0).found()).collect()
    }

    fn row(line: &str, timestamp: i64) -> Row {
        Row { stream: "s".to_owned(), timestamp, content: Content::Line(line.to_owned()) }
    }

    #[test]
    fn lost_duplicated_and_invented_rows_are_detected() {
        let mut oracle = Oracle::default();
        oracle.sent(Signal::Logs, &row("a", 1));
        oracle.answered(&row("a", 1), true);
        oracle.sent(Signal::Logs, &row("b", 2));
        let check = |found: &[&str], all| oracle.check("r", Signal::Logs, &lines(found), all);
        assert!(check(&["a"], true).is_ok());
        assert!(check(&["a", "b"], true).is_ok());
        assert!(check(&["b"], true).is_err(), "lost");
        assert!(check(&["b"], false).is_ok());
        assert!(check(&["a", "b", "b"], false).is_err(), "duplicated");
        assert!(check(&["a", "x"], false).is_err(), "invented");
        assert!(oracle.check("r", Signal::Metrics, &lines(&["a"]), false).is_err(), "of the other signal");
        assert!(oracle.check("r", Signal::Metrics, &[], true).is_ok());
        assert_eq!(oracle.counts(), (2, 1));
    }

    #[test]
    fn deleted_rows_that_are_found_are_detected() {
        let mut oracle = Oracle::default();
        for (line, timestamp) in [("settled", 1), ("late", 9), ("on its way", 2)] {
            oracle.sent(Signal::Logs, &row(line, timestamp));
        }
        oracle.answered(&row("settled", 0), true);
        oracle.answered(&row("late", 0), true);
        let range = TimeRange::new(0, 5);
        let deletion = Deletion { signal: Signal::Logs, stream: "s".to_owned(), range };
        let settled = oracle.deleting(&deletion);
        assert!(oracle.check("r", Signal::Logs, &lines(&["settled", "late"]), true).is_ok(), "not yet");
        oracle.deleted(&settled);
        oracle.answered(&row("on its way", 0), true);
        let check = |found: &[&str], all| oracle.check("r", Signal::Logs, &lines(found), all);
        assert!(check(&["late"], true).is_ok() && check(&["late", "on its way"], true).is_ok());
        assert!(check(&["late", "settled"], true).is_err(), "it reappeared");
        assert!(check(&[], true).is_err(), "more was deleted than requested");
        assert_eq!(oracle.deleted_rows(), 1);
    }

    #[test]
    fn changed_bits_and_two_values_of_an_instant_are_detected() {
        let sample = |bits| Row {
            stream: "s".to_owned(),
            timestamp: 1_000_000,
            content: Content::Float { bits, start: 0 },
        };
        let help =
            |text: &str| Row { stream: "up".to_owned(), timestamp: 0, content: Content::Help(text.into()) };
        let mut oracle = Oracle::default();
        for row in [sample(1), sample(2), help("old"), help("new")] {
            oracle.sent(Signal::Metrics, &row);
            oracle.answered(&row, true);
        }
        let check = |rows: &[Row]| {
            let found: Vec<Found> = rows.iter().map(Row::found).collect();
            oracle.check("r", Signal::Metrics, &found, true)
        };
        assert!(check(&[sample(2), help("new")]).is_ok());
        assert!(check(&[sample(1), help("old"), help("new")]).is_ok());
        assert!(check(&[sample(3), help("new")]).is_err(), "bits that were never sent");
        assert!(check(&[sample(1), sample(2), help("new")]).is_err(), "both values");
        assert!(check(&[sample(1)]).is_err(), "the help text is missing");
        assert!(check(&[sample(1), help("new"), help("new")]).is_err());
    }
}

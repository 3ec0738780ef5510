//! What must be true: the rows that writers wrote, and what they were told about them.
//!
//! A row that was acknowledged must be found exactly once. A row whose push failed may be there once or
//! not at all: the writer was not told. A row that nobody wrote must not be there.

use std::collections::BTreeMap;

use anyhow::{Result, bail};

/// What a writer was told about a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It is durable.
    Acknowledged,
    /// Nothing: the push failed or its writer was killed while it waited.
    Unknown,
}

/// Every row that was ever written.
#[derive(Debug, Default)]
pub struct Oracle {
    rows: BTreeMap<String, Fate>,
}

impl Oracle {
    /// Notes a row before it is sent.
    pub fn sent(&mut self, line: &str) {
        self.rows.entry(line.to_owned()).or_insert(Fate::Unknown);
    }

    /// Notes that a row was acknowledged.
    pub fn acknowledged(&mut self, line: &str) {
        self.rows.insert(line.to_owned(), Fate::Acknowledged);
    }

    /// Rows that were sent, and how many of them were acknowledged.
    pub fn counts(&self) -> (usize, usize) {
        let acknowledged = self.rows.values().filter(|fate| **fate == Fate::Acknowledged).count();
        (self.rows.len(), acknowledged)
    }

    /// Compares what `reader` found with what was written. With `all` every acknowledged row must be
    /// there; without it only rows beyond what was written are wrong.
    pub fn check(&self, reader: &str, found: &[String], all: bool) -> Result<()> {
        let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
        for line in found {
            *counts.entry(line).or_default() += 1;
        }
        for (line, count) in &counts {
            match self.rows.get(*line) {
                None => bail!("{reader} found a row that nobody wrote: '{line}'"),
                Some(fate) if *count > 1 => bail!("{reader} found '{line}' {count} times; it is {fate:?}"),
                Some(_) => {}
            }
        }
        if all {
            for (line, fate) in &self.rows {
                if *fate == Fate::Acknowledged && !counts.contains_key(line.as_str()) {
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

    #[test]
    fn lost_doubled_and_invented_rows_are_noticed() {
        let mut oracle = Oracle::default();
        oracle.sent("a");
        oracle.acknowledged("a");
        oracle.sent("b");
        let lines = |all: &[&str]| all.iter().map(|l| (*l).to_owned()).collect::<Vec<_>>();
        assert!(oracle.check("r", &lines(&["a"]), true).is_ok());
        assert!(oracle.check("r", &lines(&["a", "b"]), true).is_ok());
        assert!(oracle.check("r", &lines(&["b"]), true).is_err(), "lost");
        assert!(oracle.check("r", &lines(&["b"]), false).is_ok());
        assert!(oracle.check("r", &lines(&["a", "b", "b"]), false).is_err(), "doubled");
        assert!(oracle.check("r", &lines(&["a", "x"]), false).is_err(), "invented");
        assert_eq!(oracle.counts(), (2, 1));
    }
}

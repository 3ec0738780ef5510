//! What was acknowledged when, and whether an answer may be as it is.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use anyhow::{Result, bail};
use sandur_model::Signal;

use crate::row::Found;

/// Every row that was sent: its signal, and when its push was acknowledged.
#[derive(Debug, Default)]
pub struct Claims(BTreeMap<String, (Signal, Option<Duration>)>);

/// How a node was asked, and how it answered.
pub struct Answer<'a> {
    pub node: &'a str,
    pub signal: Signal,
    pub rows: &'a [Found],
    /// When the query began.
    pub began: Duration,
    /// Rows that were acknowledged longer ago must be there, unless the answer warns.
    pub permitted_age: Duration,
    pub warning: Option<&'a str>,
}

impl Claims {
    /// Notes a row before it is sent.
    pub fn sent(&mut self, signal: Signal, identity: String) {
        self.0.entry(identity).or_insert((signal, None));
    }

    /// Notes that a row is durable.
    pub fn acknowledged(&mut self, identity: &str, now: Duration) {
        if let Some((_, at @ None)) = self.0.get_mut(identity) {
            *at = Some(now);
        }
    }

    /// Numbers of rows that were sent and acknowledged.
    pub fn counts(&self) -> (usize, usize) {
        (self.0.len(), self.0.values().filter(|(_, at)| at.is_some()).count())
    }

    /// Fails if an answer has a row twice or one that nobody sent, or is silently stale. Returns the age of
    /// the oldest row that is missing.
    pub fn check(&self, answer: &Answer<'_>) -> Result<Duration> {
        let (node, signal) = (answer.node, answer.signal);
        let mut seen = BTreeSet::new();
        for Found { identity, .. } in answer.rows {
            if !seen.insert(identity.as_str()) {
                bail!("{node} finds '{identity}' twice");
            }
            if self.0.get(identity).is_none_or(|(of, _)| *of != signal) {
                bail!("{node} finds '{identity}', which nobody sent");
            }
        }
        let mut oldest = Duration::ZERO;
        for (identity, (of, at)) in &self.0 {
            let Some(at) = at.filter(|_| *of == signal && !seen.contains(identity.as_str())) else {
                continue;
            };
            let age = answer.began.saturating_sub(at);
            oldest = oldest.max(age);
            if age > answer.permitted_age && answer.warning.is_none() {
                bail!("{node} does not find '{identity}', acknowledged {age:?} earlier, and does not warn");
            }
        }
        Ok(oldest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stale_doubled_and_invented_rows_are_found() {
        let mut claims = Claims::default();
        for identity in ["a", "b", "c"] {
            claims.sent(Signal::Logs, identity.to_owned());
        }
        claims.acknowledged("a", Duration::from_secs(1));
        claims.acknowledged("b", Duration::from_secs(7));
        let check = |rows: &[&str], signal, warning| {
            let found = |identity: &&str| Found { identity: (*identity).to_owned(), text: String::new() };
            let rows: Vec<Found> = rows.iter().map(found).collect();
            let (began, permitted_age) = (Duration::from_secs(10), Duration::from_secs(5));
            claims.check(&Answer { node: "n", signal, rows: &rows, began, permitted_age, warning })
        };
        assert_eq!(check(&["a", "b", "c"], Signal::Logs, None).unwrap(), Duration::ZERO);
        assert_eq!(check(&["a"], Signal::Logs, None).unwrap(), Duration::from_secs(3));
        assert!(check(&["b"], Signal::Logs, None).is_err(), "silently stale");
        assert_eq!(check(&["b"], Signal::Logs, Some("old")).unwrap(), Duration::from_secs(9));
        for warning in [None, Some("old")] {
            assert!(check(&["a", "b", "b"], Signal::Logs, warning).is_err(), "twice");
            assert!(check(&["a", "b", "d"], Signal::Logs, warning).is_err(), "invented");
            assert!(check(&["a"], Signal::Metrics, warning).is_err(), "of the other signal");
        }
    }
}

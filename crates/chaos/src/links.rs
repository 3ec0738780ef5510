//! The state of each direction between two parties: nodes and the bucket.
//!
//! Faults add rules and remove them. A direction is as bad as the worst rule that applies to it. Proxies
//! ask before they pass bytes, and are woken when the rules change.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::watch;

/// A side of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Party {
    Node(usize),
    Bucket,
}

/// How bytes pass. The order is from good to bad.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Passage {
    Open,
    /// Each chunk of bytes is delayed.
    Slow(Duration),
    /// Bytes wait; connections stay open.
    Stalled,
    /// Connections are closed, and new ones too.
    Closed,
}

/// Which directions a rule concerns. All rules apply to both directions.
#[derive(Clone, Debug)]
pub enum Between {
    /// Between these nodes and the bucket.
    NodesAndBucket(Vec<usize>),
    /// Between these nodes and all others.
    NodesAndOthers(Vec<usize>),
}

impl Between {
    fn applies(&self, one: Party, other: Party) -> bool {
        match (self, one, other) {
            (Self::NodesAndBucket(nodes), Party::Node(node), Party::Bucket)
            | (Self::NodesAndBucket(nodes), Party::Bucket, Party::Node(node)) => nodes.contains(&node),
            (Self::NodesAndOthers(nodes), Party::Node(one), Party::Node(other)) => {
                nodes.contains(&one) != nodes.contains(&other)
            }
            _ => false,
        }
    }
}

/// All rules.
pub struct Links {
    rules: Mutex<Vec<(usize, Between, Passage)>>,
    changes: watch::Sender<u64>,
}

impl Default for Links {
    fn default() -> Self {
        Self { rules: Mutex::default(), changes: watch::Sender::new(0) }
    }
}

impl Links {
    /// How bytes pass from one party to another.
    pub fn passage(&self, one: Party, other: Party) -> Passage {
        let rules = self.rules();
        let applying = rules.iter().filter(|(_, between, _)| between.applies(one, other));
        applying.map(|(_, _, passage)| *passage).max().unwrap_or(Passage::Open)
    }

    /// Adds a rule of the fault with this number.
    pub fn add(&self, fault: usize, between: Between, passage: Passage) {
        self.rules().push((fault, between, passage));
        self.changes.send_modify(|version| *version += 1);
    }

    /// Removes the rules of a fault.
    pub fn remove(&self, fault: usize) {
        self.rules().retain(|(of, _, _)| *of != fault);
        self.changes.send_modify(|version| *version += 1);
    }

    /// Is notified of every change.
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    fn rules(&self) -> MutexGuard<'_, Vec<(usize, Between, Passage)>> {
        self.rules.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_worst_rule_applies_until_its_fault_ends() {
        let links = Links::default();
        let (zero, one, two) = (Party::Node(0), Party::Node(1), Party::Node(2));
        assert_eq!(links.passage(zero, Party::Bucket), Passage::Open);
        links.add(1, Between::NodesAndBucket(vec![0]), Passage::Slow(Duration::from_secs(1)));
        links.add(2, Between::NodesAndBucket(vec![0, 1]), Passage::Closed);
        links.add(3, Between::NodesAndOthers(vec![0, 1]), Passage::Stalled);
        assert_eq!(links.passage(Party::Bucket, zero), Passage::Closed);
        assert_eq!(links.passage(zero, one), Passage::Open, "both are in the group");
        assert_eq!((links.passage(zero, two), links.passage(two, one)), (Passage::Stalled, Passage::Stalled));
        links.remove(2);
        assert_eq!(links.passage(zero, Party::Bucket), Passage::Slow(Duration::from_secs(1)));
        assert_eq!(links.passage(one, Party::Bucket), Passage::Open);
    }
}

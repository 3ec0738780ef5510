//! Exemplars: single observations that a series was made of, mostly with the id of a trace.

use std::cmp::Ordering;

use crate::labels::Labels;

/// One observation beside the samples of a series.
#[derive(Clone, Debug, PartialEq)]
pub struct Exemplar {
    /// What tells where it was observed, as `trace_id`; not the labels of its series.
    pub labels: Labels,
    /// The observed value.
    pub value: f64,
    /// Milliseconds since the epoch.
    pub timestamp: i64,
}

impl Exemplar {
    /// Bytes that it takes beside its own size: texts, and what the set of labels takes for each.
    pub fn held_bytes(&self) -> u64 {
        (self.labels.text_bytes() + self.labels.len() * 2 * size_of::<Box<str>>()) as u64
    }

    /// The order by time; of one time by the bits of the value, then by labels. Equal are those that are the
    /// same observation.
    pub fn order(&self, other: &Self) -> Ordering {
        let key = |e: &Self| (e.timestamp, e.value.to_bits());
        key(self).cmp(&key(other)).then_with(|| self.labels.cmp(&other.labels))
    }

    /// Sorts exemplars of one series, each once.
    pub fn sort(exemplars: &mut Vec<Self>) {
        exemplars.sort_unstable_by(Self::order);
        exemplars.dedup_by(|a, b| a.order(b).is_eq());
    }
}

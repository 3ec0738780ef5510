//! Exemplars: single observations that a series was made of, mostly with the id of a trace.

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

    /// Whether both are the same observation: bits of the value are compared.
    pub fn same(&self, other: &Self) -> bool {
        let key = |e: &Self| (e.timestamp, e.value.to_bits());
        key(self) == key(other) && self.labels == other.labels
    }
}

//! Exemplars: single observations that contributed to a series, usually with a trace id.

use std::cmp::Ordering;

use crate::labels::Labels;

/// One observation of a series.
#[derive(Clone, Debug, PartialEq)]
pub struct Exemplar {
    /// Labels that identify the observation, such as `trace_id`; without the labels of the series.
    pub labels: Labels,
    /// The observed value.
    pub value: f64,
    /// Time of the observation in milliseconds since the epoch.
    pub timestamp: i64,
}

impl Exemplar {
    /// Bytes that the labels use in addition to `size_of::<Exemplar>()`: their text, and a fixed part
    /// per label.
    pub fn held_bytes(&self) -> u64 {
        (self.labels.text_bytes() + self.labels.len() * 2 * size_of::<Box<str>>()) as u64
    }

    /// Orders by time, then by the bits of the value, then by labels. Equal exemplars are the same
    /// observation.
    pub fn order(&self, other: &Self) -> Ordering {
        let key = |e: &Self| (e.timestamp, e.value.to_bits());
        key(self).cmp(&key(other)).then_with(|| self.labels.cmp(&other.labels))
    }

    /// Sorts the exemplars of one series and removes duplicates.
    pub fn sort(exemplars: &mut Vec<Self>) {
        exemplars.sort_unstable_by(Self::order);
        exemplars.dedup_by(|a, b| a.order(b).is_eq());
    }
}

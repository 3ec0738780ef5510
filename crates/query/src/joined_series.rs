//! Concatenates series from parts of a result that are added in the order of time.
//!
//! **Invariant.** Each label set appears once, with the samples of all parts in the order of addition,
//! in reserved memory.

use std::collections::hash_map::{Entry, HashMap};
use std::sync::Arc;

use foldhash::fast::FixedState;
use sandur_memory::{MemoryBudget, OverBudget, Reservation};

use crate::result::{Sample, Series, SeriesLabels};

/// Bytes of a series besides samples and labels.
const SERIES_BYTES: usize = 128;
/// Bytes of a label besides its name and value.
const LABEL_BYTES: usize = 64;

/// The series that were added so far.
pub(crate) struct JoinedSeries {
    series: Vec<Series>,
    places: HashMap<SeriesLabels, usize, FixedState>,
    /// The position after the series that was added to last: most parts have the same series in the same
    /// order.
    next: usize,
    memory: Reservation,
}

impl JoinedSeries {
    /// An empty result.
    pub(crate) fn new(budget: &MemoryBudget) -> Result<Self, OverBudget> {
        let memory = budget.reserve(0)?;
        Ok(Self { series: Vec::new(), places: HashMap::default(), next: 0, memory })
    }

    /// Appends samples to a series.
    pub(crate) fn add(
        &mut self,
        labels: &SeriesLabels,
        samples: impl ExactSizeIterator<Item = Sample>,
    ) -> Result<(), OverBudget> {
        // A vector that grows by doubling may have twice the capacity that it needs.
        self.memory.grow((2 * samples.len() * size_of::<Sample>()) as u64)?;
        let place = match self.series.get(self.next) {
            Some(next) if Arc::ptr_eq(&next.labels, labels) || next.labels == *labels => self.next,
            _ => self.place(labels)?,
        };
        self.series[place].samples.extend(samples);
        self.next = place + 1;
        Ok(())
    }

    fn place(&mut self, labels: &SeriesLabels) -> Result<usize, OverBudget> {
        let new = self.series.len();
        match self.places.entry(Arc::clone(labels)) {
            Entry::Occupied(known) => Ok(*known.get()),
            Entry::Vacant(place) => {
                let text: usize = labels.iter().map(|(n, v)| n.len() + v.len() + LABEL_BYTES).sum();
                self.memory.grow((text + SERIES_BYTES) as u64)?;
                place.insert(new);
                self.series.push(Series { labels: Arc::clone(labels), samples: Vec::new() });
                Ok(new)
            }
        }
    }

    /// The series, sorted by labels, and the reservation of their memory.
    pub(crate) fn sorted(self) -> (Vec<Series>, Reservation) {
        let Self { mut series, memory, .. } = self;
        if !series.is_sorted_by(|a, b| a.labels <= b.labels) {
            series.sort_unstable_by(|a, b| a.labels.cmp(&b.labels));
        }
        (series, memory)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(app: &str) -> SeriesLabels {
        Arc::new(vec![("app".into(), app.into())])
    }

    /// Method: parts that share label sets, that have equal ones of their own, and that lack some.
    #[test]
    fn series_are_complete_and_sorted_for_any_parts() {
        let shared: Vec<SeriesLabels> = ["a", "b", "d"].map(labels).to_vec();
        let parts: Vec<Vec<SeriesLabels>> = vec![
            shared.clone(),
            shared.clone(),
            vec![shared[0].clone(), labels("c"), shared[2].clone()],
            ["a", "c", "d"].map(labels).to_vec(),
            vec![labels("c"), shared[1].clone()],
        ];
        let mut joined = JoinedSeries::new(&MemoryBudget::root("query", 1 << 20)).unwrap();
        for (part, at) in parts.iter().zip(0..) {
            for labels in part {
                joined.add(labels, std::iter::once(Sample { timestamp_ms: at, value: 0.0 })).unwrap();
            }
        }
        let (series, memory) = joined.sorted();
        let times = |s: &Series| s.samples.iter().map(|sample| sample.timestamp_ms).collect::<Vec<_>>();
        let all: Vec<(String, Vec<i64>)> =
            series.iter().map(|s| (s.labels[0].1.to_string(), times(s))).collect();
        let wanted =
            [("a", vec![0, 1, 2, 3]), ("b", vec![0, 1, 4]), ("c", vec![2, 3, 4]), ("d", vec![0, 1, 2, 3])];
        assert_eq!(all, wanted.map(|(app, times)| (app.to_owned(), times)));
        assert!(memory.bytes() > 0);
        let mut little = JoinedSeries::new(&MemoryBudget::root("query", 100)).unwrap();
        assert!(little.add(&labels("a"), std::iter::empty()).is_err());
    }
}

//! A unit of the step cache: the series of consecutive steps, with all values in one allocation.
//!
//! The result of a query over many steps is split into many units, each with a few samples of each
//! series. Storing series separately would need an allocation for each. Most series have a sample at
//! every step, so that the first time determines all others.
//!
//! **Invariant.** A unit returns the samples of a series as they were added, in order; series without
//! samples are left out.

use crate::result::{Sample, SeriesLabels};

/// Versions of the data from which a unit was computed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum UnitVersions {
    /// Of all rows that its steps read.
    Whole(u128),
    /// For each step, of the rows that the steps up to it read.
    BySteps(Vec<u128>),
}

impl UnitVersions {
    fn memory_bytes(&self) -> usize {
        match self {
            Self::Whole(_) => 0,
            Self::BySteps(versions) => versions.capacity() * size_of::<u128>(),
        }
    }
}

/// Series over consecutive steps.
#[derive(Clone, Debug, PartialEq)]
pub struct Unit {
    /// Number of the first step.
    pub first: i64,
    /// Number of the last step.
    pub last: i64,
    /// Versions of the data from which the series were computed.
    pub versions: UnitVersions,
    step_ms: i64,
    series: Vec<UnitSeries>,
    /// The values of all series, concatenated.
    values: Vec<f64>,
    /// Times, in milliseconds, of the series that do not have a sample at every step.
    times: Vec<i64>,
    label_bytes: usize,
}

#[derive(Clone, Debug, PartialEq)]
struct UnitSeries {
    labels: SeriesLabels,
    /// End of its values in the list of all values.
    end: usize,
    times: Times,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Times {
    /// One per step, beginning at this time in milliseconds.
    From(i64),
    /// In the list of times, beginning at this position.
    Listed(usize),
}

/// The samples of one series of a unit.
#[derive(Clone, Copy, Debug)]
pub struct UnitSamples<'a> {
    values: &'a [f64],
    times: UnitTimes<'a>,
}

#[derive(Clone, Copy, Debug)]
enum UnitTimes<'a> {
    Steps { first_ms: i64, step_ms: i64 },
    Listed(&'a [i64]),
}

/// Bytes of a label set. Units share label sets, but the last unit that holds one holds it alone.
pub(crate) fn label_bytes(labels: &SeriesLabels) -> usize {
    const COUNTS_AND_LIST: usize = 64;
    labels.iter().map(|(name, value)| name.len() + value.len() + 32).sum::<usize>() + COUNTS_AND_LIST
}

impl Unit {
    /// An empty unit of steps of `step_ms` milliseconds, with capacity for a number of series and
    /// samples.
    pub fn with_room(
        (first, last): (i64, i64),
        step_ms: i64,
        versions: UnitVersions,
        (series, samples): (usize, usize),
    ) -> Self {
        let (series, values, times) = (Vec::with_capacity(series), Vec::with_capacity(samples), Vec::new());
        Self { first, last, versions, step_ms, series, values, times, label_bytes: 0 }
    }

    /// Adds the samples of a series, whose label set uses `label_bytes` of memory.
    pub fn add(&mut self, labels: &SeriesLabels, label_bytes: usize, samples: &[Sample]) {
        let Some(first) = samples.first() else { return };
        // Times rise, so a sum that wraps around equals no time.
        let compare = |(is_so, step): (bool, i64), sample: &Sample| {
            (is_so & (sample.timestamp_ms == step), step.wrapping_add(self.step_ms))
        };
        let (by_steps, _) = samples.iter().fold((true, first.timestamp_ms), compare);
        let times = match by_steps {
            true => Times::From(first.timestamp_ms),
            false => {
                self.times.extend(samples.iter().map(|sample| sample.timestamp_ms));
                Times::Listed(self.times.len() - samples.len())
            }
        };
        self.values.extend(samples.iter().map(|sample| sample.value));
        self.label_bytes += label_bytes;
        self.series.push(UnitSeries { labels: labels.clone(), end: self.values.len(), times });
    }

    /// The series that have samples, with their samples.
    pub fn series(&self) -> impl Iterator<Item = (&SeriesLabels, UnitSamples<'_>)> {
        let starts = std::iter::once(0).chain(self.series.iter().map(|series| series.end));
        self.series.iter().zip(starts).map(|(UnitSeries { labels, end, times }, start)| {
            let values = &self.values[start..*end];
            let times = match *times {
                Times::From(first_ms) => UnitTimes::Steps { first_ms, step_ms: self.step_ms },
                Times::Listed(at) => UnitTimes::Listed(&self.times[at..at + values.len()]),
            };
            (labels, UnitSamples { values, times })
        })
    }

    /// Bytes of memory that the unit uses. Label sets count completely, because the last unit holds them
    /// alone.
    pub fn memory_bytes(&self) -> u64 {
        let numbers = (self.values.capacity() + self.times.capacity()) * size_of::<f64>()
            + self.versions.memory_bytes();
        (size_of::<Self>() + numbers + size_of_val(self.series.as_slice()) + self.label_bytes) as u64
    }
}

impl<'a> UnitSamples<'a> {
    /// The samples between two instants in milliseconds, both inclusive.
    pub fn between(self, first_ms: i64, last_ms: i64) -> impl ExactSizeIterator<Item = Sample> + use<'a> {
        let place = |ms: i64| match self.times {
            // The number of times up to and including `ms`.
            UnitTimes::Steps { first_ms, step_ms } => {
                let steps = ms.saturating_sub(first_ms).div_euclid(step_ms.max(1)).saturating_add(1);
                steps.clamp(0, self.values.len() as i64) as usize
            }
            UnitTimes::Listed(times) => times.partition_point(|time| *time <= ms),
        };
        let (from, to) = (place(first_ms.saturating_sub(1)), place(last_ms));
        let values = self.values.get(from..to).unwrap_or_default();
        values.iter().enumerate().map(move |(n, value)| {
            let timestamp_ms = match self.times {
                UnitTimes::Steps { first_ms, step_ms } => first_ms + step_ms * (from + n) as i64,
                UnitTimes::Listed(times) => times[from + n],
            };
            Sample { timestamp_ms, value: *value }
        })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[test]
    fn samples_between_any_instants_are_those_that_were_added() {
        let of = |times: &[i64]| -> Vec<Sample> {
            let sample = |ms: &i64| Sample { timestamp_ms: *ms, value: *ms as f64 / 7.0 };
            times.iter().map(sample).collect()
        };
        let all = [of(&[-20, -10, 0, 10, 20]), of(&[]), of(&[0, 20]), of(&[10]), of(&[-20, -10, 10, 20])];
        let mut unit = Unit::with_room((-2, 2), 10, UnitVersions::Whole(1), (0, 0));
        for (n, samples) in all.iter().enumerate() {
            let labels = Arc::new(vec![("n".into(), n.to_string().into())]);
            unit.add(&labels, label_bytes(&labels), samples);
        }
        let added: Vec<&Vec<Sample>> = all.iter().filter(|samples| !samples.is_empty()).collect();
        assert_eq!(unit.series().count(), added.len());
        for (first, last) in [(-100, 100), (-20, 20), (-19, 19), (-10, 10), (1, 9), (20, -20), (5, 100)] {
            for ((_, found), added) in unit.series().zip(&added) {
                let inside = |sample: &&Sample| (first..=last).contains(&sample.timestamp_ms);
                let expected: Vec<Sample> = added.iter().filter(inside).copied().collect();
                assert_eq!(found.between(first, last).collect::<Vec<_>>(), expected, "{first} {last}");
            }
        }
        assert_eq!(unit.times.len(), 6, "the other series have a sample at every step");
    }
}

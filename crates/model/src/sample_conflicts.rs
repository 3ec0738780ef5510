//! Samples of a batch that were not stored because their series has another value for the same instant.
//!
//! **Invariants.** At most `EXAMPLES_MAX` conflicts are described and at most `SERIES_MAX` series are
//! listed, whatever the number of conflicts. A sample that equals the stored one is not a conflict.

use std::fmt;

use crate::histogram::GoNumber;
use crate::series_labels::SeriesLabels;

/// The most conflicts that are described.
const EXAMPLES_MAX: usize = 10;
/// The most series with conflicts that are listed.
const SERIES_MAX: usize = 10_000;

/// One conflict.
#[derive(Clone, Debug)]
pub struct SampleConflict {
    /// The series.
    pub labels: SeriesLabels,
    /// The instant, in milliseconds since the epoch.
    pub timestamp: i64,
    /// The stored value; `None` when it is a histogram.
    pub stored: Option<f64>,
    /// The value that was not stored; `None` when it is a histogram.
    pub refused: Option<f64>,
}

/// The conflicts of a batch.
#[derive(Clone, Debug, Default)]
pub struct SampleConflicts {
    /// Float samples that were not stored.
    pub floats: u64,
    /// Histograms that were not stored.
    pub histograms: u64,
    /// The first conflicts.
    pub examples: Vec<SampleConflict>,
    series: Vec<u32>,
    has_more_series: bool,
}

impl SampleConflicts {
    /// Whether there are no conflicts.
    pub fn is_empty(&self) -> bool {
        self.floats + self.histograms == 0
    }

    /// Positions in the batch of the series with conflicts, each once and rising; `None` when there are
    /// more than the limit.
    pub fn series(&self) -> Option<&[u32]> {
        (!self.has_more_series).then_some(&self.series)
    }

    /// Adds a conflict of the series at a position of the batch; positions must not fall.
    pub fn add(&mut self, position: u32, conflict: impl FnOnce() -> SampleConflict, is_histogram: bool) {
        match is_histogram {
            true => self.histograms += 1,
            false => self.floats += 1,
        }
        if self.examples.len() < EXAMPLES_MAX {
            self.examples.push(conflict());
        }
        self.name(position);
    }

    /// Adds the conflicts of the next part of the batch. `positions` maps the series of the part, in
    /// order, to positions in the batch.
    pub fn add_part(&mut self, part: Self, positions: impl Iterator<Item = usize>) {
        self.floats += part.floats;
        self.histograms += part.histograms;
        let room = EXAMPLES_MAX.saturating_sub(self.examples.len());
        self.examples.extend(part.examples.into_iter().take(room));
        let mut numbered = (0u32..).zip(positions);
        for position in part.series {
            if let Some((_, in_batch)) = numbered.find(|(number, _)| *number == position) {
                self.name(in_batch as u32);
            }
        }
        self.has_more_series |= part.has_more_series;
    }

    fn name(&mut self, position: u32) {
        if self.series.last() == Some(&position) {
            return;
        }
        match self.series.len() < SERIES_MAX {
            true => self.series.push(position),
            false => self.has_more_series = true,
        }
    }
}

/// Prometheus's text.
impl fmt::Display for SampleConflict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { labels, timestamp, stored, refused } = self;
        write!(f, "duplicate sample for timestamp {timestamp}; overrides not allowed: existing ")?;
        match stored {
            Some(value) => write!(f, "{}", GoNumber(*value))?,
            None => f.write_str("is a histogram")?,
        }
        match refused {
            Some(value) => write!(f, ", new value {}", GoNumber(*value))?,
            None => f.write_str(", new value is a histogram")?,
        }
        write!(f, " for series {}", **labels)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::Labels;

    fn conflict(timestamp: i64, stored: Option<f64>, refused: Option<f64>) -> SampleConflict {
        let labels = SeriesLabels::from(Arc::new(Labels::from_pairs([("__name__", "up")])));
        SampleConflict { labels, timestamp, stored, refused }
    }

    #[test]
    fn conflicts_are_described_with_the_text_of_prometheus() {
        for (stored, refused, text) in [
            (Some(1.0), Some(2e9), "existing 1, new value 2e+09"),
            (None, Some(f64::NAN), "existing is a histogram, new value NaN"),
            (Some(0.5), None, "existing 0.5, new value is a histogram"),
        ] {
            let expected = format!(
                "duplicate sample for timestamp 7; overrides not allowed: {text} for series \
                 {{__name__=\"up\"}}"
            );
            assert_eq!(conflict(7, stored, refused).to_string(), expected);
        }
    }

    #[test]
    fn all_conflicts_are_counted_and_few_are_described() {
        let mut all = SampleConflicts::default();
        let mut part = SampleConflicts::default();
        for position in 0..100u32 {
            part.add(position / 2, || conflict(position.into(), None, None), position % 4 == 0);
        }
        // The first series of the second part is the last one of the first part.
        all.add_part(part.clone(), 100..150);
        all.add_part(part.clone(), 149..199);
        assert_eq!((all.floats, all.histograms, all.examples.len()), (150, 50, EXAMPLES_MAX));
        assert_eq!(all.series().unwrap(), (100..199).collect::<Vec<u32>>());
        for position in 0..SERIES_MAX as u32 {
            all.add(200 + position, || unreachable!("enough are described"), false);
        }
        assert_eq!((all.floats, all.series()), (150 + SERIES_MAX as u64, None));
    }
}

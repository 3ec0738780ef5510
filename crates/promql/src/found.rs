//! Gathers the series of an answer, drops metric names, and joins series with equal labels.
//!
//! A series with samples at only a few steps is kept as a list of these: an answer may have one series
//! for each value at each step.
//!
//! Series that differ only in a dropped name become one. The query fails if two of them have a sample at
//! the same step, of any kind.

use std::sync::Arc;

use sandur_memory::job::spend;
use sandur_model::Labels;
use sandur_query::Error;

use crate::answer::Series;
use crate::column::{Column, Grid, Sample, Sparse};
use crate::labels::{ByLabels, LabelsId};
use crate::ops::binary::same_labels;
use crate::run::{AnyOperator, LeafId, Pull, Run};

enum Samples {
    Few(Sparse),
    Column(Box<Column>),
}

/// A series of the answer.
pub struct Found {
    /// The labels.
    pub labels: LabelsId,
    samples: Samples,
}

/// The bytes of a series without its samples: the series, its place, and room for growing lists.
const SERIES_BYTES: u64 = 2 * (size_of::<Found>() as u64 + 24);

/// The series gathered so far.
#[derive(Default)]
pub struct FoundSeries {
    series: Vec<Found>,
    places: ByLabels,
    is_done: bool,
}

impl FoundSeries {
    /// Gathers all series of an operator over a number of steps. Returns the selector whose next batch is
    /// needed first, or `None` at the end.
    pub fn gather(
        &mut self,
        from: &mut AnyOperator,
        steps: usize,
        run: &mut Run,
    ) -> Result<Option<LeafId>, Error> {
        while !self.is_done {
            match from.pull(run)? {
                Pull::Batch(columns) => {
                    for column in columns {
                        self.put(column, steps, run)?;
                    }
                }
                Pull::End => self.is_done = true,
                Pull::Need(leaf) => return Ok(Some(leaf)),
            }
        }
        Ok(None)
    }

    fn put(&mut self, mut column: Column, steps: usize, run: &mut Run) -> Result<(), Error> {
        spend(steps / 16 + 64)?;
        if !column.has_any() {
            return Ok(());
        }
        if column.drop_name {
            column.labels = run.pool.nameless(column.labels);
        }
        run.pool.check()?;
        let (labels, next) = (column.labels, self.series.len());
        let Some(place) = self.places.get(labels) else {
            run.keep(self.places.growth(labels))?;
            self.places.put(labels, next);
            let samples = match Sparse::of(&column) {
                Some(few) => Samples::Few(few),
                None => Samples::Column(Box::new(column)),
            };
            run.keep(SERIES_BYTES + samples.memory_bytes())?;
            self.series.push(Found { labels, samples });
            return Ok(());
        };
        run.keep(Column::bytes(steps))?;
        self.series[place].join(&column, run)
    }

    /// Takes the series out, in the order of arrival.
    pub fn take(&mut self) -> Vec<Found> {
        self.places = ByLabels::default();
        std::mem::take(&mut self.series)
    }
}

impl Samples {
    fn memory_bytes(&self) -> u64 {
        match self {
            Self::Few(few) => few.len() as u64 * Sparse::SAMPLE_BYTES,
            Self::Column(column) => column.memory_bytes(),
        }
    }
}

impl Found {
    /// Adds the samples of a series with the same labels.
    fn join(&mut self, column: &Column, run: &mut Run) -> Result<(), Error> {
        spend(column.values.len())?;
        let mut kept = match std::mem::replace(&mut self.samples, Samples::Few(Sparse::default())) {
            Samples::Few(few) => few.column(self.labels, false, column.values.len()),
            Samples::Column(column) => *column,
        };
        for step in column.steps() {
            let Some(sample) = column.sample(step) else { continue };
            if kept.has(step) {
                return Err(same_labels());
            }
            run.put(&mut kept, step, sample)?;
        }
        self.samples = Samples::Column(Box::new(kept));
        Ok(())
    }

    /// The number of samples.
    pub fn count(&self) -> usize {
        match &self.samples {
            Samples::Few(few) => few.len(),
            Samples::Column(column) => column.count(),
        }
    }

    /// The bytes that its histograms take.
    pub fn histogram_bytes(&self) -> u64 {
        match &self.samples {
            Samples::Few(_) => 0,
            Samples::Column(column) => column.histogram_bytes(),
        }
    }

    /// Converts it to a series of the answer.
    pub fn answered(self, labels: Labels, grid: &Grid) -> Series {
        let mut series = Series { labels, floats: Vec::new(), histograms: Vec::new() };
        let column = match self.samples {
            Samples::Few(few) => {
                series.floats = few.iter().map(|(step, value)| (grid.time(step), value)).collect();
                return series;
            }
            Samples::Column(column) => column,
        };
        series.floats.reserve_exact(column.count());
        if column.histograms.is_none() && column.count() == grid.steps {
            let all = column.values.iter().enumerate();
            series.floats.extend(all.map(|(step, value)| (grid.time(step), *value)));
            return series;
        }
        for step in column.steps() {
            let time = grid.time(step);
            match column.histogram(step) {
                Some(histogram) => series.histograms.push((time, Arc::clone(histogram))),
                None => series.floats.push((time, column.values[step])),
            }
        }
        series
    }

    /// Its sample at the first step.
    pub fn first(&self) -> Option<Sample> {
        match &self.samples {
            Samples::Few(few) => few.iter().next().map(|(_, value)| Sample::Float(value)),
            Samples::Column(column) => column.sample(0),
        }
    }
}

//! The series of an answer while they come: without the names that go, each label set once.
//!
//! A series that has samples at few steps only is kept as a list of these: an answer may have a series for
//! each value of each step.
//!
//! Series that differ only in a dropped name are joined into one. The query is refused where two of them have
//! a sample at one step, of whatever kind.

use std::sync::Arc;

use sandur_base::job::spend;
use sandur_model::Labels;
use sandur_query::Error;

use crate::column::{Column, Grid, Sample, Sparse};
use crate::engine::Series;
use crate::labels::{ByLabels, LabelsId};
use crate::ops::binary::same_labels;
use crate::run::{AnyOperator, LeafId, Pull, Run};

enum Samples {
    Few(Sparse),
    Column(Box<Column>),
}

/// A series of the answer.
pub struct Found {
    /// Its labels.
    pub labels: LabelsId,
    samples: Samples,
}

/// Bytes of a series beside its samples: itself, its place, room of growing lists.
const SERIES_BYTES: u64 = 2 * (size_of::<Found>() as u64 + 24);

/// The series that came.
#[derive(Default)]
pub struct FoundSeries {
    series: Vec<Found>,
    places: ByLabels,
    is_done: bool,
}

impl FoundSeries {
    /// Gathers the series of an operator over so many steps; what is needed first, or `None` when all are
    /// there.
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

    /// The series, in the order in which they came.
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
    /// Adds the samples of a series that has the same labels.
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

    /// How many samples it has.
    pub fn count(&self) -> usize {
        match &self.samples {
            Samples::Few(few) => few.len(),
            Samples::Column(column) => column.count(),
        }
    }

    /// Bytes that its histograms take.
    pub fn histogram_bytes(&self) -> u64 {
        match &self.samples {
            Samples::Few(_) => 0,
            Samples::Column(column) => column.histogram_bytes(),
        }
    }

    /// The series as it is answered, with its labels.
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

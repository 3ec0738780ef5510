//! Selectors at instants: at each step, the last sample that is not older than the look-back.

use std::ops::Range;
use std::sync::Arc;

use sandur_memory::Stopped;
use sandur_memory::job::spend;
use sandur_model::histogram::CounterReset;
use sandur_model::{FloatHistogram, is_stale};
use sandur_query::{Error, Samples, SeriesBatch};

use crate::column::{Column, Grid};
use crate::functions::extended::{interpolate, interpolate_histogram};
use crate::functions::window::Site;
use crate::labels::{KnownTexts, LabelsId, Text, TextSet};
use crate::notes::Note;
use crate::ops::points::{Points, has_stale, looked_at};
use crate::places::{KnownPlaces, Sliding, advance};
use crate::run::{BatchMemory, LeafId, Operator, Pull, Run, Scratch};
use crate::span::Span;
use crate::timing::{Extension, Geometry, Timing};

/// The property of a sample that is the value of the result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Take {
    /// Its value.
    Value,
    /// Its timestamp in seconds, for `timestamp`.
    Time,
    /// Its start timestamp in seconds.
    Start,
    /// Its timestamp in milliseconds, of floats only; finds the newer info metric.
    Milliseconds,
}

/// The operator of a selector at instants.
pub struct Select {
    /// Whether values are interpolated between samples (`smoothed`).
    pub smoothed: bool,
    leaf: LeafId,
    grid: Grid,
    timing: Timing,
    /// The greatest age of a sample, in milliseconds.
    lookback: i64,
    take: Take,
    drop_name: bool,
    /// The labels that are read; `None` is all.
    wanted: Option<TextSet>,
    /// The place of the selector in the query.
    span: Span,
    /// The indexes of the last samples of steps.
    places: KnownPlaces,
    /// The texts of the batch's dictionary.
    known: KnownTexts,
    /// The current batch, and the number of its series that are processed.
    pending: Option<(SeriesBatch, usize)>,
    /// The reservation for an output batch, and for its histograms that are not shared with storage.
    memory: BatchMemory,
    scratch: Scratch,
}

/// Steps between two checks whether the job may continue.
const PIECE_STEPS: usize = 4096;

impl Operator for Select {
    fn pull(&mut self, run: &mut Run) -> Result<Pull, Error> {
        loop {
            let (batch, from) = match self.pending.take() {
                Some(pending) => pending,
                None => match run.next_batch(self.leaf) {
                    Ok(Some(batch)) => {
                        self.known.forget();
                        (batch, 0)
                    }
                    Ok(None) => {
                        self.memory.give_back(run);
                        return Ok(Pull::End);
                    }
                    Err(leaf) => return Ok(Pull::Need(leaf)),
                },
            };
            self.memory.take(&self.grid, run)?;
            let to = (from + self.grid.batch_series()).min(batch.labels.len());
            // The last batch has been consumed.
            let mut scratch = std::mem::take(&mut self.scratch);
            scratch.reset();
            let columns = self.columns(&batch, from..to, run, &mut scratch)?;
            self.scratch = scratch;
            if to < batch.labels.len() {
                self.pending = Some((batch, to));
            }
            if !columns.is_empty() {
                return Ok(Pull::Batch(columns));
            }
        }
    }
}

impl Select {
    /// A selector with its evaluation time, its look-back, and the property of samples that it yields.
    pub fn new(
        leaf: LeafId,
        grid: Grid,
        (timing, lookback): (Timing, i64),
        take: Take,
        wanted: Option<TextSet>,
        span: Span,
    ) -> Self {
        let window = Geometry { timing, range: lookback, lookback, extension: Extension::None };
        let places = KnownPlaces::new(grid, window, None);
        let drop_name = matches!(take, Take::Time | Take::Start);
        let (smoothed, known, pending) = (false, KnownTexts::default(), None);
        let (memory, scratch) = (BatchMemory::default(), Scratch::default());
        Self {
            smoothed,
            leaf,
            grid,
            timing,
            lookback,
            take,
            drop_name,
            wanted,
            span,
            places,
            known,
            pending,
            memory,
            scratch,
        }
    }

    /// Columns for some series of a batch; series without samples are left out.
    fn columns(
        &mut self,
        batch: &SeriesBatch,
        some: Range<usize>,
        run: &mut Run,
        scratch: &mut Scratch,
    ) -> Result<Vec<Column>, Error> {
        let mut columns = Vec::with_capacity(some.len());
        for (labels, samples) in batch.labels[some.clone()].iter().zip(&batch.samples[some]) {
            spend(16)?;
            let labels = run.pool.of_batch(&*batch.dictionary, labels, self.wanted.as_ref(), &mut self.known);
            let samples = &looked_at(run, self.leaf, samples, scratch)?;
            let column = match (self.smoothed, samples.histogram_times.is_empty()) {
                (true, _) => self.smooth(labels, samples, run, scratch)?,
                (false, true) => self.whole_column(labels, samples)?,
                (false, false) => self.column(labels, samples)?,
            };
            if column.has_any() {
                run.count_samples(column.count() as u64)?;
                columns.push(column);
            }
        }
        run.pool.check()?;
        Ok(columns)
    }

    /// The column of a series of floats.
    fn whole_column(&mut self, labels: LabelsId, samples: &Samples) -> Result<Column, Error> {
        let mut column = Column { labels, drop_name: self.drop_name, ..Column::default() };
        let Some((places, range)) = self.places.of(&samples.times)? else { return Ok(column) };
        spend(self.grid.steps * 2 + range.len() / 4)?;
        let (times, values) = (&samples.times[range.clone()], &samples.values[range.clone()]);
        let last = places.last.iter().map(|place| *place as usize);
        column.values.reserve_exact(self.grid.steps);
        match self.take {
            Take::Value => column.values.extend(last.map(|place| values[place])),
            Take::Time => column.values.extend(last.map(|place| times[place] as f64 / 1000.0)),
            Take::Milliseconds => column.values.extend(last.map(|place| times[place] as f64)),
            Take::Start => {
                let starts = samples.starts.get(range).unwrap_or_default();
                let start = |place: usize| starts.get(place).copied().unwrap_or(0);
                column.values.extend(last.map(|place| start(place) as f64 / 1000.0));
            }
        }
        column.present.clone_from(&places.some);
        if has_stale(values) {
            for step in column.steps() {
                if is_stale(values[places.last[step] as usize]) {
                    column.unmark(step);
                }
            }
        }
        Ok(column)
    }

    fn column(&self, labels: LabelsId, samples: &Samples) -> Result<Column, Error> {
        let mut column = Column::empty(labels, self.drop_name, self.grid.steps);
        let (mut floats, mut histograms) = (0, 0);
        let (times, histogram_times) = (&samples.times, &samples.histogram_times);
        for step in 0..self.grid.steps {
            if step % PIECE_STEPS == 0 {
                spend(PIECE_STEPS.min(self.grid.steps) * 2)?;
            }
            let until = self.timing.reference(self.grid.time(step));
            floats = advance(times, floats, until);
            let float = floats.checked_sub(1).map(|n| times[n]);
            let mut histogram = None;
            if !histogram_times.is_empty() {
                histograms = advance(histogram_times, histograms, until);
                histogram = histograms.checked_sub(1).map(|n| histogram_times[n]);
            }
            let Some(time) = float.max(histogram).filter(|time| *time > until - self.lookback) else {
                continue;
            };
            if float >= histogram {
                let value = samples.values[floats - 1];
                if !is_stale(value) {
                    let start = samples.starts.get(floats - 1);
                    column.put(step, self.taken(value, time, start));
                }
                continue;
            }
            let found = &samples.histograms[histograms - 1];
            if is_stale(found.sum) {
                continue;
            }
            match self.take {
                Take::Value => column.put_histogram(step, Arc::clone(found)),
                Take::Milliseconds => {
                    return Err(Error::Invalid(
                        "this should be an info metric, with float samples: it has histograms".to_owned(),
                    ));
                }
                _ => {
                    let start = samples.histogram_starts.get(histograms - 1);
                    column.put(step, self.taken(0.0, time, start));
                }
            }
        }
        Ok(column)
    }

    fn taken(&self, value: f64, time: i64, start: Option<&i64>) -> f64 {
        match self.take {
            Take::Value => value,
            Take::Time => time as f64 / 1000.0,
            Take::Start => start.copied().unwrap_or(0) as f64 / 1000.0,
            Take::Milliseconds => time as f64,
        }
    }

    /// Interpolates values linearly between samples; after the last sample its value holds.
    fn smooth(
        &self,
        labels: LabelsId,
        samples: &Arc<Samples>,
        run: &mut Run,
        scratch: &mut Scratch,
    ) -> Result<Column, Error> {
        let mut column = Column::empty(labels, self.drop_name, self.grid.steps);
        let points = Points::of_samples(samples, scratch)?;
        let samples = points.get();
        let (mut floats, mut histograms) = (Sliding::default(), Sliding::default());
        let metric = run.pool.get(labels, Text::NAME);
        let mut site = Site { notes: &mut run.notes, metric, argument: self.span, parameter: self.span };
        for step in 0..self.grid.steps {
            spend(16)?;
            let at = self.timing.reference(self.grid.time(step));
            let (after, until) = (at - self.lookback, at + self.lookback);
            let floats = floats.move_to(&samples.times, after, until);
            let histograms = histograms.move_to(&samples.histogram_times, after, until);
            match (floats.is_empty(), histograms.is_empty()) {
                (true, true) => {}
                (false, false) => site.note(Note::MixedFloatsHistograms(metric)),
                (false, true) => {
                    let (times, values) = (&samples.times[floats.clone()], &samples.values[floats]);
                    let next = times.partition_point(|time| *time < at);
                    if times.get(next) == Some(&at) {
                        column.put(step, values[next]);
                    } else if next > 0 && next < times.len() {
                        let point = |n: usize| (times[n], values[n]);
                        column.put(step, interpolate(point(next - 1), point(next), at, false));
                    } else if next > 0 {
                        column.put(step, values[next - 1]);
                    }
                }
                (true, false) => {
                    let times = &samples.histogram_times[histograms.clone()];
                    let found = &samples.histograms[histograms];
                    let next = times.partition_point(|time| *time < at);
                    if times.get(next) == Some(&at) {
                        column.put_histogram(step, Arc::clone(&found[next]));
                    } else if next > 0 && next < times.len() {
                        let (before, after) = (&found[next - 1], &found[next]);
                        if before.is_custom() != after.is_custom() {
                            site.note(Note::MixedExponentialCustom(metric));
                            continue;
                        }
                        let gauges = [before, after].map(|h| h.reset == CounterReset::Gauge);
                        let point = |n: usize| (times[n], &found[n]);
                        let counter = gauges != [true, true];
                        let middle =
                            interpolate_histogram(point(next - 1), point(next), at, counter, &mut site);
                        if let Some(middle) = middle {
                            hold(&middle, scratch)?;
                            column.put_histogram(step, Arc::new(middle));
                        }
                    } else if next > 0 {
                        let mut last = (*found[next - 1]).clone();
                        hold(&last, scratch)?;
                        last.reset = CounterReset::Unknown;
                        column.put_histogram(step, Arc::new(last));
                    }
                }
            }
        }
        Ok(column)
    }
}

/// Reserves memory for a histogram of the output batch.
fn hold(histogram: &FloatHistogram, scratch: &mut Scratch) -> Result<(), Stopped> {
    let bytes = histogram.memory_bytes();
    spend(bytes as usize)?;
    scratch.add(bytes)
}

//! Functions over windows, of selectors or subqueries.

use std::ops::Range;
use std::sync::Arc;

use sandur_memory::Stopped;
use sandur_memory::job::spend;
use sandur_model::{FloatHistogram, is_stale};
use sandur_query::{Error, Samples, SeriesBatch, SharedTimes};

use crate::column::{Column, Grid};
use crate::functions::Traits;
use crate::functions::extended::{Extended, borders};
use crate::functions::whole::{Floats, Whole};
use crate::functions::window::{Counts, RangeFn, Site, Value, Window};
use crate::labels::{KnownTexts, LabelsId, Text, TextSet};
use crate::notes::Note;
use crate::ops::points::{Points, has_stale, looked_at};
use crate::places::{KnownPlaces, Sliding};
use crate::run::{AnyOperator, BatchMemory, LeafId, Operator, Pull, Run, ScalarArg, Scratch, scalars_ready};
use crate::span::Span;
use crate::timing::{Extension, Geometry};

/// The source of a function's samples.
pub enum Input {
    /// A selector.
    Leaf(LeafId),
    /// A subquery, with the steps at which it is evaluated.
    Subquery(AnyOperator, Grid),
}

/// A series of an input.
pub struct Series {
    /// The labels.
    pub labels: LabelsId,
    /// Whether the input already requires the metric's name to be dropped.
    pub drop_name: bool,
    /// The samples.
    pub points: Points,
}

/// The unread series of a batch.
enum Pending {
    /// Stored series: the batch, which holds their memory, and the index of the next series.
    Stored(SeriesBatch, usize),
    /// The results of a subquery.
    Columns(std::vec::IntoIter<Column>),
}

/// Reads the series of an input one by one. The samples of a series are valid until the next one is read.
pub struct Feed {
    input: Input,
    wanted: Option<TextSet>,
    pending: Option<Pending>,
    known: KnownTexts,
    scratch: Scratch,
}

impl Feed {
    /// A feed that keeps the labels in `wanted`; `None` keeps all.
    pub fn new(input: Input, wanted: Option<TextSet>) -> Self {
        Self { input, wanted, pending: None, known: KnownTexts::default(), scratch: Scratch::default() }
    }

    /// The next series without stale markers, `None` at the end; or the selector whose next batch is needed
    /// first.
    fn next_clean(&mut self, run: &mut Run) -> Result<Result<Option<Series>, LeafId>, Error> {
        match self.next(run)? {
            Ok(Some(series)) => Ok(Ok(Some(self.clean(series)?))),
            other => Ok(other),
        }
    }

    /// Removes stale markers from a series.
    fn clean(&mut self, series: Series) -> Result<Series, Stopped> {
        Ok(Series { points: series.points.cleaned(&mut self.scratch)?, ..series })
    }

    /// The next series, `None` at the end; or the selector whose next batch is needed first.
    fn next(&mut self, run: &mut Run) -> Result<Result<Option<Series>, LeafId>, Error> {
        loop {
            if let Some(series) = self.of_pending(run)? {
                return Ok(Ok(Some(series)));
            }
            self.pending = Some(match &mut self.input {
                Input::Leaf(leaf) => match run.next_batch(*leaf) {
                    Ok(Some(batch)) => {
                        self.known.forget();
                        Pending::Stored(batch, 0)
                    }
                    Ok(None) => return Ok(Ok(None)),
                    Err(leaf) => return Ok(Err(leaf)),
                },
                Input::Subquery(inner, _) => match inner.pull(run)? {
                    Pull::End => return Ok(Ok(None)),
                    Pull::Need(leaf) => return Ok(Err(leaf)),
                    Pull::Batch(columns) => Pending::Columns(columns.into_iter()),
                },
            });
        }
    }

    fn of_pending(&mut self, run: &mut Run) -> Result<Option<Series>, Error> {
        // The last series has been consumed.
        self.scratch.reset();
        let series = match (&mut self.pending, &self.input) {
            (Some(Pending::Stored(batch, n)), Input::Leaf(leaf)) => {
                let (Some(labels), Some(samples)) = (batch.labels.get(*n), batch.samples.get(*n)) else {
                    self.pending = None;
                    return Ok(None);
                };
                *n += 1;
                let wanted = self.wanted.as_ref();
                let labels = run.pool.of_batch(&*batch.dictionary, labels, wanted, &mut self.known);
                let points = Points::Raw(looked_at(run, *leaf, samples, &mut self.scratch)?);
                Series { labels, drop_name: false, points }
            }
            (Some(Pending::Columns(columns)), Input::Subquery(_, grid)) => {
                let Some(column) = columns.next() else { return Ok(None) };
                let points = Points::of_column(&column, grid, &mut self.scratch)?;
                let (labels, drop_name) = (column.labels, column.drop_name);
                Series { labels, drop_name, points }
            }
            _ => return Ok(None),
        };
        run.pool.check()?;
        Ok(Some(series))
    }
}

/// A function over windows.
pub struct RangeCall {
    /// The input.
    pub feed: Feed,
    /// The steps.
    pub grid: Grid,
    /// The windows.
    pub geometry: Geometry,
    /// The function.
    pub function: RangeFn,
    /// The properties of the function.
    pub traits: Traits,
    /// The implementation over complete series of floats, if there is one, with its windows.
    pub whole: Option<(Whole, KnownPlaces)>,
    /// The scalar arguments.
    pub args: Vec<ScalarArg>,
    /// The place of the first argument in the query.
    pub argument: Span,
    /// The place of the last argument in the query.
    pub parameter: Span,
    /// The reservation for an output batch.
    pub memory: BatchMemory,
    /// The reservation for the histograms of a batch.
    pub scratch: Scratch,
}

/// A batch ends when its histograms take more than this.
const BATCH_HISTOGRAM_BYTES: u64 = 1 << 20;
/// A series reports its work after each such amount.
const WORK: usize = 1 << 14;
/// The work of a histogram, compared with that of a float.
const HISTOGRAM_WORK: usize = 256;

impl Operator for RangeCall {
    fn pull(&mut self, run: &mut Run) -> Result<Pull, Error> {
        if let Some(leaf) = scalars_ready(&mut self.args, run, &self.grid)? {
            return Ok(Pull::Need(leaf));
        }
        self.memory.take(&self.grid, run)?;
        let mut scratch = std::mem::take(&mut self.scratch);
        let batch = self.batch(run, &mut scratch);
        self.scratch = scratch;
        if matches!(batch, Ok(Pull::End)) {
            self.memory.give_back(run);
        }
        batch
    }
}

impl RangeCall {
    fn batch(&mut self, run: &mut Run, scratch: &mut Scratch) -> Result<Pull, Error> {
        scratch.reset();
        let mut columns = Vec::new();
        let last = loop {
            if columns.len() == self.grid.batch_series() || scratch.bytes() > BATCH_HISTOGRAM_BYTES {
                return Ok(Pull::Batch(columns));
            }
            match self.feed.next(run)? {
                Ok(Some(series)) => {
                    let column = match self.whole_column(&series, run)? {
                        Some(column) => column,
                        None => {
                            let series = self.feed.clean(series)?;
                            self.column(&series, run, scratch)?
                        }
                    };
                    if column.has_any() {
                        columns.push(column);
                    }
                }
                Ok(None) => break Pull::End,
                Err(leaf) => break Pull::Need(leaf),
            }
        };
        Ok(if columns.is_empty() { last } else { Pull::Batch(columns) })
    }

    /// Evaluates all windows of a series of floats at once; `None` if the function or the series does not
    /// allow it.
    fn whole_column(&mut self, series: &Series, run: &mut Run) -> Result<Option<Column>, Error> {
        let Some((whole, known)) = &mut self.whole else { return Ok(None) };
        let samples = series.points.get();
        let looks_at_starts = run.options.use_starts && self.traits.starts && !samples.starts.is_empty();
        if looks_at_starts || !samples.histogram_times.is_empty() {
            return Ok(None);
        }
        let drop_name = series.drop_name || !self.traits.keeps_name;
        let mut column = Column { labels: series.labels, drop_name, ..Column::default() };
        let scratch = &mut self.feed.scratch;
        let clean = without_stale(samples, known.touched(&samples.times), scratch)?;
        let (times, values) = match &clean {
            Some((times, values)) => (times, values),
            None => (&samples.times, &samples.values),
        };
        let Some((places, range)) = known.of(times)? else { return Ok(Some(column)) };
        spend(self.grid.steps * 4 + range.len() / 2 + 16)?;
        let seconds = self.geometry.range as f64 / 1000.0;
        let floats = Floats { values: &values[range], places, seconds, args: &self.args };
        column.values.reserve_exact(self.grid.steps);
        (whole.function)(&floats, &mut column.values, scratch)?;
        column.present.clone_from(if whole.pairs { &places.pairs } else { &places.some });
        run.count_samples(column.count() as u64)?;
        let metric = run.pool.get(series.labels, Text::NAME);
        if self.traits.counter && metric != Text::EMPTY && column.has_any() {
            self.note_counter(series.labels, metric, run);
        }
        Ok(Some(column))
    }

    fn column<'a>(
        &'a self,
        series: &'a Series,
        run: &mut Run,
        scratch: &mut Scratch,
    ) -> Result<Column, Error> {
        let drop_name = series.drop_name || !self.traits.keeps_name;
        let mut column = Column::empty(series.labels, drop_name, self.grid.steps);
        let samples = series.points.get();
        let metric = run.pool.get(series.labels, Text::NAME);
        let mut site =
            Site { notes: &mut run.notes, metric, argument: self.argument, parameter: self.parameter };
        let use_starts = run.options.use_starts && self.traits.starts;
        let (mut floats, mut histograms) = (Sliding::default(), Sliding::default());
        let (mut args, counts) = (vec![0.0; self.args.len()], Counts::default());
        let seconds = self.geometry.range as f64 / 1000.0;
        let (mut has_float, mut work) = (false, 0);
        for step in 0..self.grid.steps {
            spend_from(WORK, &mut work)?;
            let at = self.grid.time(step);
            let end = self.geometry.timing.reference(at);
            let (after, until) = self.geometry.bounds(end);
            if after == until {
                continue;
            }
            let floats = floats.move_to(&samples.times, after, until);
            let histograms = histograms.move_to(&samples.histogram_times, after, until);
            if floats.is_empty() && histograms.is_empty() {
                continue;
            }
            args.iter_mut().zip(&self.args).for_each(|(slot, arg)| *slot = arg.at(step));
            work += floats.len() + histograms.len() * HISTOGRAM_WORK;
            let window = Window {
                series: &samples.values,
                from: floats.start,
                counts: &counts,
                times: &samples.times[floats.clone()],
                starts: starts_of(&samples.starts, &floats, use_starts),
                values: &samples.values[floats],
                histogram_times: &samples.histogram_times[histograms.clone()],
                histogram_starts: starts_of(&samples.histogram_starts, &histograms, use_starts),
                histograms: &samples.histograms[histograms],
                at,
                start: end.saturating_sub(self.geometry.range),
                end,
                seen_from: after,
                seconds,
                extension: self.geometry.extension,
                args: &args,
            };
            match (self.function)(&window, &mut site).map_err(Error::Invalid)? {
                Value::None => {}
                Value::Float(value) => {
                    has_float = true;
                    column.put(step, value);
                }
                Value::Histogram(histogram) => {
                    scratch.add(histogram.memory_bytes())?;
                    column.put_histogram(step, histogram);
                }
            }
        }
        spend(work)?;
        run.count_samples(column.count() as u64)?;
        if self.traits.counter && has_float && metric != Text::EMPTY {
            self.note_counter(series.labels, metric, run);
        }
        Ok(column)
    }

    /// Adds a note if the metric does not look like a counter.
    fn note_counter(&self, labels: LabelsId, metric: Text, run: &mut Run) {
        if run.options.type_labels {
            let kind = run.pool.get(labels, Text::TYPE);
            if !matches!(run.pool.text(kind), "counter" | "histogram") {
                run.notes.add(Note::NonCounterType(metric, kind), self.argument);
            }
            return;
        }
        let name = run.pool.text(metric);
        if !["_total", "_sum", "_count", "_bucket"].iter().any(|suffix| name.ends_with(suffix)) {
            run.notes.add(Note::NonCounter(metric), self.argument);
        }
    }
}

/// The value of a range selector or subquery by itself: series with the samples of one window.
pub struct Windows {
    /// The input.
    pub feed: Feed,
    /// The time of the step, in milliseconds.
    pub at: i64,
    /// The window.
    pub geometry: Geometry,
}

/// A series with samples at their own timestamps.
pub struct PointSeries {
    /// The labels.
    pub labels: LabelsId,
    /// Whether the metric's name is dropped at the end.
    pub drop_name: bool,
    /// The samples.
    pub samples: Samples,
}

impl Windows {
    /// Computes some series, `None` at the end; or returns the selector whose next batch is needed first.
    pub fn pull(&mut self, run: &mut Run) -> Result<Result<Option<Vec<PointSeries>>, LeafId>, Error> {
        let mut found = Vec::new();
        loop {
            let Series { labels, drop_name, points } = match self.feed.next_clean(run)? {
                Ok(Some(series)) => series,
                Ok(None) if found.is_empty() => return Ok(Ok(None)),
                Err(leaf) if found.is_empty() => return Ok(Err(leaf)),
                _ => return Ok(Ok(Some(found))),
            };
            let (floats, histograms) = self.places(points.get());
            let histogram_bytes =
                |all: &[Arc<FloatHistogram>]| all.iter().map(|h| h.memory_bytes()).sum::<u64>();
            let bytes = histogram_bytes(&points.get().histograms[histograms.clone()]);
            let count = floats.len() + histograms.len();
            spend(count + bytes as usize / 8)?;
            run.count_samples(count as u64)?;
            run.keep((count + 2) as u64 * 16 + bytes)?;
            let samples = self.cut(points.get(), (floats, histograms))?;
            if samples.times.len() + samples.histogram_times.len() > 0 {
                run.keep(size_of::<PointSeries>() as u64)?;
                found.push(PointSeries { labels, drop_name, samples });
            }
        }
    }

    /// The index ranges of the window's floats and histograms.
    fn places(&self, samples: &Samples) -> (Range<usize>, Range<usize>) {
        let (after, until) = self.geometry.bounds(self.geometry.timing.reference(self.at));
        let floats = Sliding::default().move_to(&samples.times, after, until);
        (floats, Sliding::default().move_to(&samples.histogram_times, after, until))
    }

    fn cut(
        &self,
        samples: &Samples,
        (floats, histograms): (Range<usize>, Range<usize>),
    ) -> Result<Samples, Error> {
        let end = self.geometry.timing.reference(self.at);
        let (start, smoothed) =
            (end.saturating_sub(self.geometry.range), self.geometry.extension == Extension::Smoothed);
        let mut cut = Samples {
            times: samples.times[floats.clone()].to_vec().into(),
            values: samples.values[floats].to_vec(),
            histogram_times: samples.histogram_times[histograms.clone()].to_vec(),
            histograms: samples.histograms[histograms].to_vec(),
            ..Default::default()
        };
        if self.geometry.extension == Extension::None {
            return Ok(cut);
        }
        if !cut.histograms.is_empty() {
            let word = if smoothed { "smoothed" } else { "anchored" };
            return Err(Error::Invalid(format!("{word} modifier is not supported with histograms")));
        }
        let Some((first, last)) = borders(&cut.times, start, end, smoothed) else {
            return Ok(Samples::default());
        };
        let extended = Extended {
            times: &cut.times,
            values: &cut.values,
            starts: &[],
            range: (start, end),
            seen_from: start,
            smoothed,
            counter: false,
        };
        let (left, right) = extended.border_values((first, last));
        let from = first + usize::from(cut.times[first] <= start);
        let to = if cut.times[last] >= end { last } else { last + 1 };
        let range = from..to.max(from);
        let times = [&[start][..], cut.times.get(range.clone()).unwrap_or_default(), &[end]].concat();
        cut.values = [&[left][..], cut.values.get(range).unwrap_or_default(), &[right]].concat();
        cut.times = times.into();
        Ok(cut)
    }
}

/// Copies the timestamps and values without stale markers; `None` if the range has no stale marker.
fn without_stale(
    samples: &Samples,
    range: Range<usize>,
    scratch: &mut Scratch,
) -> Result<Option<(SharedTimes, Vec<f64>)>, Stopped> {
    let (times, values) = (&samples.times[range.clone()], &samples.values[range]);
    spend(values.len() / 4)?;
    if !has_stale(values) {
        return Ok(None);
    }
    spend(values.len() * 2)?;
    scratch.add(values.len() as u64 * 16)?;
    let kept = || times.iter().zip(values).filter(|(_, value)| !is_stale(**value));
    Ok(Some((kept().map(|(time, _)| *time).collect(), kept().map(|(_, value)| *value).collect())))
}

/// The start timestamps of samples, if they are wanted and known; else empty.
fn starts_of<'a>(starts: &'a [i64], range: &Range<usize>, wanted: bool) -> &'a [i64] {
    starts.get(range.clone()).filter(|_| wanted).unwrap_or_default()
}

/// Counts the work of a step, and reports the sum when it exceeds `most`.
fn spend_from(most: usize, work: &mut usize) -> Result<(), Stopped> {
    *work += 4;
    match *work > most {
        true => spend(std::mem::take(work)),
        false => Ok(()),
    }
}

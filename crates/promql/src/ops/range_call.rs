//! Functions over windows, of series or of subqueries.

use sandur_base::job::spend;
use sandur_query::Error;

use crate::ast::Extension;
use crate::column::{Column, Grid};
use crate::functions::Traits;
use crate::functions::window::{Counts, RangeFn, Site, Value, Window};
use crate::labels::{LabelsId, Text};
use crate::notes::Note;
use crate::ops::points::{Points, Sliding};
use crate::ops::select::Timing;
use crate::run::{AnyOperator, LeafId, Operator, Pull, Run, ScalarArg, scalars_ready};
use crate::span::Span;

/// Where samples come from.
pub enum Input {
    /// A selector.
    Leaf(LeafId),
    /// A subquery, with the steps at which it is evaluated.
    Subquery(AnyOperator, Grid),
}

/// The window of each step.
#[derive(Clone, Copy, Debug)]
pub struct Geometry {
    /// When it ends.
    pub timing: Timing,
    /// How long it is.
    pub range: i64,
    /// How far beyond it samples count, where it is extended.
    pub lookback: i64,
    /// Whether and how it is.
    pub extension: Extension,
}

impl Geometry {
    /// Times after the first and up to the second belong to the window that ends at `end`.
    #[inline]
    pub fn bounds(&self, end: i64) -> (i64, i64) {
        let start = end.saturating_sub(self.range);
        match self.extension {
            Extension::None => (start, end),
            Extension::Anchored => (start.saturating_sub(self.lookback), end),
            Extension::Smoothed => (start.saturating_sub(self.lookback), end.saturating_add(self.lookback)),
        }
    }
}

/// A series, and whether its name goes anyhow.
pub struct Series {
    /// Its labels.
    pub labels: LabelsId,
    /// Whether the metric's name goes.
    pub drop_name: bool,
    /// Its samples.
    pub points: Points,
}

/// The next series of an input, `None` at the end; or what is needed first.
pub fn next_series(
    input: &mut Input,
    wanted: Option<&[Text]>,
    run: &mut Run,
) -> Result<Result<Option<Vec<Series>>, LeafId>, Error> {
    let series = match input {
        Input::Leaf(leaf) => {
            let batch = match run.next_batch(*leaf) {
                Ok(Some(batch)) => batch,
                Ok(None) => return Ok(Ok(None)),
                Err(leaf) => return Ok(Err(leaf)),
            };
            let mut series = Vec::with_capacity(batch.labels.len());
            for (labels, samples) in batch.labels.iter().zip(&batch.samples) {
                spend(16 + samples.times.len() / 4)?;
                let labels = run.pool.of_batch(&*batch.dictionary, labels, wanted);
                series.push(Series { labels, drop_name: false, points: Points::of_samples(samples) });
            }
            series
        }
        Input::Subquery(inner, grid) => match inner.pull(run)? {
            Pull::End => return Ok(Ok(None)),
            Pull::Need(leaf) => return Ok(Err(leaf)),
            Pull::Batch(columns) => {
                spend(columns.len() * (16 + grid.steps))?;
                let points = |column: &Column| Points::of_column(column, grid);
                let series = |column: Column| {
                    let points = points(&column);
                    Series { labels: column.labels, drop_name: column.drop_name, points }
                };
                columns.into_iter().map(series).collect()
            }
        },
    };
    run.pool.check()?;
    Ok(Ok(Some(series)))
}

/// A function over windows.
pub struct RangeCall {
    /// What comes.
    pub input: Input,
    /// The steps.
    pub grid: Grid,
    /// The windows.
    pub geometry: Geometry,
    /// The function.
    pub function: RangeFn,
    /// What is known of it.
    pub traits: Traits,
    /// Scalar arguments.
    pub args: Vec<ScalarArg>,
    /// Labels that are wanted; `None`: all.
    pub wanted: Option<Vec<Text>>,
    /// Where the first argument stands.
    pub argument: Span,
    /// Series that were not looked at yet.
    pub pending: std::vec::IntoIter<Series>,
}

impl Operator for RangeCall {
    fn pull(&mut self, run: &mut Run) -> Result<Pull, Error> {
        if let Some(leaf) = scalars_ready(&mut self.args, run, &self.grid)? {
            return Ok(Pull::Need(leaf));
        }
        loop {
            if self.pending.len() == 0 {
                self.pending = match next_series(&mut self.input, self.wanted.as_deref(), run)? {
                    Ok(Some(all)) => all.into_iter(),
                    Ok(None) => return Ok(Pull::End),
                    Err(leaf) => return Ok(Pull::Need(leaf)),
                };
            }
            let some: Vec<Series> = self.pending.by_ref().take(self.grid.batch_series()).collect();
            let mut columns = Vec::with_capacity(some.len());
            for series in some {
                let column = self.column(&series, run)?;
                if column.has_any() {
                    columns.push(column);
                }
            }
            if !columns.is_empty() {
                return Ok(Pull::Batch(columns));
            }
        }
    }
}

impl RangeCall {
    fn column<'a>(&'a self, series: &'a Series, run: &mut Run) -> Result<Column, Error> {
        let drop_name = series.drop_name || !self.traits.keeps_name;
        let mut column = Column::empty(series.labels, drop_name, self.grid.steps);
        let samples = series.points.get();
        let metric = run.pool.get(series.labels, Text::NAME);
        let mut site = Site { notes: &mut run.notes, metric, argument: self.argument };
        let use_starts = run.options.use_starts && self.traits.starts;
        let (mut floats, mut histograms) = (Sliding::default(), Sliding::default());
        let (mut args, counts) = (vec![0.0; self.args.len()], Counts::default());
        let seconds = self.geometry.range as f64 / 1000.0;
        let (mut has_float, mut read) = (false, 0);
        for step in 0..self.grid.steps {
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
            read += floats.len() + histograms.len();
            let starts_of = |starts: &'a [i64], range: &std::ops::Range<usize>| match use_starts {
                true => starts.get(range.clone()).unwrap_or_default(),
                false => &[],
            };
            let starts = starts_of(&samples.starts, &floats);
            let histogram_starts = starts_of(&samples.histogram_starts, &histograms);
            let window = Window {
                series: &samples.values,
                from: floats.start,
                counts: &counts,
                times: &samples.times[floats.clone()],
                values: &samples.values[floats],
                starts,
                histogram_times: &samples.histogram_times[histograms.clone()],
                histograms: &samples.histograms[histograms],
                histogram_starts,
                at,
                start: end.saturating_sub(self.geometry.range),
                end,
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
                Value::Histogram(histogram) => column.put_histogram(step, histogram),
            }
        }
        spend(self.grid.steps * 4 + read)?;
        run.count_samples(column.count())?;
        if self.traits.counter && has_float && metric != Text::EMPTY {
            self.note_counter(series.labels, metric, run);
        }
        Ok(column)
    }

    /// Notes a metric that does not look like a counter.
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

/// Series with the samples of one window: what a range selector alone answers.
pub struct Windows {
    /// What comes.
    pub input: Input,
    /// The step.
    pub at: i64,
    /// The window.
    pub geometry: Geometry,
}

/// A series with points of its own times.
pub struct PointSeries {
    /// Its labels.
    pub labels: LabelsId,
    /// Whether the metric's name goes.
    pub drop_name: bool,
    /// Its points.
    pub samples: crate::data::Samples,
}

impl Windows {
    /// The next series; what is needed first, or nothing at the end.
    pub fn pull(&mut self, run: &mut Run) -> Result<Result<Option<Vec<PointSeries>>, LeafId>, Error> {
        let all = match next_series(&mut self.input, None, run)? {
            Ok(Some(all)) => all,
            Ok(None) => return Ok(Ok(None)),
            Err(leaf) => return Ok(Err(leaf)),
        };
        let mut found = Vec::new();
        for series in all {
            let Series { labels, drop_name, points } = series;
            let samples = self.cut(points.get())?;
            let count = samples.times.len() + samples.histogram_times.len();
            run.count_samples(count)?;
            run.keep(count as u64 * 16)?;
            if count > 0 {
                found.push(PointSeries { labels, drop_name, samples });
            }
        }
        Ok(Ok(Some(found)))
    }

    fn cut(&self, samples: &crate::data::Samples) -> Result<crate::data::Samples, Error> {
        use crate::functions::extended::{border_values, borders};
        let end = self.geometry.timing.reference(self.at);
        let (start, smoothed) =
            (end.saturating_sub(self.geometry.range), self.geometry.extension == Extension::Smoothed);
        let (after, until) = self.geometry.bounds(end);
        let floats = Sliding::default().move_to(&samples.times, after, until);
        let histograms = Sliding::default().move_to(&samples.histogram_times, after, until);
        let mut cut = crate::data::Samples {
            times: samples.times[floats.clone()].to_vec(),
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
            return Ok(crate::data::Samples::default());
        };
        let columns = (&cut.times[..], &cut.values[..]);
        let (left, right) = border_values(columns, (first, last), (start, end), smoothed, false);
        let from = first + usize::from(cut.times[first] <= start);
        let to = if cut.times[last] >= end { last } else { last + 1 };
        let range = from..to.max(from);
        cut.times = [&[start][..], cut.times.get(range.clone()).unwrap_or_default(), &[end]].concat();
        cut.values = [&[left][..], cut.values.get(range).unwrap_or_default(), &[right]].concat();
        Ok(cut)
    }
}

//! Aggregations that yield one series per group: sums, means, counts, extremes, deviations and quantiles.
//!
//! Each series is added to its group when it arrives and then dropped, except for quantiles, which keep all
//! series. The number of a series's label set identifies its group; the group's labels are those of the
//! grouping. Series of floats are added in loops over all steps (`accumulate`), in the order of arrival.
//! Series with histograms are added step by step.

mod accumulate;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use foldhash::{HashMap, HashMapExt};
use sandur_base::job::spend;
use sandur_model::FloatHistogram;
use sandur_model::histogram::CounterReset;
use sandur_query::Error;

use crate::column::{Column, Grid, Sample};
use crate::functions::over_time::HistogramMean;
use crate::functions::statistics::quantile;
use crate::labels::{LabelsId, Text};
use crate::notes::{HistogramOperation, Note};
use crate::ops::grouping::Grouping;
use crate::run::{AnyOperator, Operator, Outbox, Pull, Run, ScalarArg};
use crate::span::Span;
use crate::token::Kind;
use accumulate::Floats;

/// Flags of a step of a group with histograms.
const HISTOGRAM: u8 = 1;
const INCOMPATIBLE: u8 = 2;
const RESET: u8 = 4;
const NOT_RESET: u8 = 8;

/// The bytes of a group's histogram at a step, without the histogram itself.
const HISTOGRAM_BYTES: u64 = 64;

/// The sum or mean of a group's histograms at a step.
enum HistogramState {
    Sum(Box<FloatHistogram>, Option<Box<FloatHistogram>>),
    Mean(Box<HistogramMean>),
}

/// The histograms of a group, created with the first one.
struct Histograms {
    flags: Vec<u8>,
    states: HashMap<usize, HistogramState>,
}

/// The state of a group over all steps.
struct Group {
    drop_name: bool,
    floats: Floats,
    histograms: Option<Box<Histograms>>,
    /// All series, for quantiles; else empty.
    columns: Vec<Column>,
}

/// The operator of an aggregation.
pub struct Aggregate {
    inner: AnyOperator,
    op: Kind,
    /// The parameter of `quantile`.
    param: Option<(ScalarArg, Span)>,
    grouping: Grouping,
    grid: Grid,
    /// The place of the aggregated vector.
    span: Span,
    groups: Vec<Group>,
    outbox: Option<Outbox>,
}

impl Aggregate {
    /// A new aggregation.
    pub fn new(
        inner: AnyOperator,
        op: Kind,
        param: Option<(ScalarArg, Span)>,
        grouping: Grouping,
        grid: Grid,
        span: Span,
    ) -> Self {
        Self { inner, op, param, grouping, grid, span, groups: Vec::new(), outbox: None }
    }
}

impl Operator for Aggregate {
    fn pull(&mut self, run: &mut Run) -> Result<Pull, Error> {
        if let Some(outbox) = &mut self.outbox {
            return Ok(outbox.next());
        }
        if let Some((param, _)) = &mut self.param
            && let Some(leaf) = param.ready(run, &self.grid)?
        {
            return Ok(Pull::Need(leaf));
        }
        loop {
            match self.inner.pull(run)? {
                Pull::Batch(columns) => {
                    spend(columns.len() * (self.grid.steps * 2 + 8))?;
                    for column in columns {
                        self.add(column, run)?;
                    }
                }
                Pull::Need(leaf) => return Ok(Pull::Need(leaf)),
                Pull::End => break,
            }
        }
        self.note_quantiles(run);
        let groups = std::mem::take(&mut self.groups);
        let mut columns = Vec::with_capacity(groups.len());
        for (group, labels) in groups.into_iter().zip(self.grouping.labels.clone()) {
            let column = self.finish(group, labels, run)?;
            if column.has_any() {
                columns.push(column);
            }
        }
        Ok(self.outbox.insert(Outbox::new(columns)).next())
    }
}

impl Aggregate {
    fn note_quantiles(&self, run: &mut Run) {
        let Some((param, span)) = &self.param else { return };
        let values = param.values();
        let (least, most) = values.iter().fold((f64::INFINITY, f64::NEG_INFINITY), |(least, most), value| {
            (least.min(*value), most.max(*value))
        });
        if values.iter().any(|value| value.is_nan()) {
            run.notes.add(Note::InvalidQuantile(f64::NAN.to_bits()), *span);
        }
        for (wrong, value) in [(most > 1.0, most), (least < 0.0, least)] {
            if wrong {
                run.notes.add(Note::InvalidQuantile(value.to_bits()), *span);
            }
        }
    }

    /// The number of the group of a label set, which is created if it is new.
    fn group(&mut self, labels: LabelsId, run: &mut Run) -> Result<usize, Error> {
        let number = self.grouping.group_of(labels, run)?;
        while self.groups.len() <= number {
            run.keep(size_of::<Group>() as u64 + Floats::bytes(self.op, self.grid.steps))?;
            let (floats, columns) = (Floats::new(self.op, self.grid.steps), Vec::new());
            self.groups.push(Group { drop_name: false, floats, histograms: None, columns });
        }
        Ok(number)
    }

    fn add(&mut self, mut column: Column, run: &mut Run) -> Result<(), Error> {
        let number = self.group(column.labels, run)?;
        let group = &mut self.groups[number];
        group.drop_name |= column.drop_name;
        if let Some(histograms) = column.histograms.take_if(|_| ignores_histograms(self.op)) {
            for step in column.steps().filter(|step| histograms[*step].is_some()) {
                run.notes.add(Note::IgnoredInAggregation(self.op), self.span);
                column.unmark(step);
            }
        }
        if self.op == Kind::Quantile {
            run.keep(column.memory_bytes())?;
            group.columns.push(column);
            return Ok(());
        }
        let counts = matches!(self.op, Kind::Count | Kind::Group);
        if counts || column.histograms.is_none() && group.histograms.is_none() {
            group.floats.add(self.op, column);
            return Ok(());
        }
        self.add_mixed(number, &column, run)
    }

    /// Adds a series with histograms to a sum or mean, step by step.
    fn add_mixed(&mut self, number: usize, column: &Column, run: &mut Run) -> Result<(), Error> {
        let (group, steps) = (&mut self.groups[number], self.grid.steps);
        if group.histograms.is_none() {
            run.keep(steps as u64 + size_of::<Histograms>() as u64)?;
            group.histograms = Some(Box::new(Histograms { flags: vec![0; steps], states: HashMap::new() }));
        }
        let Group { floats, histograms: Some(histograms), .. } = group else { return Ok(()) };
        let metric = run.pool.get(column.labels, Text::NAME);
        for step in column.steps() {
            if histograms.flags[step] & INCOMPATIBLE != 0 {
                continue;
            }
            let Some(histogram) = column.histogram(step) else {
                floats.add_one(self.op, step, column.values[step]);
                continue;
            };
            spend(histogram.memory_bytes() as usize)?;
            let before = histograms.bytes(step);
            let note = histograms.add(self.op, (step, floats.has(step)), histogram, metric);
            run.keep(histograms.bytes(step).saturating_sub(before))?;
            note.into_iter().for_each(|note| run.notes.add(note, self.span));
        }
        Ok(())
    }

    fn finish(&self, group: Group, labels: LabelsId, run: &mut Run) -> Result<Column, Error> {
        let steps = self.grid.steps;
        spend(steps * 2 + 16)?;
        let mut column = match self.op {
            Kind::Quantile => self.quantiles(&group, run)?,
            op => group.floats.finish(op),
        };
        (column.labels, column.drop_name) = (labels, group.drop_name);
        let Some(mut histograms) = group.histograms else { return Ok(column) };
        for step in 0..steps {
            spend(4)?;
            let flags = histograms.flags[step];
            if flags & HISTOGRAM != 0 && column.has(step) {
                run.notes.add(Note::MixedInAggregation, self.span);
                column.unmark(step);
                continue;
            }
            if flags & HISTOGRAM == 0 || flags & INCOMPATIBLE != 0 {
                continue;
            }
            if flags & RESET != 0 && flags & NOT_RESET != 0 {
                run.notes.add(Note::ResetCollision(HistogramOperation::Aggregation), self.span);
            }
            if let Some(histogram) = histograms.states.remove(&step) {
                run.put(&mut column, step, Sample::Histogram(Arc::new(histogram.result())))?;
            }
        }
        Ok(column)
    }

    /// The quantile of a group's series at each step.
    fn quantiles(&self, group: &Group, run: &mut Run) -> Result<Column, Error> {
        let mut column = run.column(LabelsId::EMPTY, false, self.grid.steps)?;
        run.keep(group.columns.len() as u64 * 8)?;
        let mut values = Vec::with_capacity(group.columns.len());
        for step in 0..self.grid.steps {
            spend(group.columns.len() * 6 + 8)?;
            values.clear();
            let present = group.columns.iter().filter(|column| column.has(step));
            values.extend(present.map(|column| column.values[step]));
            if !values.is_empty() {
                let q = self.param.as_ref().map_or(f64::NAN, |(param, _)| param.at(step));
                column.put(step, quantile(q, &mut values));
            }
        }
        Ok(column)
    }
}

fn ignores_histograms(op: Kind) -> bool {
    matches!(op, Kind::Min | Kind::Max | Kind::Stddev | Kind::Stdvar | Kind::Quantile)
}

impl Histograms {
    fn bytes(&self, step: usize) -> u64 {
        self.states.get(&step).map_or(0, |state| state.memory_bytes() + HISTOGRAM_BYTES)
    }

    /// Adds a histogram to a step, which may already have floats. Returns a note about it, if there is one.
    fn add(
        &mut self,
        op: Kind,
        (step, has_float): (usize, bool),
        histogram: &FloatHistogram,
        metric: Text,
    ) -> Option<Note> {
        let flags = &mut self.flags[step];
        *flags |= HISTOGRAM;
        if has_float {
            return None; // a mix of floats and histograms has no result
        }
        match histogram.reset {
            CounterReset::Reset => *flags |= RESET,
            CounterReset::NotReset => *flags |= NOT_RESET,
            _ => {}
        }
        match add_histogram(&mut self.states, op, step, histogram) {
            Ok(reconciled) => reconciled.then_some(Note::MismatchedBounds(HistogramOperation::Aggregation)),
            Err(()) => {
                *flags |= INCOMPATIBLE;
                Some(Note::MixedExponentialCustom(metric))
            }
        }
    }
}

/// Adds a histogram to the sum or mean of a step. Returns whether bucket bounds were reconciled; fails if
/// the histograms have incompatible buckets.
fn add_histogram(
    all: &mut HashMap<usize, HistogramState>,
    op: Kind,
    step: usize,
    histogram: &FloatHistogram,
) -> Result<bool, ()> {
    match all.get_mut(&step) {
        None => {
            let state = match op {
                Kind::Avg => HistogramState::Mean(Box::new(HistogramMean::new(histogram))),
                _ => HistogramState::Sum(Box::new(histogram.clone()), None),
            };
            all.insert(step, state);
            Ok(false)
        }
        Some(HistogramState::Mean(mean)) => mean.add(histogram),
        Some(HistogramState::Sum(sum, lost)) => {
            let mut rest = lost.take().map(|lost| *lost);
            let added = sum.add_compensated(histogram, &mut rest).map_err(|_| ())?;
            *lost = rest.map(Box::new);
            Ok(added.bounds_reconciled)
        }
    }
}

impl HistogramState {
    fn memory_bytes(&self) -> u64 {
        match self {
            Self::Sum(sum, lost) => sum.memory_bytes() + lost.as_ref().map_or(0, |lost| lost.memory_bytes()),
            Self::Mean(mean) => mean.memory_bytes(),
        }
    }

    fn result(self) -> FloatHistogram {
        let mut result = match self {
            Self::Mean(mean) => mean.result(),
            Self::Sum(mut sum, lost) => {
                if let Some(lost) = lost {
                    // Both have the same layout.
                    let _ = sum.add(&lost);
                }
                *sum
            }
        };
        result.compact();
        result
    }
}

//! Aggregations that yield one series per group: sums, means, counts, extremes, deviations and quantiles.
//!
//! Each series is added to its group when it arrives and then dropped, except for quantiles, which keep all
//! series. The number of a series's label set identifies its group; the group's labels are those of the
//! grouping. Series of floats are added in loops over all steps (`accumulate`).
//! Series with histograms are added step by step. No result depends on the order in which series arrive.

mod accumulate;
mod part;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use foldhash::HashMapExt;
use sandur_memory::job::spend;
use sandur_model::histogram::HistogramSum;
use sandur_query::Error;

use crate::column::{Column, Grid, Sample};
use crate::functions::statistics::quantile;
use crate::labels::{LabelsId, Text};
use crate::notes::{HistogramOperation, Note};
use crate::ops::grouping::Grouping;
use crate::run::{AnyOperator, LeafId, Operator, Outbox, Pull, Run, ScalarArg};
use crate::span::Span;
use crate::token::Kind;
use accumulate::Floats;
pub use part::GroupPart;
use part::{HISTOGRAM_BYTES, Histograms, StepHistograms};

/// The state of a group over all steps.
struct Group {
    drop_name: bool,
    floats: Floats,
    histograms: Histograms,
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
    /// The selector whose series other processes may have aggregated.
    folded: Option<LeafId>,
    groups: Vec<Group>,
    outbox: Option<Outbox>,
}

/// Whether groups of parts of the series can be merged. Other operators need all series.
pub fn merges(op: Kind) -> bool {
    use Kind::{Avg, Count, Group, Max, Min, Stddev, Stdvar, Sum};
    matches!(op, Avg | Count | Group | Max | Min | Stddev | Stdvar | Sum)
}

impl Aggregate {
    /// A new aggregation.
    pub fn new(
        inner: AnyOperator,
        op: Kind,
        param: Option<(ScalarArg, Span)>,
        grouping: Grouping,
        grid: Grid,
        (span, folded): (Span, Option<LeafId>),
    ) -> Self {
        Self { inner, op, param, grouping, grid, span, folded, groups: Vec::new(), outbox: None }
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
        if let Some(leaf) = self.gather(run)? {
            return Ok(Pull::Need(leaf));
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
    /// Adds all series to their groups. Returns the selector whose next batch is needed first, or `None` at
    /// the end.
    pub fn gather(&mut self, run: &mut Run) -> Result<Option<LeafId>, Error> {
        loop {
            match self.inner.pull(run)? {
                Pull::Batch(columns) => {
                    spend(columns.len() * (self.grid.steps * 2 + 8))?;
                    for column in columns {
                        self.add(column, run)?;
                    }
                }
                Pull::Need(leaf) => return Ok(Some(leaf)),
                Pull::End => break,
            }
        }
        if let Some(LeafId(leaf)) = self.folded {
            for part in std::mem::take(&mut run.leaves[leaf].groups) {
                self.merge(part, run)?;
            }
        }
        Ok(None)
    }

    /// The groups of a part of the series, for another process.
    pub fn into_parts(self, run: &Run) -> Vec<GroupPart> {
        let labels = self.grouping.labels.into_iter();
        let of_group = |(group, labels): (Group, LabelsId)| GroupPart {
            labels: run.pool.labels(labels),
            drop_name: group.drop_name,
            floats: group.floats,
            histograms: group.histograms,
        };
        self.groups.into_iter().zip(labels).map(of_group).collect()
    }

    /// Adds a group of a part of the series.
    fn merge(&mut self, part: GroupPart, run: &mut Run) -> Result<(), Error> {
        spend(self.grid.steps * 4 + 64)?;
        let labels = run.pool.labels_id(&part.labels);
        run.pool.check()?;
        let number = self.grouping.group_with(labels, run)?;
        self.prepare(number, run)?;
        let group = &mut self.groups[number];
        group.drop_name |= part.drop_name;
        let before = group.floats.more_bytes();
        group.floats.merge(self.op, part.floats);
        let mut kept = group.floats.more_bytes().saturating_sub(before);
        for (step, more) in part.histograms {
            spend(64)?;
            let own = group.histograms.entry(step).or_insert_with(|| StepHistograms::Sum(Box::default()));
            kept += HISTOGRAM_BYTES;
            match (&mut *own, more) {
                (StepHistograms::Sum(sum), StepHistograms::Sum(more)) => {
                    spend(more.memory_bytes() as usize)?;
                    kept += more.memory_bytes();
                    if sum.merge(&more).is_err() {
                        *own = StepHistograms::Incompatible;
                        let metric = run.pool.get(labels, Text::NAME);
                        run.notes.add(Note::MixedExponentialCustom(metric), self.span);
                    }
                }
                _ => *own = StepHistograms::Incompatible,
            }
        }
        Ok(run.keep(kept)?)
    }

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
        self.prepare(number, run)?;
        Ok(number)
    }

    /// Creates the groups up to this number.
    fn prepare(&mut self, number: usize, run: &mut Run) -> Result<(), Error> {
        while self.groups.len() <= number {
            run.keep(size_of::<Group>() as u64 + Floats::bytes(self.op, self.grid.steps))?;
            let (floats, columns) = (Floats::new(self.op, self.grid.steps), Vec::new());
            self.groups.push(Group { drop_name: false, floats, histograms: Histograms::new(), columns });
        }
        Ok(())
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
        if counts || column.histograms.is_none() {
            let before = group.floats.more_bytes();
            group.floats.add(self.op, column);
            return Ok(run.keep(group.floats.more_bytes().saturating_sub(before))?);
        }
        self.add_mixed(number, &column, run)
    }

    /// Adds a series with histograms to a sum or mean, step by step.
    fn add_mixed(&mut self, number: usize, column: &Column, run: &mut Run) -> Result<(), Error> {
        let Group { floats, histograms, .. } = &mut self.groups[number];
        let metric = run.pool.get(column.labels, Text::NAME);
        let before = floats.more_bytes();
        for step in column.steps() {
            let Some(histogram) = column.histogram(step) else {
                floats.add_one(step, column.values[step]);
                continue;
            };
            spend(histogram.memory_bytes() as usize)?;
            let entry = histograms.entry(step).or_insert_with(|| StepHistograms::Sum(Box::default()));
            let StepHistograms::Sum(sum) = entry else { continue };
            let before = sum.memory_bytes();
            if sum.add(histogram).is_err() {
                run.notes.add(Note::MixedExponentialCustom(metric), self.span);
                *entry = StepHistograms::Incompatible;
                continue;
            }
            let is_first = before == HistogramSum::default().memory_bytes();
            let of_entry = if is_first { before + HISTOGRAM_BYTES } else { 0 };
            run.keep(of_entry + sum.memory_bytes().saturating_sub(before))?;
        }
        Ok(run.keep(floats.more_bytes().saturating_sub(before))?)
    }

    fn finish(&self, group: Group, labels: LabelsId, run: &mut Run) -> Result<Column, Error> {
        let steps = self.grid.steps;
        spend(steps * 2 + 16)?;
        let mut column = match self.op {
            Kind::Quantile => self.quantiles(&group, run)?,
            op => group.floats.finish(op),
        };
        (column.labels, column.drop_name) = (labels, group.drop_name);
        let mut histograms: Vec<(usize, StepHistograms)> = group.histograms.into_iter().collect();
        histograms.sort_unstable_by_key(|(step, _)| *step);
        for (step, found) in histograms {
            spend(4)?;
            if column.has(step) {
                // A mix of floats and histograms has no result.
                run.notes.add(Note::MixedInAggregation, self.span);
                column.unmark(step);
                continue;
            }
            let StepHistograms::Sum(found) = found else { continue };
            if found.hints().collide() {
                run.notes.add(Note::ResetCollision(HistogramOperation::Aggregation), self.span);
            }
            if found.bounds_differ() {
                run.notes.add(Note::MismatchedBounds(HistogramOperation::Aggregation), self.span);
            }
            spend(found.memory_bytes() as usize)?;
            let result = if self.op == Kind::Avg { found.mean() } else { found.sum() };
            if let Some(mut result) = result {
                result.compact();
                run.put(&mut column, step, Sample::Histogram(Arc::new(result)))?;
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

//! Operators between two samples, and between a vector and a scalar.

use std::sync::Arc;

use sandur_memory::job::spend;
use sandur_model::FloatHistogram;
use sandur_model::histogram::Trim;
use sandur_query::Error;

use crate::check::is_comparison;
use crate::column::{Column, Grid, PIECE_VALUES, Sample};
use crate::notes::{HistogramOperation, Note, Notes};
use crate::ops::chain::{Stage, Step};
use crate::run::{Pull, Run, ScalarArg, Scratch};
use crate::span::Span;
use crate::token::Kind;

/// Whether the result of an operator is no longer the metric of its operand, so that its name is dropped.
pub fn changes_metric(op: Kind) -> bool {
    matches!(op, Kind::Add | Kind::Sub | Kind::Div | Kind::Mul | Kind::Pow | Kind::Mod | Kind::Atan2)
}

/// The power, with Go's results.
fn power(base: f64, exponent: f64) -> f64 {
    base.powf(exponent)
}

/// Applies an operator to two scalars; comparisons yield 0 or 1.
pub fn scalars(op: Kind, left: f64, right: f64) -> f64 {
    match floats(op, left, right) {
        Some((_, keep)) if is_comparison(op) => f64::from(u8::from(keep)),
        Some((value, _)) => value,
        None => f64::NAN,
    }
}

/// Applies an operator to two floats. Returns the value and whether it passes as a filter; `None` if the
/// operator has no meaning for floats.
#[inline]
pub fn floats(op: Kind, left: f64, right: f64) -> Option<(f64, bool)> {
    Some(match op {
        Kind::Add => (left + right, true),
        Kind::Sub => (left - right, true),
        Kind::Mul => (left * right, true),
        Kind::Div => (left / right, true),
        Kind::Pow => (power(left, right), true),
        Kind::Mod => (left % right, true),
        Kind::Atan2 => (left.atan2(right), true),
        Kind::Eqlc => (left, left == right),
        Kind::Neq => (left, left != right),
        Kind::Gtr => (left, left > right),
        Kind::Lss => (left, left < right),
        Kind::Gte => (left, left >= right),
        Kind::Lte => (left, left <= right),
        _ => return None,
    })
}

/// Applies an operator to two samples. Returns the result and whether it passes as a filter; `None` with a
/// note if there is no result.
pub fn samples(
    op: Kind,
    left: &Sample,
    right: &Sample,
    notes: &mut Notes,
    span: Span,
) -> Option<(Sample, bool)> {
    let changed = |histogram: &FloatHistogram, f: &dyn Fn(&mut FloatHistogram)| {
        let mut result = histogram.clone();
        f(&mut result);
        Some((Sample::Histogram(Arc::new(result)), true))
    };
    let found = match (left, right) {
        (Sample::Float(left), Sample::Float(right)) => {
            floats(op, *left, *right).map(|(value, keep)| (Sample::Float(value), keep))
        }
        (Sample::Float(factor), Sample::Histogram(histogram)) if op == Kind::Mul => {
            changed(histogram, &|h| _ = h.multiply(*factor).compact())
        }
        (Sample::Histogram(histogram), Sample::Float(number)) => match op {
            Kind::Mul => changed(histogram, &|h| _ = h.multiply(*number).compact()),
            Kind::Div => changed(histogram, &|h| _ = h.divide(*number).compact()),
            Kind::TrimUpper => changed(histogram, &|h| _ = h.trim(*number, Trim::Upper)),
            Kind::TrimLower => changed(histogram, &|h| _ = h.trim(*number, Trim::Lower)),
            _ => None,
        },
        (Sample::Histogram(left), Sample::Histogram(right)) => match op {
            Kind::Add | Kind::Sub => return combine(op, left, right, notes, span),
            Kind::Eqlc => Some((Sample::Histogram(Arc::clone(left)), left.same_data(right))),
            Kind::Neq => Some((Sample::Histogram(Arc::clone(left)), !left.same_data(right))),
            _ => None,
        },
        _ => None,
    };
    if found.is_none() {
        let is_histogram = |sample: &Sample| matches!(sample, Sample::Histogram(_));
        notes.add(Note::IncompatibleTypes(is_histogram(left), op, is_histogram(right)), span);
    }
    found
}

fn combine(
    op: Kind,
    left: &FloatHistogram,
    right: &FloatHistogram,
    notes: &mut Notes,
    span: Span,
) -> Option<(Sample, bool)> {
    let mut result = left.clone();
    let (added, operation) = match op {
        Kind::Add => (result.add(right), HistogramOperation::Addition),
        _ => (result.subtract(right), HistogramOperation::Subtraction),
    };
    let Ok(added) = added else {
        notes.add(Note::IncompatibleLayout(op), span);
        return None;
    };
    if op == Kind::Sub {
        result.reset = sandur_model::histogram::CounterReset::Gauge;
    }
    if added.reset_collision {
        notes.add(Note::ResetCollision(operation), span);
    }
    if added.bounds_reconciled {
        notes.add(Note::MismatchedBounds(operation), span);
    }
    result.compact();
    Some((Sample::Histogram(Arc::new(result)), true))
}

/// An operator between a vector, which arrives in batches, and a scalar.
pub struct VectorScalar {
    /// The scalar.
    pub scalar: ScalarArg,
    /// The operator.
    pub op: Kind,
    /// Whether the scalar is on the left.
    pub swapped: bool,
    /// Whether a comparison yields 0 or 1 (`bool`).
    pub returns_bool: bool,
    /// The steps.
    pub grid: Grid,
    /// The place of the operator and its operands in the query.
    pub span: Span,
    /// The reservation for the histograms of a batch.
    pub scratch: Scratch,
}

impl Stage for VectorScalar {
    fn step(&mut self, came: Option<Pull>, run: &mut Run) -> Result<Step, Error> {
        if let Some(leaf) = self.scalar.ready(run, &self.grid)? {
            return Ok(Step::Give(Pull::Need(leaf)));
        }
        let mut columns = match came {
            Some(Pull::Batch(columns)) => columns,
            Some(other) => return Ok(Step::Give(other)),
            None => return Ok(Step::Left),
        };
        // The last batch has been consumed.
        let mut scratch = std::mem::take(&mut self.scratch);
        scratch.reset();
        for column in &mut columns {
            spend(8)?;
            if changes_metric(self.op) || self.returns_bool {
                column.drop_name = true;
            }
            match column.histograms.is_some() || matches!(self.op, Kind::TrimUpper | Kind::TrimLower) {
                true => self.change_samples(column, run, &mut scratch)?,
                false => self.change_floats(column)?,
            }
        }
        self.scratch = scratch;
        columns.retain(Column::has_any);
        Ok(Step::Give(Pull::Batch(columns)))
    }
}

impl VectorScalar {
    fn change_floats(&self, column: &mut Column) -> Result<(), Error> {
        let scalars = self.scalar.values();
        let pieces = column.values.chunks_mut(PIECE_VALUES).zip(scalars.chunks(PIECE_VALUES));
        if matches!((self.op, self.swapped), (Kind::Add | Kind::Mul, _) | (Kind::Sub | Kind::Div, false)) {
            for (values, scalars) in pieces {
                spend(values.len())?;
                let pairs = values.iter_mut().zip(scalars);
                match self.op {
                    Kind::Add => pairs.for_each(|(value, scalar)| *value += scalar),
                    Kind::Mul => pairs.for_each(|(value, scalar)| *value *= scalar),
                    Kind::Sub => pairs.for_each(|(value, scalar)| *value -= scalar),
                    _ => pairs.for_each(|(value, scalar)| *value /= scalar),
                }
            }
            return Ok(());
        }
        for step in column.steps() {
            spend(4)?;
            let (value, scalar) = (column.values[step], scalars[step]);
            let (left, right) = if self.swapped { (scalar, value) } else { (value, scalar) };
            let Some((mut result, keep)) = floats(self.op, left, right) else { continue };
            // A comparison as a filter keeps the value of the vector.
            if is_comparison(self.op) {
                result = value;
            }
            if self.returns_bool {
                result = f64::from(u8::from(keep));
            } else if !keep {
                column.unmark(step);
            }
            column.values[step] = result;
        }
        Ok(())
    }

    fn change_samples(&self, column: &mut Column, run: &mut Run, scratch: &mut Scratch) -> Result<(), Error> {
        let mut changed = Column::empty(column.labels, column.drop_name, self.grid.steps);
        for step in column.steps() {
            let (Some(sample), scalar) = (column.sample(step), Sample::Float(self.scalar.at(step))) else {
                continue;
            };
            let (left, right) = if self.swapped { (&scalar, &sample) } else { (&sample, &scalar) };
            spend(sample.work())?;
            let Some((result, keep)) = samples(self.op, left, right, &mut run.notes, self.span) else {
                continue;
            };
            if self.returns_bool {
                changed.put(step, f64::from(u8::from(keep)));
            } else if keep {
                let kept = if is_comparison(self.op) { sample } else { result };
                scratch.add(kept.work() as u64)?;
                changed.put_sample(step, kept);
            }
        }
        *column = changed;
        Ok(())
    }
}

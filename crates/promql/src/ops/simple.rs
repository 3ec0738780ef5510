//! Operators that process one series, or one step, at a time.

use std::cmp::Ordering;
use std::sync::Arc;

use sandur_memory::Stopped;
use sandur_memory::job::spend;
use sandur_model::FloatHistogram;
use sandur_query::Error;

use crate::column::{Column, Grid};
use crate::functions::civil::Civil;
use crate::labels::{LabelsId, Text};
use crate::notes::Note;
use crate::order::sorted;
use crate::run::{
    AnyOperator, BatchMemory, Gathered, Operator, Outbox, Pull, Run, ScalarArg, Scratch, scalars_ready,
};
use crate::span::Span;

/// Series that are already computed.
pub struct Ready(pub Option<Vec<Column>>);

impl Operator for Ready {
    fn pull(&mut self, _: &mut Run) -> Result<Pull, Error> {
        let columns = self.0.take().filter(|columns| !columns.is_empty());
        Ok(columns.map_or(Pull::End, Pull::Batch))
    }
}

/// A scalar as an operator: one series without labels.
pub fn scalar(values: Vec<f64>) -> AnyOperator {
    Box::new(Ready(Some(vec![Column::full(LabelsId::EMPTY, values)])))
}

/// Evaluates its input at one step and repeats the result at all steps.
pub struct Broadcast {
    inner: AnyOperator,
    grid: Grid,
    /// The series that are still to be repeated.
    pending: std::vec::IntoIter<Column>,
    memory: BatchMemory,
}

impl Broadcast {
    /// Repeats the output of an operator that is evaluated at one step.
    pub fn new(inner: AnyOperator, grid: Grid) -> Self {
        Self { inner, grid, pending: Vec::new().into_iter(), memory: BatchMemory::default() }
    }
}

impl Operator for Broadcast {
    fn pull(&mut self, run: &mut Run) -> Result<Pull, Error> {
        if self.pending.len() == 0 {
            self.pending = match self.inner.pull(run)? {
                Pull::Batch(columns) => columns.into_iter(),
                Pull::End => {
                    self.memory.give_back(run);
                    return Ok(Pull::End);
                }
                Pull::Need(leaf) => return Ok(Pull::Need(leaf)),
            };
        }
        self.memory.take(&self.grid, run)?;
        let (steps, most) = (self.grid.steps, self.grid.batch_series());
        spend(most.min(self.pending.len()) * steps)?;
        let wide = self.pending.by_ref().take(most).filter(|column| column.has(0)).map(|column| {
            let mut wide = Column::full(column.labels, vec![column.values[0]; steps]);
            wide.drop_name = column.drop_name;
            wide.histograms = column.histogram(0).map(|h| vec![Some(Arc::clone(h)); steps]);
            wide
        });
        Ok(Pull::Batch(wide.collect()))
    }
}

/// An operation on each sample.
pub enum Each {
    /// A function of a float.
    Float(fn(f64) -> f64),
    /// A function of a float and scalar arguments.
    With(fn(f64, &[f64]) -> Option<f64>, Vec<ScalarArg>),
    /// A function of a histogram.
    Histogram(fn(&FloatHistogram) -> f64),
    /// A function of the date that a float stands for.
    Date(fn(&Civil) -> f64),
    /// The negation of a float or histogram.
    Negate,
}

/// The work of a function of a float, about that of a logarithm.
const MAP_WORK: usize = 8;

/// Applies an operation to each sample. Samples of a kind that the operation does not accept are dropped.
pub struct Map {
    /// The input operator.
    pub inner: AnyOperator,
    /// The operation.
    pub each: Each,
    /// The steps.
    pub grid: Grid,
    /// The reservation for the histograms of a batch.
    pub scratch: Scratch,
}

impl Operator for Map {
    fn pull(&mut self, run: &mut Run) -> Result<Pull, Error> {
        if let Each::With(_, args) = &mut self.each
            && let Some(leaf) = scalars_ready(args, run, &self.grid)?
        {
            return Ok(Pull::Need(leaf));
        }
        let mut columns = match self.inner.pull(run)? {
            Pull::Batch(columns) => columns,
            other => return Ok(other),
        };
        self.scratch.reset();
        columns.iter_mut().try_for_each(|column| self.change(column))?;
        columns.retain(Column::has_any);
        Ok(Pull::Batch(columns))
    }
}

impl Map {
    fn change(&mut self, column: &mut Column) -> Result<(), Stopped> {
        spend(16)?;
        column.drop_name = true;
        let histograms = match self.each {
            Each::Negate => None,
            _ => column.histograms.take(),
        };
        let is_histogram = |step: usize| histograms.as_ref().is_some_and(|all| all[step].is_some());
        match &self.each {
            // Steps without a sample have meaningless values, so all values are changed without a test.
            Each::Float(f) => column.change_values(MAP_WORK, f)?,
            Each::Date(f) => {
                column.change_values(MAP_WORK, |value| f(&Civil::of_float(value)))?;
            }
            Each::With(f, args) => {
                let mut given = vec![0.0; args.len()];
                for step in column.steps() {
                    spend(MAP_WORK)?;
                    given.iter_mut().zip(args).for_each(|(slot, arg)| *slot = arg.at(step));
                    match f(column.values[step], &given) {
                        Some(value) => column.values[step] = value,
                        None => column.unmark(step),
                    }
                }
            }
            Each::Histogram(f) => {
                for step in column.steps() {
                    match histograms.as_ref().and_then(|all| all[step].as_ref()) {
                        Some(histogram) => {
                            spend(histogram.memory_bytes() as usize)?;
                            column.values[step] = f(histogram);
                        }
                        None => column.unmark(step),
                    }
                }
                return Ok(());
            }
            Each::Negate => {
                column.change_values(1, |value| -value)?;
                for histogram in column.histograms.iter_mut().flatten().flatten() {
                    let bytes = histogram.memory_bytes();
                    spend(bytes as usize)?;
                    self.scratch.add(bytes)?;
                    let mut negative = (**histogram).clone();
                    negative.multiply(-1.0);
                    *histogram = Arc::new(negative);
                }
                return Ok(());
            }
        }
        if histograms.is_some() {
            let steps = column.steps().filter(|step| is_histogram(*step));
            steps.for_each(|step| column.unmark(step));
        }
        Ok(())
    }
}

/// A function of two scalars, which yields a scalar.
pub struct ScalarPair {
    /// The left and the right argument.
    pub args: Vec<ScalarArg>,
    /// The function.
    pub f: Box<dyn Fn(f64, f64) -> f64 + Send>,
    /// The steps.
    pub grid: Grid,
    /// Whether the result was output.
    pub is_done: bool,
}

impl Operator for ScalarPair {
    fn pull(&mut self, run: &mut Run) -> Result<Pull, Error> {
        if let Some(leaf) = scalars_ready(&mut self.args, run, &self.grid)? {
            return Ok(Pull::Need(leaf));
        }
        if std::mem::replace(&mut self.is_done, true) {
            return Ok(Pull::End);
        }
        spend(self.grid.steps * 4)?;
        let pairs = self.args[0].values().iter().zip(self.args[1].values());
        let values = pairs.map(|(left, right)| (self.f)(*left, *right)).collect();
        Ok(Pull::Batch(vec![Column::full(LabelsId::EMPTY, values)]))
    }
}

/// `scalar`: at each step, the float of the only series.
pub struct ScalarOf {
    /// The input operator.
    pub inner: AnyOperator,
    /// For each step, the number of floats and the last one.
    pub found: Vec<(u32, f64)>,
    /// Whether the result was output.
    pub is_done: bool,
}

impl Operator for ScalarOf {
    fn pull(&mut self, run: &mut Run) -> Result<Pull, Error> {
        if self.is_done {
            return Ok(Pull::End);
        }
        loop {
            match self.inner.pull(run)? {
                Pull::Need(leaf) => return Ok(Pull::Need(leaf)),
                Pull::End => break,
                Pull::Batch(columns) => {
                    spend(columns.len() * self.found.len())?;
                    for column in columns {
                        for step in column.steps().filter(|step| column.histogram(*step).is_none()) {
                            self.found[step] = (self.found[step].0.saturating_add(1), column.values[step]);
                        }
                    }
                }
            }
        }
        self.is_done = true;
        let values = self.found.iter().map(|(count, value)| if *count == 1 { *value } else { f64::NAN });
        Ok(Pull::Batch(vec![Column::full(LabelsId::EMPTY, values.collect())]))
    }
}

/// `absent`: 1 at steps without any sample.
pub struct Absent {
    /// The input operator.
    pub inner: AnyOperator,
    /// The labels of the resulting series.
    pub labels: Vec<(String, String)>,
    /// The steps that have a sample, as a column.
    pub seen: Column,
    /// Whether the result was output.
    pub is_done: bool,
    /// Whether the result is marked for dropping the name, which it does not have.
    pub drop_name: bool,
}

impl Operator for Absent {
    fn pull(&mut self, run: &mut Run) -> Result<Pull, Error> {
        if self.is_done {
            return Ok(Pull::End);
        }
        loop {
            match self.inner.pull(run)? {
                Pull::Need(leaf) => return Ok(Pull::Need(leaf)),
                Pull::End => break,
                Pull::Batch(columns) => {
                    for column in columns {
                        spend(column.present.len() + 8)?;
                        let words = self.seen.present.iter_mut().zip(&column.present);
                        words.for_each(|(seen, bits)| *seen |= bits);
                    }
                }
            }
        }
        self.is_done = true;
        let mut labels = LabelsId::EMPTY;
        for (name, value) in &self.labels {
            let (name, value) = (run.pool.text_id(name), run.pool.text_id(value));
            labels = run.pool.with(labels, name, value);
        }
        let steps = self.seen.values.len();
        let mut column = Column::full(labels, vec![1.0; steps]);
        column.present.iter_mut().zip(&self.seen.present).for_each(|(bits, seen)| *bits &= !seen);
        column.drop_name = self.drop_name;
        Ok(if column.has_any() { Pull::Batch(vec![column]) } else { Pull::End })
    }
}

/// The sort key of series.
pub enum SortBy {
    /// Their values; series of histograms are left out.
    Value,
    /// These labels, then all labels.
    Labels(Vec<String>),
}

/// Sorts series of an instant query.
pub struct Sort {
    /// The input operator.
    pub inner: AnyOperator,
    /// The gathered input.
    pub gathered: Gathered,
    /// The sort key.
    pub by: SortBy,
    /// Whether the order is descending.
    pub descending: bool,
    /// Whether the query is a range query, whose results have a fixed order.
    pub is_range: bool,
    /// The results, once they are computed.
    pub outbox: Option<Outbox>,
    /// The place of the call in the query.
    pub span: Span,
}

impl Operator for Sort {
    fn pull(&mut self, run: &mut Run) -> Result<Pull, Error> {
        if let Some(outbox) = &mut self.outbox {
            return Ok(outbox.next());
        }
        if let Some(leaf) = self.gathered.gather(&mut self.inner, run)? {
            return Ok(Pull::Need(leaf));
        }
        let mut columns = std::mem::take(&mut self.gathered.columns);
        if self.is_range {
            run.notes.add(Note::SortInRange, self.span);
        }
        let descending = self.descending;
        match &self.by {
            SortBy::Value => {
                for column in &mut columns {
                    let histograms = column.histograms.take().unwrap_or_default();
                    for step in column.steps().filter(|step| matches!(histograms.get(*step), Some(Some(_)))) {
                        column.unmark(step);
                    }
                }
                columns.retain(Column::has_any);
                if self.is_range {
                    return Ok(self.outbox.insert(Outbox::new(columns)).next());
                }
                // NaN comes last in both orders; equal values are in the order of labels.
                let by_value = |a: &Column, b: &Column| match (a.values[0], b.values[0]) {
                    (x, y) if x.is_nan() || y.is_nan() => x.is_nan().cmp(&y.is_nan()),
                    (x, y) if descending => y.partial_cmp(&x).unwrap_or(Ordering::Equal),
                    (x, y) => x.partial_cmp(&y).unwrap_or(Ordering::Equal),
                };
                let pool = &run.pool;
                columns = sorted(columns, |a, b| {
                    by_value(a, b).then_with(|| pool.compare_series(a.labels, b.labels))
                })?;
            }
            SortBy::Labels(names) => {
                let names: Vec<Text> = names.iter().map(|name| run.pool.text_id(name)).collect();
                let pool = &run.pool;
                columns = sorted(columns, |a, b| {
                    let value = |column: &Column, name: Text| pool.text(pool.get(column.labels, name));
                    let order = names
                        .iter()
                        .map(|name| natural_order(value(a, *name), value(b, *name)))
                        .find(|order| order.is_ne())
                        .unwrap_or_else(|| pool.compare(a.labels, b.labels));
                    if descending { order.reverse() } else { order }
                })?;
            }
        }
        Ok(self.outbox.insert(Outbox::new(columns)).next())
    }
}

/// Compares texts in natural order: numbers in them by value.
fn natural_order(a: &str, b: &str) -> Ordering {
    if a == b {
        return Ordering::Equal;
    }
    let (a, b) = (Pieces(a).collect::<Vec<_>>(), Pieces(b).collect::<Vec<_>>());
    for (x, y) in a.iter().zip(&b) {
        if x == y {
            continue;
        }
        let digits = |piece: &str| piece.starts_with(|c: char| c.is_ascii_digit());
        return match (digits(x), digits(y)) {
            (true, false) => Ordering::Less,
            (false, true) => Ordering::Greater,
            (false, false) => x.cmp(y),
            (true, true) => {
                let (p, q) = (x.trim_start_matches('0'), y.trim_start_matches('0'));
                p.len().cmp(&q.len()).then_with(|| p.cmp(q)).then_with(|| y.len().cmp(&x.len()))
            }
        };
    }
    a.len().cmp(&b.len())
}

/// Splits a text into runs of digits and runs of other characters.
struct Pieces<'a>(&'a str);

impl<'a> Iterator for Pieces<'a> {
    type Item = &'a str;

    fn next(&mut self) -> Option<&'a str> {
        let digits = self.0.chars().next()?.is_ascii_digit();
        let end = self.0.find(|c: char| c.is_ascii_digit() != digits).unwrap_or(self.0.len());
        let (piece, rest) = self.0.split_at(end);
        self.0 = rest;
        Some(piece)
    }
}

/// Evaluates its input, which may fail, and yields no series.
pub struct Nothing {
    /// The input.
    pub inner: AnyOperator,
}

impl Operator for Nothing {
    fn pull(&mut self, run: &mut Run) -> Result<Pull, Error> {
        loop {
            match self.inner.pull(run)? {
                Pull::Batch(_) => {}
                other => return Ok(other),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn natural_order_compares_numbers_by_value() {
        let mut names = ["cpu10", "cpu9", "cpu", "4m1000", "4m600", "host2a", "host2"];
        names.sort_by(|a, b| natural_order(a, b));
        assert_eq!(names, ["4m600", "4m1000", "cpu", "cpu9", "cpu10", "host2", "host2a"]);
    }
}

//! `count_values`: the number of series of a group with each value.
//!
//! A value that occurs at few steps is kept as a list of these. If values change from step to step, each
//! value becomes its own series.

use foldhash::{HashMap, HashMapExt};
use sandur_memory::Stopped;
use sandur_memory::job::spend;
use sandur_query::Error;

use crate::column::{Column, Grid, Sparse};
use crate::labels::{LabelsId, Text};
use crate::ops::grouping::{GROUP_BYTES, Grouping};
use crate::run::{AnyOperator, Operator, Pull, Run};
use crate::text::plain_number;

/// The number of series with a value, by step.
enum Counts {
    Few(Sparse),
    Many(Box<Column>),
}

/// `count_values`.
pub struct CountValues {
    inner: AnyOperator,
    /// The label for the value.
    label: Text,
    /// Whether the labels of groups include that label.
    keeps_label: bool,
    grouping: Grouping,
    grid: Grid,
    counts: Vec<Counts>,
    /// The numbers of groups, by their labels without the value and the bits of the value.
    known: HashMap<(LabelsId, u64), usize>,
    outbox: Option<std::vec::IntoIter<(LabelsId, Counts)>>,
}

impl CountValues {
    /// A new count. `keeps_label`: the grouping keeps the label of the value.
    pub fn new(inner: AnyOperator, label: Text, keeps_label: bool, grouping: Grouping, grid: Grid) -> Self {
        let (counts, known) = (Vec::new(), HashMap::new());
        Self { inner, label, keeps_label, grouping, grid, counts, known, outbox: None }
    }
}

impl Operator for CountValues {
    fn pull(&mut self, run: &mut Run) -> Result<Pull, Error> {
        if let Some(outbox) = &mut self.outbox {
            return next(outbox, &self.grid);
        }
        loop {
            let columns = match self.inner.pull(run)? {
                Pull::Batch(columns) => columns,
                Pull::Need(leaf) => return Ok(Pull::Need(leaf)),
                Pull::End => break,
            };
            for column in &columns {
                let own = self.grouping.labels_of(column.labels, &mut run.pool);
                for step in column.steps() {
                    let group = self.group(own, column, step, run)?;
                    self.count(group, step, run)?;
                }
            }
        }
        run.keep(self.grid.batch_bytes())?;
        let counts = std::mem::take(&mut self.counts);
        let all: Vec<_> = self.grouping.labels.iter().copied().zip(counts).collect();
        next(self.outbox.insert(all.into_iter()), &self.grid)
    }
}

/// The next batch, as columns over all steps.
fn next(outbox: &mut std::vec::IntoIter<(LabelsId, Counts)>, grid: &Grid) -> Result<Pull, Error> {
    let mut columns = Vec::new();
    for (labels, counts) in outbox.by_ref().take(grid.batch_series()) {
        columns.push(match counts {
            Counts::Many(column) => *column,
            Counts::Few(few) => {
                spend(grid.steps / 4 + 16)?;
                few.column(labels, false, grid.steps)
            }
        });
    }
    Ok(if columns.is_empty() { Pull::End } else { Pull::Batch(columns) })
}

impl CountValues {
    /// The group of a series's value at a step; its labels are `own` and the value's label.
    fn group(&mut self, own: LabelsId, column: &Column, step: usize, run: &mut Run) -> Result<usize, Error> {
        spend(16)?;
        let key = (own, column.values[step].to_bits());
        let histogram = column.histogram(step);
        if histogram.is_none()
            && let Some(group) = self.known.get(&key)
        {
            return Ok(*group);
        }
        let text = match histogram {
            Some(histogram) => {
                spend(histogram.memory_bytes() as usize)?;
                histogram.to_string()
            }
            None => plain_number(column.values[step]),
        };
        let mut labels = own;
        if self.keeps_label {
            let value = run.pool.text_id(&text);
            labels = run.pool.with(own, self.label, value);
        }
        let group = self.grouping.group_with(labels, run)?;
        if group == self.counts.len() {
            run.keep(size_of::<Counts>() as u64)?;
            self.counts.push(Counts::Few(Sparse::default()));
        }
        if histogram.is_none() {
            run.keep(GROUP_BYTES)?;
            self.known.insert(key, group);
        }
        Ok(group)
    }

    fn count(&mut self, group: usize, step: usize, run: &mut Run) -> Result<(), Stopped> {
        let (counts, steps) = (&mut self.counts[group], self.grid.steps);
        match counts {
            Counts::Many(column) => {
                let before = if column.has(step) { column.values[step] } else { 0.0 };
                column.put(step, before + 1.0);
            }
            Counts::Few(few) if few.len() < Sparse::most(steps) => {
                if few.change(step, |before| before.unwrap_or(0.0) + 1.0) {
                    run.keep(Sparse::SAMPLE_BYTES)?;
                }
            }
            Counts::Few(few) => {
                run.keep(Column::bytes(steps))?;
                *counts = Counts::Many(Box::new(few.column(self.grouping.labels[group], false, steps)));
                return self.count(group, step, run);
            }
        }
        Ok(())
    }
}

//! Chains of binary operators: the output of the left side passes through one stage after the other.
//!
//! A chain may be as long as a query may be, so stages do not call each other: [`Chain`] loops over them
//! and uses the same stack for one stage as for a thousand. A stage drops the operator of its right operand
//! once the operand is gathered, and both operands once they are combined. A chain of any length thus takes
//! the memory of only a few operands.

use sandur_memory::job::spend;
use sandur_query::Error;

use crate::column::{Column, Grid};
use crate::run::{AnyOperator, Gathered, LeafId, Operator, Outbox, Pull, Run, ScalarArg};

/// The result of one step of a stage.
pub enum Step {
    /// The stage needs the next batch of its left side.
    Left,
    /// The stage outputs this.
    Give(Pull),
}

/// A binary operator with its right side.
pub trait Stage: Send {
    /// Continues, with the output of its left side if the stage requested it; this is never [`Pull::Need`].
    fn step(&mut self, came: Option<Pull>, run: &mut Run) -> Result<Step, Error>;
}

/// The first operand and the stages of the following operators.
pub struct Chain {
    first: AnyOperator,
    stages: Vec<Box<dyn Stage>>,
    /// The stage that continues at the next pull.
    at: usize,
}

impl Chain {
    /// An operator that passes the output of `first` through these stages, in order.
    pub fn of(first: AnyOperator, stages: Vec<Box<dyn Stage>>) -> AnyOperator {
        if stages.is_empty() {
            return first;
        }
        let at = stages.len() - 1;
        Box::new(Self { first, stages, at })
    }
}

impl Operator for Chain {
    fn pull(&mut self, run: &mut Run) -> Result<Pull, Error> {
        let mut came = None;
        loop {
            match (self.stages[self.at].step(came.take(), run)?, self.at) {
                (Step::Left, 0) => match self.first.pull(run)? {
                    Pull::Need(leaf) => return Ok(Pull::Need(leaf)),
                    other => came = Some(other),
                },
                (Step::Left, _) => self.at -= 1,
                // The stage continues when the batch has arrived.
                (Step::Give(Pull::Need(leaf)), _) => return Ok(Pull::Need(leaf)),
                (Step::Give(given), at) if at + 1 == self.stages.len() => return Ok(given),
                (Step::Give(given), _) => {
                    self.at += 1;
                    came = Some(given);
                }
            }
        }
    }
}

/// The left side of a stage that needs all of its series.
#[derive(Default)]
pub struct LeftSide(Gathered);

impl LeftSide {
    /// Adds a batch; returns whether the end was reached.
    pub fn take_in(&mut self, came: Option<Pull>, run: &mut Run) -> Result<bool, Error> {
        match came {
            Some(Pull::Batch(columns)) => self.0.add(columns, run)?,
            Some(Pull::End) => self.0.end(),
            Some(Pull::Need(_)) | None => {}
        }
        Ok(self.0.is_done())
    }

    /// Takes out the series and the number of bytes that the run still holds for them.
    pub fn take(&mut self) -> (Vec<Column>, u64) {
        self.0.take()
    }
}

/// The right side of an operator that needs all of its series.
pub struct RightSide {
    from: Option<AnyOperator>,
    gathered: Gathered,
    /// The bytes that the run holds for the operator and for the gathered series.
    held: u64,
}

impl RightSide {
    /// The right side that an operator computes.
    pub fn new(from: AnyOperator) -> Self {
        Self { from: Some(from), gathered: Gathered::default(), held: 0 }
    }

    /// Gathers the series, then drops the operator. Returns the selector whose next batch is needed first.
    pub fn ready(&mut self, run: &mut Run) -> Result<Option<LeafId>, Error> {
        let Some(from) = &mut self.from else { return Ok(None) };
        let before = run.held_bytes();
        let needed = self.gathered.gather(from, run)?;
        self.held = (self.held + run.held_bytes()).saturating_sub(before);
        if needed.is_none() {
            self.from = None;
            run.release(self.held.saturating_sub(self.gathered.held_bytes()));
        }
        Ok(needed)
    }

    /// Takes out the series and the number of bytes that the run still holds for them.
    pub fn take(&mut self) -> (Vec<Column>, u64) {
        self.gathered.take()
    }
}

/// Finished output of a stage.
pub struct Made {
    outbox: Outbox,
    held: u64,
}

impl Made {
    /// Keeps the reservation of these series alone: everything reserved since `before` is released, and
    /// `inputs` bytes of operands that are dropped.
    pub fn new(columns: Vec<Column>, inputs: u64, before: u64, run: &mut Run) -> Result<Self, Error> {
        run.release(inputs + run.held_bytes().saturating_sub(before));
        let held = columns.iter().map(Column::memory_bytes).sum();
        run.keep(held)?;
        Ok(Self { outbox: Outbox::new(columns), held })
    }

    /// The next batch.
    pub fn next(&mut self, run: &mut Run) -> Pull {
        let next = self.outbox.next();
        if matches!(next, Pull::End) {
            run.release(std::mem::take(&mut self.held));
        }
        next
    }
}

/// An operator between two scalars. The left one arrives as a single series.
pub struct ScalarStage<F> {
    /// The right operand.
    pub right: ScalarArg,
    /// The operation.
    pub f: F,
    /// The steps.
    pub grid: Grid,
}

impl<F: Fn(f64, f64) -> f64 + Send> Stage for ScalarStage<F> {
    fn step(&mut self, came: Option<Pull>, run: &mut Run) -> Result<Step, Error> {
        if let Some(leaf) = self.right.ready(run, &self.grid)? {
            return Ok(Step::Give(Pull::Need(leaf)));
        }
        let mut columns = match came {
            Some(Pull::Batch(columns)) => columns,
            Some(other) => return Ok(Step::Give(other)),
            None => return Ok(Step::Left),
        };
        for column in &mut columns {
            spend(self.grid.steps * 4)?;
            column.drop_name = false;
            let pairs = column.values.iter_mut().zip(self.right.values());
            pairs.for_each(|(left, right)| *left = (self.f)(*left, *right));
        }
        Ok(Step::Give(Pull::Batch(columns)))
    }
}

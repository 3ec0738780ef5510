//! Rows of operators: what comes from the left goes through one stage after the other.
//!
//! A row may be as long as a query may be, so stages do not call each other: the row goes from stage to stage
//! and takes the same stack for one as for a thousand. A stage that has gathered an operand lets go of what
//! that was made from, and one that has combined both sides of these, so that a row takes the memory of a few
//! operands whatever its length is.

use sandur_base::job::spend;
use sandur_query::Error;

use crate::column::{Column, Grid};
use crate::run::{AnyOperator, Gathered, LeafId, Operator, Outbox, Pull, Run, ScalarArg};

/// What a stage does.
pub enum Step {
    /// It needs the next series of its left side.
    Left,
    /// It gives.
    Give(Pull),
}

/// An operator with its right side.
pub trait Stage: Send {
    /// Goes on, with what its left side gave if it asked for that; that is never [`Pull::Need`].
    fn step(&mut self, came: Option<Pull>, run: &mut Run) -> Result<Step, Error>;
}

/// A first operand and the stages of the operators behind it.
pub struct Chain {
    first: AnyOperator,
    stages: Vec<Box<dyn Stage>>,
    /// The stage that goes on.
    at: usize,
}

impl Chain {
    /// What comes of `first` after these stages, in their order.
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
                // The stage goes on when it is there.
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

/// What comes from the left, gathered by a stage that looks at all of it.
#[derive(Default)]
pub struct LeftSide(Gathered);

impl LeftSide {
    /// Takes what came; whether it was the end.
    pub fn take_in(&mut self, came: Option<Pull>, run: &mut Run) -> Result<bool, Error> {
        match came {
            Some(Pull::Batch(columns)) => self.0.add(columns, run)?,
            Some(Pull::End) => self.0.end(),
            Some(Pull::Need(_)) | None => {}
        }
        Ok(self.0.is_done())
    }

    /// The series, and their bytes, which the run still holds.
    pub fn take(&mut self) -> (Vec<Column>, u64) {
        self.0.take()
    }
}

/// The right side of an operator, all of which it looks at.
pub struct RightSide {
    from: Option<AnyOperator>,
    gathered: Gathered,
    /// Bytes that the run holds for the operator and for what was gathered.
    held: u64,
}

impl RightSide {
    /// The right side that an operator gives.
    pub fn new(from: AnyOperator) -> Self {
        Self { from: Some(from), gathered: Gathered::default(), held: 0 }
    }

    /// Gathers it, and lets go of its operator; what is needed first.
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

    /// The series, and their bytes, which the run still holds.
    pub fn take(&mut self) -> (Vec<Column>, u64) {
        self.gathered.take()
    }
}

/// What a stage has made and gives away.
pub struct Made {
    outbox: Outbox,
    held: u64,
}

impl Made {
    /// Of what the run holds since `before`, and of `inputs` that are gone, only these series stay.
    pub fn new(columns: Vec<Column>, inputs: u64, before: u64, run: &mut Run) -> Result<Self, Error> {
        run.release(inputs + run.held_bytes().saturating_sub(before));
        let held = columns.iter().map(Column::memory_bytes).sum();
        run.keep(held)?;
        Ok(Self { outbox: Outbox::new(columns), held })
    }

    /// The next of them.
    pub fn next(&mut self, run: &mut Run) -> Pull {
        let next = self.outbox.next();
        if matches!(next, Pull::End) {
            run.release(std::mem::take(&mut self.held));
        }
        next
    }
}

/// An operator between two scalars; the left one is the only series that comes.
pub struct ScalarStage<F> {
    /// The right one.
    pub right: ScalarArg,
    /// What is done.
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

//! The part of a plan that processes each series of one selector independently: a selector, and around it
//! functions over its windows, functions of numbers, and operators with scalars.
//!
//! It runs in jobs of the CPU pool. Each job processes a few series with its own operators, labels and
//! notes; jobs share nothing. Results are merged in the order of the series ([`crate::ops::computed`]).

use std::sync::Arc;

use sandur_query::{Error, SampleSelection, SeriesBatch, SeriesWork};

use crate::ast::{Call, Expr};
use crate::column::{Column, Grid};
use crate::functions::{Kernel, Special};
use crate::ops::computed::FromJobs;
use crate::plan::planner::{Around, Fold, Jobs, Looked, PerSeries, Planner, Wanted};
use crate::run::{AnyOperator, Computed, LeafId, Pull, Run};
use crate::value_type::Type;

/// The most series of a job.
const SERIES_MAX: usize = 256;

impl PerSeries {
    /// The work for an expression at its place in a plan.
    pub(super) fn new(
        expr: &Expr,
        grid: Grid,
        wanted: Wanted<'_>,
        fold: Option<Fold>,
        planner: &Planner<'_>,
    ) -> Self {
        let wanted = wanted.map(|Looked { names, without }| (names.to_vec(), without));
        let around = Around { within: true, ..planner.around };
        let (times, options) = (planner.times, planner.run.options);
        Self { expr: expr.clone(), grid, times, options, wanted, around, fold }
    }

    /// Plans operators whose only selector is the first one of a new run.
    fn plan(&self) -> Result<(AnyOperator, Run), Error> {
        let mut run = Run::new(self.options);
        let (jobs, fold, folded) = (Jobs::default(), None, None);
        let mut planner =
            Planner { times: self.times, run: &mut run, around: self.around, jobs, fold, folded };
        let wanted = self.wanted.as_ref().map(|(names, without)| Looked { names, without: *without });
        let operator = planner.operator(&self.expr, self.grid, wanted)?;
        Ok((operator, run))
    }

    /// The expression.
    pub fn expr(&self) -> &Expr {
        &self.expr
    }

    /// The steps at which the expression is evaluated.
    pub fn grid(&self) -> Grid {
        self.grid
    }

    /// The aggregation around the expression.
    pub fn fold(&self) -> Option<&Fold> {
        self.fold.as_ref()
    }

    /// The selection for storage, and the number of steps of all operators together.
    pub(super) fn selection(&self) -> Result<(SampleSelection, u64), Error> {
        let (_, mut run) = self.plan()?;
        let steps = run.planned_steps;
        match (run.leaves.pop(), run.leaves.is_empty()) {
            (Some(leaf), true) => Ok((leaf.query, steps)),
            _ => Err(Error::Internal(format!("{} has not one selector", self.expr))),
        }
    }
}

impl SeriesWork for PerSeries {
    type Output = Computed;

    fn series_max(&self) -> usize {
        self.grid.batch_series().min(SERIES_MAX)
    }

    fn memory_bytes(&self, series: usize) -> u64 {
        self.grid.batch_bytes() + series as u64 * Column::bytes(self.grid.steps)
    }

    fn run(&self, batch: SeriesBatch) -> Result<Computed, Error> {
        let (mut operator, mut run) = self.plan()?;
        let LeafId(leaf) = LeafId(0);
        run.leaves[leaf].inbox.push_back(batch);
        run.leaves[leaf].is_done = true;
        let (mut columns, mut bytes) = (Vec::new(), 0);
        loop {
            match operator.pull(&mut run)? {
                Pull::End => break,
                Pull::Need(_) => return Err(Error::Internal(format!("{} needs more", self.expr))),
                Pull::Batch(some) => {
                    // The operator has reserved memory for one batch: the last one.
                    run.keep(bytes)?;
                    bytes = some.iter().map(Column::memory_bytes).sum();
                    columns.extend(some);
                }
            }
        }
        let all = columns.iter().map(Column::memory_bytes).sum();
        Ok(run.into_computed(columns, all, operator)?)
    }
}

/// Whether the expression processes each series of one selector independently.
pub(super) fn is_per_series(expr: &Expr) -> bool {
    match expr {
        Expr::Selector(_) => true,
        Expr::Paren(paren) => is_per_series(&paren.inner.0),
        Expr::Unary(unary) => is_per_series(&unary.inner.0),
        Expr::Chain(chain) => one_of(&chain.operands.0, is_per_series),
        Expr::Call(call) => is_call_per_series(call),
        Expr::Number(_) | Expr::String(_) | Expr::Matrix(_) | Expr::Subquery(_) | Expr::Aggregate(_) => false,
    }
}

fn is_call_per_series(call: &Call) -> bool {
    let args = &call.args.0;
    match &call.function.kernel {
        Kernel::Map(_) | Kernel::MapWith(_) | Kernel::OfHistogram(_) | Kernel::Date(_) => {
            one_of(args, is_per_series)
        }
        Kernel::Range(..) => one_of(args, |arg| matches!(arg.unwrapped(), Expr::Matrix(_))),
        Kernel::Special(Special::Timestamp) => {
            args.iter().all(|arg| matches!(arg.unwrapped(), Expr::Selector(_)))
        }
        Kernel::Special(_) => false,
    }
}

/// Whether exactly one expression is not a scalar and it fits, and all scalars are constants.
fn one_of(all: &[Expr], fits: impl Fn(&Expr) -> bool) -> bool {
    let mut vectors = all.iter().filter(|expr| expr.value_type() != Type::Scalar);
    let is_one = matches!((vectors.next(), vectors.next()), (Some(only), None) if fits(only));
    is_one && all.iter().filter(|expr| expr.value_type() == Type::Scalar).all(is_plain_number)
}

/// Whether a scalar is a number, or built from numbers by operators.
fn is_plain_number(expr: &Expr) -> bool {
    match expr {
        Expr::Number(_) => true,
        Expr::Paren(paren) => is_plain_number(&paren.inner.0),
        Expr::Unary(unary) => is_plain_number(&unary.inner.0),
        Expr::Chain(chain) => chain.operands.0.iter().all(is_plain_number),
        _ => false,
    }
}

impl Planner<'_> {
    /// Plans an expression that processes each series independently.
    #[inline(never)]
    pub(super) fn per_series(
        &mut self,
        expr: &Expr,
        grid: Grid,
        wanted: Wanted<'_>,
        fold: Option<Fold>,
    ) -> Result<AnyOperator, Error> {
        let is_folded = fold.is_some();
        let per_series = PerSeries::new(expr, grid, wanted, fold, self);
        let (selection, steps) = per_series.selection()?;
        self.run.planned_steps += steps;
        let leaf = self.run.add_leaf(selection);
        self.jobs.insert(leaf, Arc::new(per_series));
        self.folded = is_folded.then_some(leaf);
        Ok(Box::new(FromJobs::new(leaf)))
    }
}

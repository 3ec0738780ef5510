//! Turns a syntax tree into operators for the steps of one query.
//!
//! The planner resolves everything that depends on the query's times: `@`, offsets, computed durations,
//! `start()` and similar functions, the steps of subqueries. An expression that is the same at all steps is
//! evaluated at one step, and its result is repeated.

use foldhash::{HashMap, HashMapExt, HashSet, HashSetExt};
use sandur_model::MatchOp;
use sandur_query::{Error, SampleSelection};

use crate::ast::{Aggregate, At, Expr, MatrixSelector, Offset, Selector, Subquery, Unary};
use crate::column::{Column, Grid};
use crate::functions::{FUNCTIONS, Kernel, Traits};
use crate::labels::{METRIC_NAME, METRIC_TYPE, Text, TextSet, is_reserved_name};
use crate::lengths;
use crate::ops::aggregate;
use crate::ops::count_values::CountValues;
use crate::ops::grouping::Grouping;
use crate::ops::range_call::{Feed, Input, Windows};
use crate::ops::rank::Rank;
use crate::ops::select::{Select, Take};
use crate::ops::simple::{Broadcast, Each, Map, Ready};
use crate::run::{AnyOperator, Gathered, LeafId, Run, ScalarArg, Scratch};
use crate::text::quote;
use crate::timing::{Extension, Geometry, TIME_MAX, Times, Timing};
use crate::token::Kind;
use crate::value_type::Type;

mod calls;
mod chain;
mod per_series;
mod planner;
mod times;

pub use planner::{Fold, Jobs, PerSeries};

use per_series::is_per_series;
use planner::{Around, Looked, Planner, Wanted};
use times::{is_invariant, repeats};

/// The most steps of a subquery: a month and a half of seconds. A series over this many steps takes 40 MB.
const SUBQUERY_STEPS_MAX: u64 = 4 << 20;

/// Labels that warnings and infos name.
const NOTED: [&str; 2] = [METRIC_NAME, METRIC_TYPE];

/// The plan of a query, by the kind of its value.
pub enum Plan {
    /// Series over the steps; of a scalar, one series without labels.
    Series(AnyOperator),
    /// Series with samples at their own timestamps: a range vector.
    Windows(Box<Windows>),
    /// A string.
    Text(String),
}

/// Plans a query. Also returns the jobs of those selectors whose series are computed independently.
pub fn plan(expr: &Expr, times: Times, run: &mut Run) -> Result<(Plan, Jobs), Error> {
    let named = run.options.named(times);
    if [times.start, times.end, named.start, named.end]
        .iter()
        .any(|time| time.unsigned_abs() > TIME_MAX.unsigned_abs())
    {
        return Err(Error::Invalid(format!("times are at most {TIME_MAX} ms from 1970")));
    }
    let (steps, limit) = (times.grid().steps as u64, run.options.points_max);
    if steps > limit {
        return Err(Error::Limit(format!(
            "exceeded maximum resolution of {limit} points per timeseries: the query has {steps}; use a \
             longer step or a shorter range"
        )));
    }
    let (around, jobs) = (Around::at(times), Jobs::default());
    let mut planner = Planner { times: named, run, around, jobs, fold: None, folded: None };
    let grid = times.grid();
    let whole = expr.unwrapped();
    let plan = match whole {
        Expr::String(string) => Plan::Text(string.value.clone()),
        Expr::Matrix(_) | Expr::Subquery(_) => {
            let (input, geometry) = planner.input(whole, grid, None, "", None)?;
            Plan::Windows(Box::new(Windows { feed: Feed::new(input, None), at: grid.start, geometry }))
        }
        _ => Plan::Series(planner.operator(whole, grid, None)?),
    };
    Ok((plan, planner.jobs))
}

impl Planner<'_> {
    /// Plans an expression that is a scalar or a vector.
    fn operator(&mut self, expr: &Expr, grid: Grid, wanted: Wanted<'_>) -> Result<AnyOperator, Error> {
        let fold = self.fold.take();
        if grid.steps == 0 {
            return Ok(Box::new(Ready(None)));
        }
        if grid.steps > 1 && repeats(expr) && is_invariant(expr, self.times) {
            let inner = self.operator(expr, grid.first_only(), wanted)?;
            return Ok(Box::new(Broadcast::new(inner, grid)));
        }
        if !self.around.within && is_per_series(expr) {
            return self.per_series(expr, grid, wanted, fold);
        }
        self.run.planned_steps += grid.steps as u64;
        match expr {
            Expr::Number(number) => self.constant(number.value, grid),
            Expr::Paren(paren) => self.operator(&paren.inner.0, grid, wanted),
            Expr::Unary(unary) => self.unary(unary, grid, wanted),
            Expr::Selector(selector) => self.selector(selector, grid, Take::Value, wanted),
            Expr::Chain(chain) => self.chain(chain, grid, wanted),
            Expr::Aggregate(aggregate) => self.aggregate(aggregate, grid),
            Expr::Call(call) => self.call(call, grid, wanted),
            // The type check ruled these out.
            Expr::String(_) | Expr::Matrix(_) | Expr::Subquery(_) => {
                Err(Error::Internal(format!("{expr} is no vector")))
            }
        }
    }

    /// Plans a vector of which only the presence of samples matters.
    fn presence(&mut self, expr: &Expr, grid: Grid, wanted: Wanted<'_>) -> Result<AnyOperator, Error> {
        self.around.presence =
            matches!(expr.unwrapped(), Expr::Selector(of) if of.extension == Extension::None);
        let planned = self.operator(expr, grid, wanted);
        self.around.presence = false;
        planned
    }

    fn scalar(&mut self, expr: &Expr, grid: Grid) -> Result<ScalarArg, Error> {
        Ok(ScalarArg::new(self.operator(expr, grid, None)?))
    }

    fn unary(&mut self, unary: &Unary, grid: Grid, wanted: Wanted<'_>) -> Result<AnyOperator, Error> {
        let inner = self.operator(&unary.inner.0, grid, wanted)?;
        if !unary.negate {
            return Ok(inner);
        }
        Ok(Box::new(Map { inner, each: Each::Negate, grid, scratch: Scratch::default() }))
    }

    /// Adds a selector to the query.
    fn leaf(
        &mut self,
        selector: &Selector,
        (first_ms, last_ms): (i64, i64),
        grid: Grid,
        (range_ms, function): (i64, &'static str),
        wanted: Wanted<'_>,
    ) -> LeafId {
        let selection = SampleSelection {
            matchers: selector.matchers.clone(),
            first_ms,
            last_ms,
            labels: wanted.filter(|looked| !looked.without).map(|looked| looked.names.to_vec()),
            range_ms,
            step_ms: if grid.steps > 1 { grid.interval } else { 0 },
            function,
            starts: self.run.options.use_starts,
            statistics_only: self.around.statistics && !self.around.needs_buckets,
            presence_only: self.around.presence,
        };
        self.run.add_leaf(selection)
    }

    fn wanted(&mut self, wanted: Wanted<'_>) -> Option<TextSet> {
        wanted.map(|Looked { names, without }| {
            let mut texts: Vec<Text> = names.iter().map(|name| self.run.pool.text_id(name)).collect();
            if without {
                // Warnings and infos name these.
                texts.retain(|name| !matches!(*name, Text::NAME | Text::TYPE));
            }
            let texts = TextSet::from_iter(texts);
            if without { texts.except() } else { texts }
        })
    }

    fn timing(&self, at: Option<At>, offset: &Offset) -> Result<Timing, Error> {
        times::timing(at, offset, self.times)
    }

    fn selector(
        &mut self,
        selector: &Selector,
        grid: Grid,
        take: Take,
        wanted: Wanted<'_>,
    ) -> Result<AnyOperator, Error> {
        let timing = self.timing(selector.at, &selector.offset)?;
        let lookback = self.run.options.lookback_ms;
        let smoothed = selector.extension == Extension::Smoothed;
        let (first, last) = (timing.reference(grid.start), timing.reference(grid.last()));
        let last = if smoothed { last.saturating_add(lookback) } else { last };
        let times = (first.saturating_sub(lookback).saturating_add(1), last);
        let leaf = self.leaf(selector, times, grid, (0, ""), wanted);
        let wanted = self.wanted(wanted);
        let mut select = Select::new(leaf, grid, (timing, lookback), take, wanted, selector.span);
        select.smoothed = smoothed;
        Ok(Box::new(select))
    }

    /// Plans the input of a function over windows.
    fn input(
        &mut self,
        expr: &Expr,
        grid: Grid,
        wanted: Wanted<'_>,
        function: &'static str,
        traits: Option<Traits>,
    ) -> Result<(Input, Geometry), Error> {
        match expr {
            Expr::Matrix(matrix) => self.matrix(matrix, grid, wanted, (function, traits)),
            Expr::Subquery(subquery) => self.subquery(subquery, grid, wanted),
            _ => Err(Error::Internal(format!("{expr} is no range"))),
        }
    }

    fn matrix(
        &mut self,
        matrix: &MatrixSelector,
        grid: Grid,
        wanted: Wanted<'_>,
        (function, traits): (&'static str, Option<Traits>),
    ) -> Result<(Input, Geometry), Error> {
        let selector = &matrix.selector;
        if let Some(Traits { anchored, smoothed, .. }) = traits {
            let (fits, word) = match selector.extension {
                Extension::None => (true, ""),
                Extension::Anchored => (anchored, "anchored"),
                Extension::Smoothed => (smoothed, "smoothed"),
            };
            if !fits {
                return Err(cannot_extend(word, function));
            }
        }
        let timing = self.timing(selector.at, &selector.offset)?;
        let range = lengths::length_ms(&matrix.range, self.times)?;
        let lookback = self.run.options.lookback_ms;
        let geometry = Geometry { timing, range, lookback, extension: selector.extension };
        let first = geometry.bounds(timing.reference(grid.start)).0.saturating_add(1);
        let last = geometry.bounds(timing.reference(grid.last())).1;
        let is_plain = selector.extension == Extension::None;
        self.around.presence = is_plain && traits.is_some_and(|traits| traits.presence);
        let leaf = self.leaf(selector, (first, last), grid, (range, function), wanted);
        self.around.presence = false;
        Ok((Input::Leaf(leaf), geometry))
    }

    fn subquery(
        &mut self,
        subquery: &Subquery,
        grid: Grid,
        wanted: Wanted<'_>,
    ) -> Result<(Input, Geometry), Error> {
        let timing = self.timing(subquery.at, &subquery.offset)?;
        let range = lengths::length_ms(&subquery.range, self.times)?;
        let interval = match &subquery.step {
            Some(step) => lengths::length_ms(step, self.times)?,
            None => self.run.options.subquery_step_ms,
        };
        let interval = interval.max(1);
        let after = timing.reference(grid.start).saturating_sub(range);
        let end = timing.reference(grid.last());
        // The first multiple of the step in the first window.
        let mut start = interval.saturating_mul(after / interval);
        if start <= after {
            start = start.saturating_add(interval);
        }
        let steps = if end < start { 0 } else { end.saturating_sub(start) / interval + 1 };
        let steps = usize::try_from(steps).unwrap_or(0);
        let limit = self.run.options.samples_max.min(SUBQUERY_STEPS_MAX);
        if steps as u64 > limit {
            return Err(Error::Limit(format!(
                "the subquery has {steps} steps, at most {limit}; use a longer step or a shorter range"
            )));
        }
        let inner_grid = Grid { start, interval, steps };
        // Counter resets between samples of a subquery are detected by buckets.
        let inner_end = timing.reference(self.around.end);
        let inside = Around { needs_buckets: true, grid: inner_grid, end: inner_end, ..self.around };
        let around = std::mem::replace(&mut self.around, inside);
        let inner = self.operator(&subquery.inner.0, inner_grid, wanted);
        self.around = around;
        let inner = inner?;
        let geometry = Geometry { timing, range, lookback: 0, extension: Extension::None };
        Ok((Input::Subquery(inner, inner_grid), geometry))
    }

    fn aggregate(&mut self, aggregate: &Aggregate, grid: Grid) -> Result<AnyOperator, Error> {
        let Aggregate { op, grouping, without, span, .. } = aggregate;
        let (inner, param) = (aggregate.inner().unwrapped(), aggregate.param().map(Expr::unwrapped));
        let mut names = grouping.clone();
        if *op == Kind::CountValues {
            let Some(Expr::String(label)) = param else {
                return Err(Error::Internal("count_values without a label".to_owned()));
            };
            if label.value.is_empty() || label.bytes.is_some() {
                return Err(Error::Invalid(format!("invalid label name {label}")));
            }
            if !without {
                names.push(label.value.clone());
            }
            let around = std::mem::replace(&mut self.around.needs_buckets, true);
            let inner = self.operator(inner, grid, None);
            self.around.needs_buckets = around;
            let inner = inner?;
            let keeps_label = !without || !is_reserved_name(&label.value) && !names.contains(&label.value);
            let label = self.run.pool.text_id(&label.value);
            let by = self.grouping(&names, *without);
            return Ok(Box::new(CountValues::new(inner, label, keeps_label, by, grid)));
        }
        let ranks = matches!(op, Kind::Topk | Kind::Bottomk | Kind::Limitk | Kind::LimitRatio);
        let by = self.grouping(&names, *without);
        let param = match param {
            Some(param) => Some((self.scalar(param, grid)?, param.span())),
            None => None,
        };
        if ranks {
            let Some((param, param_span)) = param else {
                return Err(Error::Internal(format!("{} without a parameter", op.text())));
            };
            let inner = self.operator(inner, grid, None)?;
            let (op, gathered) = (*op, Gathered::default());
            let rank = Rank {
                inner,
                gathered,
                op,
                param,
                param_span,
                grouping: by,
                grid,
                span: *span,
                outbox: None,
            };
            return Ok(Box::new(rank));
        }
        names.extend(NOTED.map(str::to_owned).into_iter().filter(|_| !without));
        let wanted = Looked { names: &names, without: *without };
        let inner_span = inner.span();
        let fold = Fold { op: *op, names: grouping.clone(), without: *without, span: inner_span };
        (self.fold, self.folded) = (aggregate::merges(*op).then_some(fold), None);
        let inner = match op {
            Kind::Count | Kind::Group => self.presence(inner, grid, Some(wanted))?,
            _ => self.operator(inner, grid, Some(wanted))?,
        };
        let folded = self.folded.take();
        Ok(Box::new(aggregate::Aggregate::new(inner, *op, param, by, grid, (inner_span, folded))))
    }

    fn grouping(&mut self, names: &[String], without: bool) -> Grouping {
        Grouping::new(names.iter().map(|name| self.run.pool.text_id(name)).collect(), without)
    }
}

/// The labels of a selector's equality matchers, which are the labels of `absent`'s result.
fn absent_labels(expr: &Expr) -> Vec<(String, String)> {
    let selector = match expr {
        Expr::Selector(selector) => &**selector,
        Expr::Matrix(matrix) => &matrix.selector,
        _ => return Vec::new(),
    };
    // A label has the value of its first equality matcher, and is left out if any other matcher on it
    // follows.
    let (mut known, mut seen) = (HashMap::new(), HashSet::new());
    for matcher in selector.matchers.iter().filter(|matcher| !is_reserved_name(matcher.name())) {
        match matcher.op() == MatchOp::Equal && seen.insert(matcher.name()) {
            true => _ = known.insert(matcher.name(), matcher.value()),
            false => _ = known.remove(matcher.name()),
        }
    }
    known.into_iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
}

/// The value of a string argument.
fn text_of(expr: &Expr) -> Result<&str, Error> {
    match expr.unwrapped() {
        Expr::String(string) => Ok(&string.value),
        _ => Err(Error::Internal(format!("{} is no string", quote(&expr.to_string())))),
    }
}

/// Whether an argument is valid as a label name.
fn is_label_name(expr: &Expr) -> bool {
    match expr.unwrapped() {
        Expr::String(string) => !string.value.is_empty() && string.bytes.is_none(),
        _ => false,
    }
}

/// The error for a function over windows that does not support a modifier of the window.
fn cannot_extend(word: &str, function: &str) -> Error {
    let fits = |traits: &Traits| if word == "anchored" { traits.anchored } else { traits.smoothed };
    let can = |kernel: &Kernel| matches!(kernel, Kernel::Range(_, traits) if fits(traits));
    let names: Vec<&str> = FUNCTIONS.iter().filter(|f| can(&f.kernel)).map(|f| f.name).collect();
    let names = names.join(", ");
    Error::Invalid(format!("{word} modifier can only be used with: {names} - not with {function}"))
}

/// A series without samples.
fn empty_series(grid: Grid) -> Column {
    Column::empty(crate::labels::LabelsId::EMPTY, false, grid.steps)
}

/// Whether an expression is a vector.
fn is_vector(expr: &Expr) -> bool {
    expr.value_type() == Type::Vector
}

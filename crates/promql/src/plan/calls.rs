//! Plans function calls.

use sandur_query::Error;

use crate::ast::{Call, Expr};
use crate::column::Grid;
use crate::functions::window::RangeFn;
use crate::functions::{Kernel, PRESENT, Special, Traits, math, over_time};
use crate::labels::METRIC_NAME;
use crate::ops::histogram::{Histograms, Question};
use crate::ops::info::Info;
use crate::ops::range_call::{Feed, RangeCall};
use crate::ops::relabel::{Change, Relabel, compile};
use crate::ops::select::Take;
use crate::ops::simple::{Absent, Each, Map, Nothing, ScalarOf, ScalarPair, Sort, SortBy, scalar};
use crate::places::KnownPlaces;
use crate::plan::planner::{Looked, Planner, Wanted};
use crate::plan::times::{info_timing, is_invariant};
use crate::plan::{NOTED, absent_labels, empty_series, is_label_name, text_of};
use crate::run::{AnyOperator, BatchMemory, Gathered, ScalarArg, Scratch};
use crate::span::Span;
use crate::timing::Extension;

impl Planner<'_> {
    pub(super) fn call(&mut self, call: &Call, grid: Grid, wanted: Wanted<'_>) -> Result<AnyOperator, Error> {
        let around = (self.around.statistics, self.around.needs_buckets);
        match call.function.name {
            "histogram_count" | "histogram_sum" | "histogram_avg" | "timestamp" | "start_timestamp"
            | "absent" => self.around.statistics = true,
            "histogram_quantile"
            | "histogram_quantiles"
            | "histogram_fraction"
            | "histogram_stddev"
            | "histogram_stdvar"
            | "changes" => self.around.needs_buckets = true,
            _ => {}
        }
        let planned = self.kernel(call, grid, wanted);
        (self.around.statistics, self.around.needs_buckets) = around;
        planned
    }

    fn kernel(&mut self, call: &Call, grid: Grid, wanted: Wanted<'_>) -> Result<AnyOperator, Error> {
        let args = &call.args.0;
        match &call.function.kernel {
            Kernel::Map(f) => self.map(&args[0], Each::Float(*f), grid, wanted),
            Kernel::OfHistogram(f) => self.map(&args[0], Each::Histogram(*f), grid, wanted),
            Kernel::MapWith(f) => {
                let scalars = self.scalars(&args[1..], grid)?;
                self.map(&args[0], Each::With(*f, scalars), grid, wanted)
            }
            Kernel::Date(f) => match args.first() {
                Some(arg) => self.map(arg, Each::Date(*f), grid, wanted),
                None => {
                    let inner = self.time(grid)?;
                    Ok(Box::new(Map { inner, each: Each::Date(*f), grid, scratch: Scratch::default() }))
                }
            },
            Kernel::Range(f, traits) => self.range_call(call, (*f, *traits), grid, wanted),
            Kernel::Special(special) => self.special(*special, call, grid, wanted),
        }
    }

    #[inline(never)]
    fn map(&mut self, arg: &Expr, each: Each, grid: Grid, wanted: Wanted<'_>) -> Result<AnyOperator, Error> {
        let inner = self.operator(arg, grid, wanted)?;
        Ok(Box::new(Map { inner, each, grid, scratch: Scratch::default() }))
    }

    fn scalars(&mut self, args: &[Expr], grid: Grid) -> Result<Vec<ScalarArg>, Error> {
        args.iter().map(|arg| self.scalar(arg, grid)).collect()
    }

    fn time(&mut self, grid: Grid) -> Result<AnyOperator, Error> {
        self.run.keep(grid.steps as u64 * 8)?;
        Ok(scalar((0..grid.steps).map(|step| grid.time(step) as f64 / 1000.0).collect()))
    }

    /// A scalar with the same value at all steps.
    pub(super) fn constant(&mut self, value: f64, grid: Grid) -> Result<AnyOperator, Error> {
        self.run.keep(grid.steps as u64 * 8)?;
        Ok(scalar(vec![value; grid.steps]))
    }

    #[inline(never)]
    fn range_call(
        &mut self,
        call: &Call,
        (function, traits): (RangeFn, Traits),
        grid: Grid,
        wanted: Wanted<'_>,
    ) -> Result<AnyOperator, Error> {
        let args = &call.args.0;
        let is_range = |arg: &&Expr| matches!(arg.unwrapped(), Expr::Matrix(_) | Expr::Subquery(_));
        let Some(place) = args.iter().position(|arg| is_range(&arg)) else {
            return Err(Error::Internal(format!("{} without a range", call.function.name)));
        };
        let mut scalars = Vec::new();
        for (n, arg) in args.iter().enumerate() {
            if n != place {
                scalars.push(self.scalar(arg, grid)?);
            }
        }
        let range = args[place].unwrapped();
        let (input, geometry) = self.input(range, grid, wanted, call.function.name, Some(traits))?;
        let wanted = self.wanted(wanted);
        let argument = match args[0].unwrapped() {
            // Prometheus reports no place for samples of a subquery.
            Expr::Subquery(_) => Span::default(),
            other => other.span(),
        };
        let parameter = args[args.len() - 1].unwrapped().span();
        let (feed, args, scratch) = (Feed::new(input, wanted), scalars, Scratch::default());
        let whole = traits.whole.filter(|_| geometry.extension == Extension::None);
        let whole = whole.map(|whole| (whole, KnownPlaces::new(grid, geometry, whole.extrapolates)));
        let memory = BatchMemory::default();
        Ok(Box::new(RangeCall {
            feed,
            grid,
            geometry,
            function,
            traits,
            whole,
            args,
            argument,
            parameter,
            memory,
            scratch,
        }))
    }

    fn special(
        &mut self,
        special: Special,
        call: &Call,
        grid: Grid,
        wanted: Wanted<'_>,
    ) -> Result<AnyOperator, Error> {
        let args = &call.args.0;
        match special {
            Special::Time => self.time(grid),
            Special::Pi => self.constant(std::f64::consts::PI, grid),
            Special::Context => self.constant(self.context(call.function.name), grid),
            Special::Vector => self.operator(&args[0], grid, wanted),
            Special::Scalar => self.scalar_of(&args[0], grid),
            Special::MaxOf => self.scalar_pair(args, math::max, grid),
            Special::MinOf => self.scalar_pair(args, math::min, grid),
            Special::Absent => {
                let names = NOTED.map(str::to_owned);
                let wanted = Looked { names: &names, without: false };
                let inner = self.presence(&args[0], grid, Some(wanted))?;
                self.absent(inner, &args[0], grid, false)
            }
            Special::AbsentOverTime => {
                let names = NOTED.map(str::to_owned);
                let wanted = match args[0].unwrapped() {
                    Expr::Subquery(_) => Looked { names: &names, without: false },
                    _ => Looked::NONE,
                };
                let inner = self.range_call(call, (over_time::present, PRESENT), grid, Some(wanted))?;
                self.absent(inner, &args[0], grid, true)
            }
            Special::Sort { descending } => self.sort(call, SortBy::Value, descending, grid),
            Special::SortByLabel { descending } => self.sort_by_labels(call, descending, grid),
            Special::Timestamp => match args[0].unwrapped() {
                Expr::Selector(selector) => self.selector(selector, grid, Take::Time, wanted),
                other => self.times_of(other, grid, wanted),
            },
            Special::StartTimestamp => match args[0].unwrapped() {
                Expr::Selector(selector) if self.run.options.use_starts => {
                    self.selector(selector, grid, Take::Start, wanted)
                }
                other => Ok(Box::new(Nothing { inner: self.operator(other, grid, None)? })),
            },
            Special::LabelReplace | Special::LabelJoin => self.relabel(special, call, grid),
            Special::HistogramQuantile => self.histograms(call, Question::Quantile, (1, 0..1), grid),
            Special::HistogramFraction => self.histograms(call, Question::Fraction, (2, 0..2), grid),
            Special::HistogramQuantiles => self.histogram_quantiles(call, grid),
            Special::Info => self.info(call, grid),
        }
    }

    // Calls may nest as deep as a query may. These functions are not inlined, so that their variables take
    // no stack at each level of the recursion.

    #[inline(never)]
    fn scalar_of(&mut self, arg: &Expr, grid: Grid) -> Result<AnyOperator, Error> {
        let inner = self.operator(arg, grid, None)?;
        self.run.keep(grid.steps as u64 * 16)?;
        Ok(Box::new(ScalarOf { inner, found: vec![(0, 0.0); grid.steps], is_done: false }))
    }

    #[inline(never)]
    fn scalar_pair(
        &mut self,
        args: &[Expr],
        f: fn(f64, f64) -> f64,
        grid: Grid,
    ) -> Result<AnyOperator, Error> {
        let args = self.scalars(args, grid)?;
        Ok(Box::new(ScalarPair { args, f: Box::new(f), grid, is_done: false }))
    }

    #[inline(never)]
    fn times_of(&mut self, arg: &Expr, grid: Grid, wanted: Wanted<'_>) -> Result<AnyOperator, Error> {
        let inner = self.operator(arg, grid, wanted)?;
        let time = ScalarArg::new(self.time(grid)?);
        Ok(Box::new(TimesOf { inner, time, grid }))
    }

    #[inline(never)]
    fn sort_by_labels(&mut self, call: &Call, descending: bool, grid: Grid) -> Result<AnyOperator, Error> {
        let names = call.args.0[1..].iter().map(|arg| text_of(arg).map(str::to_owned));
        let names = names.collect::<Result<Vec<_>, _>>()?;
        self.sort(call, SortBy::Labels(names), descending, grid)
    }

    #[inline(never)]
    fn histogram_quantiles(&mut self, call: &Call, grid: Grid) -> Result<AnyOperator, Error> {
        let label = text_of(&call.args.0[1])?.to_owned();
        self.histograms(call, Question::Quantiles(label), (0, 2..call.args.0.len()), grid)
    }

    /// The value of `start()`, `end()`, `step()` or `range()`, in seconds.
    fn context(&self, name: &str) -> f64 {
        let times = self.times;
        let ms = match name {
            "start" => times.start,
            "end" => times.end,
            "range" => times.end - times.start,
            _ if times.start == times.end => 0,
            _ => times.step,
        };
        ms as f64 / 1000.0
    }

    #[inline(never)]
    fn absent(
        &mut self,
        inner: AnyOperator,
        arg: &Expr,
        grid: Grid,
        drop_name: bool,
    ) -> Result<AnyOperator, Error> {
        let (labels, seen) = (absent_labels(arg.unwrapped()), empty_series(grid));
        Ok(Box::new(Absent { inner, labels, seen, is_done: false, drop_name }))
    }

    #[inline(never)]
    fn sort(&mut self, call: &Call, by: SortBy, descending: bool, grid: Grid) -> Result<AnyOperator, Error> {
        let arg = &call.args.0[0];
        let inner = self.operator(arg, grid, None)?;
        // A range query may be too short for a second step.
        let is_short_range = grid == self.around.grid
            && grid.steps == 1
            && grid.start != self.around.end
            && !is_invariant(arg, self.times);
        let (gathered, span) = (Gathered::default(), call.span);
        let is_range = grid.steps > 1 || is_short_range;
        Ok(Box::new(Sort { inner, gathered, by, descending, is_range, outbox: None, span }))
    }

    #[inline(never)]
    fn relabel(&mut self, special: Special, call: &Call, grid: Grid) -> Result<AnyOperator, Error> {
        let change = relabeling(special, call)?;
        self.run.has_expensive_steps = true;
        let inner = self.operator(&call.args.0[0], grid, None)?;
        Ok(Box::new(Relabel { inner, gathered: Gathered::default(), change, outbox: None }))
    }

    #[inline(never)]
    fn histograms(
        &mut self,
        call: &Call,
        question: Question,
        (vector, scalars): (usize, std::ops::Range<usize>),
        grid: Grid,
    ) -> Result<AnyOperator, Error> {
        let args = &call.args.0;
        let arg_spans = args[scalars.clone()].iter().map(|arg| arg.unwrapped().span()).collect();
        let scalars = self.scalars(&args[scalars], grid)?;
        let inner = self.operator(&args[vector], grid, None)?;
        Ok(Box::new(Histograms {
            inner,
            gathered: Gathered::default(),
            question,
            args: scalars,
            arg_spans,
            grid,
            span: args[vector].unwrapped().span(),
            outbox: None,
        }))
    }

    #[inline(never)]
    fn info(&mut self, call: &Call, grid: Grid) -> Result<AnyOperator, Error> {
        let args = &call.args.0;
        let timing = info_timing(&args[0], self.times)?;
        let inner = self.operator(&args[0], grid, None)?;
        let mut names = Vec::new();
        let mut data = Vec::new();
        if let Some(Expr::Selector(labels)) = args.get(1) {
            let (of_name, of_data) = labels.matchers.iter().cloned().partition(|m| m.name() == METRIC_NAME);
            (names, data) = (of_name, of_data);
        }
        let gathered = Gathered::default();
        let span = call.span;
        Ok(Box::new(Info { inner, gathered, infos: None, names, data, timing, grid, span, outbox: None }))
    }
}

/// The label change of `label_replace` or `label_join`. Not inlined, so that its variables take no stack at
/// each level of nested calls.
#[inline(never)]
fn relabeling(special: Special, call: &Call) -> Result<Change, Error> {
    let args = &call.args.0;
    let name = call.function.name;
    let text = |n: usize| text_of(&args[n]).map(str::to_owned);
    let target = text(1)?;
    let invalid = |what: &str, label: &str| {
        Err(Error::Invalid(format!("invalid {what} label name in {name}(): {label}")))
    };
    let change = if special == Special::LabelReplace {
        let regex = compile(&text(4)?)?;
        Change::Replace { target: target.clone(), replacement: text(2)?, source: text(3)?, regex }
    } else {
        let sources: Result<Vec<String>, Error> = (3..args.len()).map(text).collect();
        if let Some(wrong) = args[3..].iter().find(|arg| !is_label_name(arg)) {
            return invalid("source", text_of(wrong)?);
        }
        Change::Join { target: target.clone(), separator: text(2)?, sources: sources? }
    };
    if !is_label_name(&args[1]) {
        return invalid("destination", &target);
    }
    Ok(change)
}

/// Replaces samples with the time of their step.
struct TimesOf {
    inner: AnyOperator,
    time: ScalarArg,
    grid: Grid,
}

impl crate::run::Operator for TimesOf {
    fn pull(&mut self, run: &mut crate::run::Run) -> Result<crate::run::Pull, Error> {
        use crate::run::Pull;
        if let Some(leaf) = self.time.ready(run, &self.grid)? {
            return Ok(Pull::Need(leaf));
        }
        let mut columns = match self.inner.pull(run)? {
            Pull::Batch(columns) => columns,
            other => return Ok(other),
        };
        for column in &mut columns {
            sandur_memory::job::spend(self.grid.steps)?;
            column.histograms = None;
            column.drop_name = true;
            column.values.copy_from_slice(self.time.values());
        }
        Ok(Pull::Batch(columns))
    }
}

#[cfg(test)]
mod tests {
    use crate::plan::plan;
    use crate::run::{Options, Run};
    use crate::timing::Times;

    #[test]
    fn functions_that_search_labels_never_run_on_io_threads() {
        let is_expensive = |query: &str| {
            let (expr, mut run) = (crate::parser::parse(query).unwrap(), Run::new(Options::default()));
            plan(&expr, Times { start: 0, end: 0, step: 0 }, &mut run).unwrap();
            run.has_expensive_steps
        };
        assert!(is_expensive(r#"sum(label_replace(up, "a", "$1", "b", "(.*)"))"#));
        assert!(is_expensive(r#"label_join(up, "a", ",", "b", "c") > 0"#));
        assert!(!is_expensive("sum by (a) (rate(up[5m]))"));
    }

    #[test]
    fn operators_that_need_buckets_read_them_below_histogram_count() {
        let skips = |query: &str| {
            let (expr, mut run) = (crate::parser::parse(query).unwrap(), Run::new(Options::default()));
            plan(&expr, Times { start: 0, end: 0, step: 0 }, &mut run).unwrap();
            run.leaves.iter().map(|leaf| leaf.query.statistics_only).collect::<Vec<_>>()
        };
        for query in [
            "histogram_count(a)",
            "histogram_sum(rate(a[5m]))",
            "histogram_avg(a)",
            "timestamp(a + a)",
            "absent(a * 2)",
        ] {
            assert!(skips(query).iter().all(|skips| *skips), "{query}");
        }
        for query in [
            "a",
            "histogram_count(a == b)",
            "histogram_sum(a != b)",
            "histogram_count(a >/ 2)",
            "histogram_count(changes(a[5m]))",
            "histogram_count(count_values(\"v\", a))",
            "histogram_count(histogram_stddev(a))",
            "histogram_count(histogram_quantile(0.5, a))",
            "histogram_count(last_over_time(a[5m:1m]))",
            "absent(a == b)",
        ] {
            assert!(!skips(query).iter().any(|skips| *skips), "{query}");
        }
        assert_eq!(skips("histogram_count(a and histogram_stdvar(b) > 1)"), [true, false]);
    }
}

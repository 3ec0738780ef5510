//! Evaluates metric expressions over all steps at once, from the leaves to the root.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use sandur_base::BoxFuture;
use sandur_memory::Reservation;
use sandur_memory::job::spend;
use sandur_model::go_text::labels_text;
use sandur_model::{BoundedRegex, Limits, group_span};
use sandur_query::{
    Error, HeldSeries, LogSource, QueryContext, QueryResult, QueryStats, Sample, StepEvaluator, StepTimes,
    Windows, over_steps,
};

use crate::admission;
use crate::ast::{LabelReplace, Link, MetricExpr, RangeAggregation, VectorAggregation};
use crate::binary;
use crate::go_regex::expand;
use crate::grouping::Grouping;
use crate::matrix::{Labels, Matrix, Series};
use crate::range::slots::is_absent;
use crate::range_groups::RangeGroups;
use crate::range_scan::{self, RangeScan};
use crate::request::Steps;
use crate::vector;

/// The longest label value that `label_replace` may make, in bytes.
const REPLACED_BYTES_MAX: usize = 64 << 10;
const REPLACED_TOO_LONG: &str =
    "label_replace makes a label of more than 65536 bytes; use fewer groups in the replacement";

/// The work of a label of a series.
const SERIES_UNITS: usize = 100;
/// Matrices of up to this many values are processed in place, because a job on the CPU pool costs more.
const FEW_VALUES: usize = 4_096;

/// The advice for too many series, in Loki's words.
const NARROW_IT: &str = "consider reducing query cardinality by adding more specific stream selectors, \
    reducing the time range, or aggregating results with functions like sum(), count() or topk()";

/// The source, the context and the steps of an evaluation.
#[derive(Clone, Copy)]
pub struct Evaluation<'a> {
    /// The source of rows.
    pub source: &'a dyn LogSource,
    /// The query's limits and budgets.
    pub context: &'a QueryContext,
    /// The steps.
    pub steps: Steps,
    /// The groups of the range aggregations in the order of [`ranges`], if other processes have read them.
    pub joined: Option<&'a Mutex<VecDeque<RangeGroups>>>,
}

/// A range aggregation of an expression, and the grouping of a surrounding `sum` that it takes over.
pub type Range<'a> = (&'a RangeAggregation, Option<Grouping>);

/// The range aggregation that an expression is. A sum of counts is the count of the larger group, so the
/// smaller groups are never built.
fn range_of(expr: &MetricExpr) -> Option<Range<'_>> {
    match expr {
        MetricExpr::Range(range) => Some((range, None)),
        MetricExpr::Vector(aggregation) => match &aggregation.inner {
            MetricExpr::Range(range)
                if aggregation.function.name == "sum" && range.function.sums && range.grouping.is_none() =>
            {
                let all = || Grouping { without: false, labels: Vec::new() };
                Some((range, Some(aggregation.grouping.clone().unwrap_or_else(all))))
            }
            _ => None,
        },
        MetricExpr::Literal(_)
        | MetricExpr::VectorOf(_)
        | MetricExpr::Chain(_)
        | MetricExpr::LabelReplace(_) => None,
    }
}

/// The range aggregations of an expression, in the order in which they are evaluated.
pub fn ranges(expr: &MetricExpr) -> Vec<Range<'_>> {
    let (mut tasks, mut found) = (vec![Task::Evaluate(expr)], Vec::new());
    while let Some(task) = tasks.pop() {
        if let Task::Evaluate(expr) = task {
            match range_of(expr) {
                Some(range) => found.push(range),
                None => plan(expr, &mut tasks),
            }
        }
    }
    found
}

impl Steps {
    /// The windows of a range aggregation at these steps.
    pub fn windows(&self, range: &RangeAggregation) -> Windows {
        Windows::new(self.first_ns, self.last_ns, self.step_ns, range.range_ns, range.offset_ns)
    }
}

/// A matrix and its memory reservation.
struct HeldMatrix {
    matrix: Matrix,
    memory: Reservation,
}

impl Evaluation<'_> {
    /// Answers a metric query.
    pub async fn answer(&self, expr: &MetricExpr, limits: &Limits) -> Result<QueryResult, Error> {
        let steps = self.steps;
        if !steps.instant && contains(expr, "approx_topk") {
            return Err(Error::Invalid("approx_topk is only supported on instant queries".to_owned()));
        }
        if let (MetricExpr::Literal(value), true) = (expr, steps.instant) {
            return Ok(QueryResult::Scalar(Sample { timestamp_ms: steps.timestamp_ms(0), value: *value }));
        }
        let HeldSeries { mut series, memory: _memory } = match self.joined {
            Some(_) => self.all_series(expr, limits).await?,
            None if steps.instant => self.piece(expr, limits, (steps.first_ns, steps.last_ns)).await?,
            None => self.over_steps(expr, limits).await?,
        };
        if self.spans_intervals(limits.split_queries_by_interval) {
            let pairs = |s: &sandur_query::Series| labels_text(s.labels.iter().map(|(n, v)| (&**n, &**v)));
            series.sort_by_cached_key(pairs);
        }
        if let Some((most, reached)) = self.too_many(series.len(), limits)? {
            self.context.warn(format!("{reached}; returning partial results"));
            series.truncate(most);
        }
        Ok(if steps.instant { QueryResult::Vector(series) } else { QueryResult::Matrix(series) })
    }

    /// The series of a range query; steps in the step cache are taken from there.
    async fn over_steps(&self, expr: &MetricExpr, limits: &Limits) -> Result<HeldSeries, Error> {
        let Steps { first_ns, last_ns, step_ns, .. } = self.steps;
        let times = StepTimes { first_ns, last_ns, step_ns };
        let query = MetricSteps { evaluation: self, expr, limits };
        over_steps(self.source, self.context, times, limits.split_queries_by_interval, &query).await
    }

    /// Whether Loki would split the query into several intervals, which changes the order of series.
    fn spans_intervals(&self, split_ns: i64) -> bool {
        let Steps { first_ns, last_ns, step_ns, instant } = self.steps;
        let interval_ns = split_ns.max(step_ns);
        !instant && split_ns > 0 && first_ns.div_euclid(interval_ns) != last_ns.div_euclid(interval_ns)
    }

    /// Evaluates the steps between two instants, both inclusive, in the tenant's turn.
    pub async fn piece(
        &self,
        expr: &MetricExpr,
        limits: &Limits,
        (first_ns, last_ns): (i64, i64),
    ) -> Result<HeldSeries, Error> {
        let steps = Steps { first_ns, last_ns, ..self.steps };
        let _turn = self.context.turn().await?;
        let reads = admission::reads(expr, &steps);
        admission::check_piece_size(self.source, self.context, limits, reads).await?;
        Evaluation { steps, ..*self }.all_series(expr, limits).await
    }

    /// All series with a value at any step, sorted by labels; for an instant query, in the order that the
    /// expression defines. Fails before they are assembled if there are too many.
    async fn all_series(&self, expr: &MetricExpr, limits: &Limits) -> Result<HeldSeries, Error> {
        QueryStats::add(&self.context.stats().splits, 1);
        let HeldMatrix { matrix, memory } = self.matrix(expr).await?;
        let matrix = matrix.without_empty();
        self.too_many(matrix.series.len(), limits)?;
        let steps = self.steps;
        self.work(matrix.values(), move || answer_of(steps, matrix, memory)).await
    }

    /// Runs a computation over a matrix on the CPU pool, or in place if the matrix is small.
    async fn work<T: Send + 'static>(
        &self,
        values: usize,
        job: impl FnOnce() -> Result<T, Error> + Send + 'static,
    ) -> Result<T, Error> {
        self.context.compute_sized(values <= FEW_VALUES, job).await
    }

    /// Fails if there are more series than a query may return. For a client that accepts partial answers,
    /// returns the limit and its message.
    fn too_many(&self, series: usize, limits: &Limits) -> Result<Option<(usize, String)>, Error> {
        let most = usize::try_from(limits.max_query_series).unwrap_or(usize::MAX);
        if most == 0 || series <= most {
            return Ok(None);
        }
        let reached = format!("maximum number of series ({most}) reached for a single query");
        match self.context.allows_partial() {
            true => Ok(Some((most, reached))),
            false => Err(Error::Limit(format!("{reached}; {NARROW_IT}"))),
        }
    }

    fn hold(&self, matrix: Matrix) -> Result<HeldMatrix, Error> {
        Ok(HeldMatrix { memory: self.context.budget().reserve(matrix.memory_bytes())?, matrix })
    }

    /// Evaluates an expression. Pending tasks are on a list, so that a deep expression needs no deep
    /// recursion.
    async fn matrix(&self, expr: &MetricExpr) -> Result<HeldMatrix, Error> {
        let mut tasks = vec![Task::Evaluate(expr)];
        let mut done: Vec<HeldMatrix> = Vec::new();
        while let Some(task) = tasks.pop() {
            self.context.check()?;
            let result = match task {
                Task::Evaluate(expr) => match self.leaf(expr).await? {
                    Some(leaf) => leaf,
                    None => {
                        plan(expr, &mut tasks);
                        continue;
                    }
                },
                Task::Apply(aggregation) => self.aggregated(aggregation, taken(&mut done)).await?,
                Task::Replace(replace) => {
                    let (held, replace) = (taken(&mut done), Replacement::new(replace));
                    self.context.compute(move || replace.apply(held)).await?
                }
                Task::WithNumber { link, number, is_left } => {
                    let HeldMatrix { matrix, memory } = taken(&mut done);
                    let (op, bool, values) = (link.op, link.return_bool, matrix.values());
                    let job = move || {
                        let matrix = binary::with_number(op, matrix, number, is_left, bool)?;
                        Ok(HeldMatrix { matrix, memory })
                    };
                    self.work(values, job).await?
                }
                Task::Combine(link) => {
                    let (right, left) = (taken(&mut done), taken(&mut done));
                    self.combined(link, left, right).await?
                }
            };
            done.push(result);
        }
        Ok(taken(&mut done))
    }

    /// Evaluates an expression that has no subexpressions, or that can be evaluated as one.
    async fn leaf(&self, expr: &MetricExpr) -> Result<Option<HeldMatrix>, Error> {
        match expr {
            MetricExpr::Literal(value) | MetricExpr::VectorOf(value) => {
                self.hold(Matrix::constant(self.steps.count(), *value)).map(Some)
            }
            _ => match range_of(expr) {
                Some((range, outer)) => self.range(range, outer.as_ref()).await.map(Some),
                None => Ok(None),
            },
        }
    }

    async fn aggregated(
        &self,
        aggregation: &VectorAggregation,
        mut inner: HeldMatrix,
    ) -> Result<HeldMatrix, Error> {
        // The result is at most as large as the input.
        inner.memory.grow(inner.matrix.memory_bytes())?;
        let (function, parameter) = (aggregation.function, aggregation.parameter);
        let grouping = aggregation.grouping.clone();
        let values = inner.matrix.values();
        let job = move || {
            let matrix = vector::apply(function, parameter, grouping.as_ref(), inner.matrix)?;
            inner.memory.resize(matrix.memory_bytes())?;
            Ok(HeldMatrix { matrix, memory: inner.memory })
        };
        self.work(values, job).await
    }

    async fn combined(
        &self,
        link: &Link,
        mut left: HeldMatrix,
        right: HeldMatrix,
    ) -> Result<HeldMatrix, Error> {
        let (op, return_bool, matching) = (link.op, link.return_bool, link.matching.clone());
        let values = left.matrix.values() + right.matrix.values();
        let job = move || {
            left.memory.grow(left.matrix.memory_bytes() + right.matrix.memory_bytes())?;
            let matrix = binary::vectors(op, left.matrix, right.matrix, &matching, return_bool)?;
            left.memory.resize(matrix.memory_bytes())?;
            Ok(HeldMatrix { matrix, memory: left.memory })
        };
        self.work(values, job).await
    }

    async fn range(&self, range: &RangeAggregation, outer: Option<&Grouping>) -> Result<HeldMatrix, Error> {
        let scan = RangeScan::new(range, outer, self.steps.windows(range));
        if let Some(joined) = self.joined {
            let groups = joined.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
            let missing = || Error::Internal("a range aggregation has no groups".to_owned());
            let groups = groups.ok_or_else(missing)?;
            return self.hold(self.context.compute(move || scan.matrix(groups)).await?);
        }
        self.hold(range_scan::run(self.source, self.context, scan).await?)
    }
}

/// Evaluates a metric query for the step cache.
struct MetricSteps<'a> {
    evaluation: &'a Evaluation<'a>,
    expr: &'a MetricExpr,
    limits: &'a Limits,
}

impl StepEvaluator for MetricSteps<'_> {
    fn language(&self) -> &'static str {
        "logql"
    }

    fn text(&self) -> String {
        self.expr.to_string()
    }

    fn windows(&self) -> Vec<(i64, i64)> {
        self.expr.range_aggregations().iter().map(|range| (range.range_ns, range.offset_ns)).collect()
    }

    fn asks_for_time(&self) -> bool {
        self.expr.range_aggregations().into_iter().any(RangeAggregation::asks_for_time)
    }

    fn evaluate(&self, instants: (i64, i64)) -> BoxFuture<'_, Result<HeldSeries, Error>> {
        Box::pin(self.evaluation.piece(self.expr, self.limits, instants))
    }
}

/// A pending task. It takes its inputs from the end of the list of results.
enum Task<'a> {
    Evaluate(&'a MetricExpr),
    Apply(&'a VectorAggregation),
    Replace(&'a LabelReplace),
    /// Applies an operator to the last result and a number.
    WithNumber {
        link: &'a Link,
        number: f64,
        is_left: bool,
    },
    /// Applies an operator to the last two results.
    Combine(&'a Link),
}

/// Adds the tasks of an expression to the list, in reverse order.
fn plan<'a>(expr: &'a MetricExpr, tasks: &mut Vec<Task<'a>>) {
    match expr {
        MetricExpr::Range(_) | MetricExpr::Literal(_) | MetricExpr::VectorOf(_) => {}
        MetricExpr::Vector(aggregation) => {
            tasks.extend([Task::Apply(aggregation), Task::Evaluate(&aggregation.inner)]);
        }
        MetricExpr::LabelReplace(replace) => {
            tasks.extend([Task::Replace(replace), Task::Evaluate(&replace.inner)]);
        }
        MetricExpr::Chain(chain) => {
            for (n, link) in chain.links.iter().enumerate().rev() {
                match (&chain.first, &link.right) {
                    (MetricExpr::Literal(number), right) if n == 0 => {
                        let number = *number;
                        tasks.push(Task::WithNumber { link, number, is_left: true });
                        tasks.push(Task::Evaluate(right));
                        return;
                    }
                    (_, MetricExpr::Literal(number)) => {
                        tasks.push(Task::WithNumber { link, number: *number, is_left: false });
                    }
                    (_, right) => tasks.extend([Task::Combine(link), Task::Evaluate(right)]),
                }
            }
            tasks.push(Task::Evaluate(&chain.first));
        }
    }
}

/// Takes the last result.
fn taken(done: &mut Vec<HeldMatrix>) -> HeldMatrix {
    done.pop().expect("a task runs after the tasks whose results it takes")
}

/// Joins neighbouring series with equal labels. As in Loki, series that `label_replace` made equal remain
/// separate for the functions around it, but the answer of a range query has them as one series with all
/// values.
fn join_equal(series: &mut Vec<sandur_query::Series>) {
    series.dedup_by(|next, first| {
        let equal = next.labels == first.labels;
        if equal {
            first.samples.reserve_exact(next.samples.len());
            first.samples.append(&mut next.samples);
            let order = |a: &Sample, b: &Sample| {
                a.timestamp_ms.cmp(&b.timestamp_ms).then(a.value.total_cmp(&b.value))
            };
            first.samples.sort_by(order);
        }
        equal
    });
}

/// The bytes of a series in an answer.
fn answered_bytes(series: &Series) -> u64 {
    let present = series.values.iter().filter(|value| !is_absent(**value)).count();
    let labels: usize = series.labels.iter().map(|(n, v)| n.len() + v.len() + 64).sum();
    (present * size_of::<Sample>() + labels + size_of::<sandur_query::Series>() + 32) as u64
}

/// Whether the expression calls a vector function of this name.
fn contains(expr: &MetricExpr, name: &str) -> bool {
    let mut found = false;
    expr.visit(&mut |expr| {
        found |= matches!(expr, MetricExpr::Vector(vector) if vector.function.name == name);
    });
    found
}

/// A compiled `label_replace`.
struct Replacement {
    regex: BoundedRegex,
    replacement: String,
    source: String,
    destination: Arc<str>,
}

impl Replacement {
    fn new(replace: &LabelReplace) -> Self {
        Self {
            regex: replace.regex.clone(),
            replacement: replace.replacement.clone(),
            source: replace.source.clone(),
            destination: replace.destination.as_str().into(),
        }
    }

    fn apply(&self, mut held: HeldMatrix) -> Result<HeldMatrix, Error> {
        for series in &mut held.matrix.series {
            spend(SERIES_UNITS * (1 + series.labels.len()))?;
            if let Some(value) = self.value(&series.labels)? {
                held.memory.grow((series.labels.len() * 32 + value.len() + 64) as u64)?;
                series.labels = self.replaced(&series.labels, value);
            }
        }
        Ok(held)
    }

    /// The new value of the destination label, if the source label matches.
    fn value(&self, labels: &Labels) -> Result<Option<String>, Error> {
        let source = crate::matrix::label(labels, &self.source).unwrap_or("");
        let mut slots = vec![None; self.regex.slot_count()];
        if !self.regex.find(source.as_bytes(), 0, &mut slots)? {
            return Ok(None);
        }
        let group = |n: usize| group_span(&slots, n).map_or("", |(from, to)| &source[from..to]);
        let mut value = String::new();
        let written = expand(&self.regex, &self.replacement, group, |piece| {
            if value.len() + piece.len() > REPLACED_BYTES_MAX {
                return Err(REPLACED_TOO_LONG.to_owned());
            }
            value.push_str(piece);
            Ok(())
        });
        written.map_err(Error::Limit)?;
        Ok(Some(value))
    }

    /// The label set with the destination label set. As in Prometheus, it has no empty labels.
    fn replaced(&self, labels: &Labels, value: String) -> Labels {
        let stays = |(name, value): &&(Arc<str>, Arc<str>)| *name != self.destination && !value.is_empty();
        let mut pairs: Vec<_> = labels.iter().filter(stays).cloned().collect();
        if !value.is_empty() {
            pairs.push((Arc::clone(&self.destination), value.into()));
        }
        crate::matrix::sorted_labels(pairs)
    }
}

/// Builds the answer at these steps.
fn answer_of(steps: Steps, mut matrix: Matrix, mut memory: Reservation) -> Result<HeldSeries, Error> {
    if !(steps.instant && matrix.ordered) {
        matrix.series.sort_by(|a, b| a.labels.cmp(&b.labels));
    }
    let bytes: u64 = matrix.series.iter().map(answered_bytes).sum();
    memory.grow(bytes)?;
    let mut all = Vec::with_capacity(matrix.series.len());
    for series in &matrix.series {
        spend(SERIES_UNITS * (1 + series.labels.len()) + 4 * series.values.len())?;
        all.push(answered(steps, series));
    }
    drop(matrix);
    if !steps.instant {
        join_equal(&mut all);
    }
    memory.resize(bytes)?;
    Ok(HeldSeries { series: all, memory })
}

fn answered(steps: Steps, series: &Series) -> sandur_query::Series {
    let present = series.values.iter().enumerate().filter(|(_, value)| !is_absent(**value));
    let sample =
        |(step, value): (usize, &f64)| Sample { timestamp_ms: steps.timestamp_ms(step), value: *value };
    let labels: Vec<(Box<str>, Box<str>)> =
        series.labels.iter().map(|(n, v)| ((&**n).into(), (&**v).into())).collect();
    sandur_query::Series { labels: labels.into(), samples: present.map(sample).collect() }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use super::*;
    use sandur_memory::MemoryBudget;
    use sandur_model::{Labels, Level, TenantId};
    use sandur_query::{MemoryRow, MemorySource};
    use sandur_runtime::Env;

    #[test]
    fn series_with_equal_labels_are_joined() {
        let one = |name: &str, samples: &[(i64, f64)]| sandur_query::Series {
            labels: Arc::new(vec![("app".into(), name.into())]),
            samples: samples.iter().map(|&(timestamp_ms, value)| Sample { timestamp_ms, value }).collect(),
        };
        let mut series =
            vec![one("a", &[(1, 5.0), (2, 1.0)]), one("a", &[(1, 4.0), (3, 2.0)]), one("b", &[])];
        join_equal(&mut series);
        assert_eq!(series, [one("a", &[(1, 4.0), (1, 5.0), (2, 1.0), (3, 2.0)]), one("b", &[])]);
    }

    #[test]
    fn too_many_series_fail_or_give_a_partial_answer() {
        let row = |n: i64| MemoryRow {
            labels: Arc::new(Labels::from_pairs([("app", format!("a{n}"))])),
            timestamp: n + 1,
            line: "x".into(),
            metadata: Vec::new(),
            level: Level::None,
        };
        let source = MemorySource::new((0..5).map(row).collect());
        let limits = Limits { max_query_series: 3, ..Limits::default() };
        let crate::Expr::Metric(expr) = crate::parse(r#"count_over_time({app=~".+"}[1m])"#).unwrap() else {
            panic!("a metric query");
        };
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            let budget = MemoryBudget::root("query", 1 << 20);
            let tenant = TenantId::default_tenant();
            let context = QueryContext::new(Env::simulated(1, 0), tenant, budget, Duration::from_secs(9));
            let steps = Steps { first_ns: 10, last_ns: 10, step_ns: 1, instant: true };
            let evaluation = Evaluation { source: &source, context: &context, steps, joined: None };
            let refusal = evaluation.answer(&expr, &limits).await.unwrap_err().to_string();
            assert!(refusal.starts_with("maximum number of series (3) reached for a single query; consider"));
            context.allow_partial();
            let answer = evaluation.answer(&expr, &limits).await.unwrap();
            assert!(matches!(answer, QueryResult::Vector(series) if series.len() == 3));
            assert!(context.warnings()[0].ends_with("returning partial results"));
        });
    }
}

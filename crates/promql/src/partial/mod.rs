//! Parts of a query that several processes answer: what one is asked, what it answers, and how the answers
//! become that of the query.
//!
//! **What is divided.** The plan of a query has selectors. The series of each selector are divided among
//! processes by the part in the query's context ([`sandur_query::Part`]). A process reads its series, applies
//! what processes each series alone, such as `rate`, and, if the result is summed, counted or the like, adds
//! the series to groups. Only the groups travel then. Everything else is computed by the process that asks.
//!
//! **Life of a divided query.** [`sub_queries`] lists what has to be asked. [`answer_part`] answers a
//! [`SubQuery`] from a source, as a [`Partial`], which [`Partial::to_bytes`] writes. [`join`] plans the query
//! again, hands the answers of all parts to the plan, and answers the query.
//!
//! **Invariants.** The answer is that of one process to the last bit, whatever the division: sums are
//! exact, and no other operator depends on the order of series. Both processes plan the text of the query,
//! so that places in warnings are right; a sub-query names the expression of its selector, and a process
//! whose plan has another one refuses it. Memory is reserved before bytes are decoded.

mod wire;

#[cfg(test)]
mod tests;

use std::cmp::Ordering;
use std::sync::Arc;

use sandur_memory::Reservation;
use sandur_memory::job::{JobMemory, spend};
use sandur_model::Labels;
use sandur_query::{BatchTexts, Error, QueryContext, SampleSource, Samples, SeriesBatch, SeriesJobs};

use crate::answer::Answer;
use crate::ast::Expr;
use crate::column::Column;
use crate::engine::{self, Request, State};
use crate::labels::{LabelPool, METRIC_NAME};
use crate::lengths::check_times;
use crate::notes::{ForeignNote, Notes};
use crate::ops::aggregate::{Aggregate, GroupPart};
use crate::ops::computed::FromJobs;
use crate::ops::grouping::Grouping;
use crate::plan::{Fold, Jobs, PerSeries, plan};
use crate::run::{AnyOperator, Computed, LeafId, Operator as _, Pull, Run};

/// What a process is asked: the series of one selector of a query, in the part that its context names.
#[derive(Clone, Debug)]
pub struct SubQuery {
    /// The query.
    pub request: Request,
    /// The number of the selector in the plan of the query.
    selector: usize,
    /// The expression of the selector, by which a process recognises another plan.
    expr: String,
}

/// A series of a partial answer.
struct PartSeries {
    labels: Labels,
    /// Its samples at the steps, in which the labels have no meaning.
    column: Column,
}

/// What a process answers.
pub struct Partial {
    /// The selector.
    selector: usize,
    /// The series, with a sample for each step.
    series: Vec<PartSeries>,
    /// The series as they are stored, if the plan needs them so.
    stored: Vec<(Labels, Samples)>,
    /// The groups of an aggregation.
    groups: Vec<GroupPart>,
    notes: Vec<ForeignNote>,
    /// Warnings of the source, for example that a block is damaged.
    warnings: Vec<String>,
    samples_read: u64,
    /// Pays for what is above.
    paid: Vec<Paid>,
}

/// The reservation of a partial answer: of an answer that was received, or of one that was computed here.
enum Paid {
    Received(#[allow(dead_code)] Reservation),
    Computed(#[allow(dead_code)] JobMemory),
}

/// The sub-queries of a query: each must be answered for every part.
pub fn sub_queries(request: &Request, expr: &Expr) -> Result<Vec<SubQuery>, Error> {
    let planned = Planned::of(request, expr)?;
    let expr_of =
        |n: usize| planned.jobs.get(&LeafId(n)).map_or_else(String::new, |job| job.expr().to_string());
    let of = |n| SubQuery { request: request.clone(), selector: n, expr: expr_of(n) };
    Ok((0..planned.run.leaves.len()).map(of).collect())
}

/// The plan of a query.
struct Planned {
    run: Run,
    plan: crate::plan::Plan,
    jobs: Jobs,
}

impl Planned {
    fn of(request: &Request, expr: &Expr) -> Result<Self, Error> {
        check_times(expr, request.times)?;
        let mut run = Run::new(request.options);
        let (plan, jobs) = plan(expr, request.times, &mut run)?;
        Ok(Self { run, plan, jobs })
    }
}

/// Answers a sub-query for the series in the part of the context.
pub async fn answer_part(
    source: &dyn SampleSource,
    context: &QueryContext,
    query: &SubQuery,
) -> Result<Partial, Error> {
    let (asked, selector) = (query.clone(), query.selector);
    let planned = context.compute(move || asked.planned()).await?;
    let (selection, work) = planned;
    let scan = source.select(context, selection).await?;
    let mut answer = match work {
        Some(work) => {
            let fold = work.fold().cloned();
            let (grid, mut jobs) = (work.grid(), SeriesJobs::new(context, scan, work));
            let mut run = Run::new(query.request.options);
            let leaf = run.add_leaf(sandur_query::SampleSelection::all(Vec::new(), 0, 0));
            let mut gathering = Gathering::new(fold, grid, leaf, &mut run);
            while let Some(computed) = jobs.next().await? {
                let gather = move || {
                    run.leaves[leaf.0].computed.push_back(computed);
                    gathering.gather(&mut run)?;
                    Ok((run, gathering))
                };
                (run, gathering) = context.compute(gather).await?;
            }
            run.leaves[leaf.0].is_done = true;
            context.compute(move || gathering.finish(run)).await?
        }
        None => stored(scan, context).await?,
    };
    (answer.selector, answer.warnings) = (selector, context.warnings());
    Ok(answer)
}

impl SubQuery {
    /// The selection for storage, and the work for each series, if the plan has some.
    fn planned(&self) -> Result<(sandur_query::SampleSelection, Option<Arc<PerSeries>>), Error> {
        let expr = crate::parser::parse(&self.request.query)?;
        let Planned { mut run, mut jobs, .. } = Planned::of(&self.request, &expr)?;
        let work = jobs.remove(&LeafId(self.selector));
        let own = work.as_ref().map_or_else(String::new, |work| work.expr().to_string());
        if self.selector >= run.leaves.len() || own != self.expr {
            return Err(Error::Invalid(format!(
                "selector {} of the query is '{}' here and '{}' in the process that asks: the processes plan \
                 queries differently; let them run the same version",
                self.selector, own, self.expr
            )));
        }
        Ok((run.leaves.swap_remove(self.selector).query, work))
    }
}

/// The series of a scan as they are stored.
async fn stored(
    mut scan: Box<dyn sandur_query::SampleScan>,
    context: &QueryContext,
) -> Result<Partial, Error> {
    let (mut answer, mut memory) = (Partial::empty(), context.budget().reserve(0)?);
    while let Some(batch) = scan.next().await? {
        for (n, samples) in batch.samples.iter().enumerate() {
            let labels = Labels::from_pairs(batch.pairs(n));
            memory.grow(stored_bytes(&labels, samples))?;
            answer.samples_read += (samples.values.len() + samples.histograms.len()) as u64;
            answer.stored.push((labels, Samples::clone(samples)));
        }
    }
    answer.paid.push(Paid::Received(memory));
    Ok(answer)
}

fn stored_bytes(labels: &Labels, of: &Samples) -> u64 {
    let histograms: u64 = of.histograms.iter().map(|histogram| histogram.memory_bytes() + 16).sum();
    let numbers = of.times.len() * 2 + of.starts.len() + of.histogram_times.len() + of.histogram_starts.len();
    sandur_query::series_bytes(labels) + histograms + numbers as u64 * 8
}

/// Gathers the series of jobs, or adds them to groups.
enum Gathering {
    Series { from: FromJobs, columns: Vec<Column> },
    Groups(Box<Aggregate>),
}

impl Gathering {
    fn new(fold: Option<Fold>, grid: crate::column::Grid, leaf: LeafId, run: &mut Run) -> Self {
        let from = FromJobs::new(leaf);
        let Some(Fold { op, names, without, span }) = fold else {
            return Self::Series { from, columns: Vec::new() };
        };
        let names = names.iter().map(|name| run.pool.text_id(name)).collect();
        let (from, by): (AnyOperator, _) = (Box::new(from), Grouping::new(names, without));
        Self::Groups(Box::new(Aggregate::new(from, op, None, by, grid, (span, None))))
    }

    /// Takes what has arrived.
    fn gather(&mut self, run: &mut Run) -> Result<(), Error> {
        match self {
            Self::Series { from, columns } => {
                while let Pull::Batch(some) = from.pull(run)? {
                    run.keep_columns(&some)?;
                    columns.extend(some);
                }
            }
            Self::Groups(groups) => _ = groups.gather(run)?,
        }
        Ok(())
    }

    fn finish(mut self, mut run: Run) -> Result<Partial, Error> {
        self.gather(&mut run)?;
        let mut answer = Partial::empty();
        match self {
            Self::Series { columns, .. } => {
                for column in columns.into_iter().filter(Column::has_any) {
                    spend(64)?;
                    run.keep(run.pool.text_bytes(column.labels) as u64)?;
                    answer.series.push(PartSeries { labels: run.pool.labels(column.labels), column });
                }
            }
            Self::Groups(groups) => answer.groups = groups.into_parts(&run),
        }
        (answer.notes, answer.samples_read) = (run.notes.foreign(&run.pool), run.samples_read);
        answer.paid.push(Paid::Computed(run.into_held()));
        Ok(answer)
    }
}

impl Partial {
    fn empty() -> Self {
        Self {
            selector: 0,
            series: Vec::new(),
            stored: Vec::new(),
            groups: Vec::new(),
            notes: Vec::new(),
            warnings: Vec::new(),
            samples_read: 0,
            paid: Vec::new(),
        }
    }

    /// Hands the answer to the plan of the query.
    fn give_to(self, run: &mut Run, context: &QueryContext) -> Result<(), Error> {
        self.warnings.into_iter().for_each(|warning| context.warn(warning));
        let (mut pool, mut columns) = (LabelPool::default(), Vec::with_capacity(self.series.len()));
        let notes = Notes::of_foreign(self.notes, &mut pool);
        for PartSeries { labels, mut column } in self.series {
            spend(64)?;
            column.labels = pool.labels_id(&labels);
            columns.push(column);
        }
        pool.check()?;
        let mut held = JobMemory::default();
        held.at_least(columns.iter().map(Column::memory_bytes).sum())?;
        let leaf = &mut run.leaves[self.selector];
        leaf.groups.extend(self.groups);
        leaf.computed.push_back(Computed { columns, pool, notes, samples_read: self.samples_read, held });
        if self.stored.is_empty() {
            return Ok(());
        }
        let (mut texts, mut labels, mut samples) = (BatchTexts::default(), Vec::new(), Vec::new());
        for (of, one) in self.stored {
            labels.push(of.iter().map(|(name, value)| (texts.id(name), texts.id(value))).collect());
            samples.push(Arc::new(one));
        }
        let dictionary = texts.finish();
        leaf.inbox.push_back(SeriesBatch { dictionary, labels, samples, held: None });
        Ok(())
    }
}

/// The order in which one process has its series: by name, then by all labels.
fn compare(a: &Labels, b: &Labels) -> Ordering {
    a.get(METRIC_NAME).cmp(&b.get(METRIC_NAME)).then_with(|| a.cmp(b))
}

/// One answer for each selector, with the series of all parts in the order in which one process has them.
fn in_order(parts: Vec<Partial>) -> Vec<Partial> {
    let mut joined: Vec<Partial> = Vec::new();
    for mut part in parts {
        let Some(own) = joined.iter_mut().find(|own| own.selector == part.selector) else {
            joined.push(part);
            continue;
        };
        own.series.append(&mut part.series);
        own.stored.append(&mut part.stored);
        own.groups.append(&mut part.groups);
        own.notes.append(&mut part.notes);
        own.warnings.append(&mut part.warnings);
        own.samples_read += part.samples_read;
        own.paid.append(&mut part.paid);
    }
    for one in &mut joined {
        one.series.sort_by(|a, b| compare(&a.labels, &b.labels));
        one.stored.sort_by(|a, b| compare(&a.0, &b.0));
    }
    joined
}

/// The answer of a query from the answers to its sub-queries for all parts. Selectors that depend on the
/// data, as in `info`, have no sub-query; `source` answers them.
pub async fn join(
    source: &dyn SampleSource,
    context: &QueryContext,
    request: &Request,
    expr: &Expr,
    parts: Vec<Partial>,
) -> Result<Answer, Error> {
    let (asked, expr, of_query) = (request.clone(), expr.clone(), context.clone());
    let joined = move || {
        let Planned { mut run, plan, jobs } = Planned::of(&asked, &expr)?;
        for part in in_order(parts) {
            if part.selector >= run.leaves.len() {
                return Err(Error::Invalid(format!("the query has no selector {}", part.selector)));
            }
            part.give_to(&mut run, &of_query)?;
        }
        run.leaves.iter_mut().for_each(|leaf| leaf.is_done = true);
        Ok((Box::new(State::new(run, plan, expr.value_type(), asked.times)), jobs))
    };
    let (state, jobs) = context.compute(joined).await?;
    engine::run(source, context, state, jobs, request.query.as_str().into()).await
}

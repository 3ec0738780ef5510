//! Runs one range aggregation: rows become numbers, which are added to groups and time slots.
//!
//! Each worker accumulates on its own, so that pages need no merging; the workers' results are combined at
//! the end. Label sets are small keys until then. If all windows begin and end at whole minutes, and only
//! the stream and the level of a row matter, the source's counts replace its rows.

use std::sync::{Arc, Mutex, PoisonError};

use sandur_memory::Reservation;
use sandur_memory::job::spend;
use sandur_model::{Level, LineColumn, LineReducer, LogPage, MINUTE_NS, StreamRun, TimeRange};
use sandur_query::{
    Collect, Columns, Error, LogSource, Merging, Order, PageTask, QueryContext, QueryStats, ScanItem,
    SeenRows, Selection, Slots, StreamCounts, Windows, Work, execute,
};

use crate::ast::{RangeAggregation, Unwrap};
use crate::grouping::Grouping;
use crate::groups::{GroupSource, Groups, KeepIds};
use crate::matrix::{Labels, Matrix, Series, sorted_labels};
use crate::pipeline::{Chosen, Pipeline, Worker, passes, rows_between, without_unread_lines};
use crate::range::slots::{ABSENT, Accumulation, is_absent};
use crate::range::{RangeFunction, RowValue, Setup};
use crate::range_groups::{GROUP_UNITS, RangeGroups};
use crate::range_rows::{
    Contribution, FatalErrors, KnownLines, RowReader, RunningUnwrap, is_of_lines, pipeline_error,
};
use crate::row::{ERROR, Row, RunLabels};

/// The labels that distinguish groups.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Keep {
    All,
    By(Vec<String>),
    Without(Vec<String>),
}

/// A range aggregation prepared to run.
pub struct RangeScan {
    pipeline: Pipeline,
    keep: Keep,
    function: &'static RangeFunction,
    parameter: f64,
    unwrap: Option<Unwrap>,
    windows: Windows,
    /// Whether rows with a parser error count, because the query reads the error.
    keeps_errors: bool,
    leaves_out_empty: bool,
}

impl RangeScan {
    /// Prepares a range aggregation. `outer` is the grouping of a surrounding `sum`, which the scan takes
    /// over.
    pub fn new(aggregation: &RangeAggregation, outer: Option<&Grouping>, windows: Windows) -> Self {
        let function = aggregation.function;
        let mut keep = keep_of(aggregation.grouping.as_ref(), outer);
        if function.absent {
            keep = Keep::By(Vec::new());
        }
        if let Some(unwrap) = &aggregation.unwrap {
            keep = match keep {
                Keep::All => Keep::Without(vec![unwrap.label.clone()]),
                Keep::Without(mut names) => {
                    names.push(unwrap.label.clone());
                    Keep::Without(names)
                }
                by => by,
            };
        }
        let unwrap = aggregation.unwrap.as_ref();
        let filters = unwrap.map_or(&[] as &[_], |u| &u.filters);
        let mut read: Vec<String> =
            aggregation.log.stages.iter().chain(filters).flat_map(|s| s.reads()).collect();
        let keeps_errors = read.iter().any(|name| name == ERROR) && matches!(keep, Keep::By(_));
        let wanted = match &keep {
            Keep::By(names) => {
                read.extend(names.iter().cloned());
                read.extend(unwrap.map(|u| u.label.clone()));
                Some(read)
            }
            Keep::All | Keep::Without(_) => None,
        };
        let log = without_unread_lines(&aggregation.log, function.value == RowValue::Bytes);
        let pipeline = Pipeline::new(&log, wanted);
        // As in Loki, if only a few labels are wanted, a parser stops when it has them.
        let grouped = matches!(&keep, Keep::By(names) if !names.is_empty());
        // If labels were removed, Loki joins the series of several shards, which drops labels with empty
        // values. In other cases, and for functions that Loki does not shard, such labels stay.
        let removes = pipeline.stages.iter().any(|stage| stage.effect().removes_labels);
        let without = aggregation.grouping.as_ref().is_some_and(|grouping| grouping.without);
        let leaves_out_empty = (removes || without) && function.sharded;
        Self {
            leaves_out_empty,
            pipeline: if grouped { pipeline.without_early_filters() } else { pipeline },
            keep,
            function,
            parameter: aggregation.parameter.unwrap_or(0.0),
            unwrap: unwrap.cloned(),
            windows,
            keeps_errors,
        }
    }

    /// The errors of rows with which the query fails.
    fn fatal_errors(&self) -> FatalErrors {
        FatalErrors { in_labels: !matches!(self.keep, Keep::By(_)), of_parsers: !self.keeps_errors }
    }

    /// Whether only the stream and the level of a row matter.
    fn counts(&self) -> bool {
        let Keep::By(names) = &self.keep else { return false };
        // Such a label exists only if the row's metadata has one of the same name.
        let is_of_metadata = |name: &String| name.ends_with("_extracted");
        let read = self.pipeline.labels_read();
        self.unwrap.is_none()
            && !self.pipeline.reads_lines()
            && !names.iter().chain(&read).any(is_of_metadata)
    }

    fn selection(&self, earliest_ns: i64) -> Selection {
        let (first, last) = self.windows.bounds();
        // Counts are kept by whole minutes, which begin one nanosecond after a multiple of a minute.
        let first = first.max(earliest_ns.div_euclid(MINUTE_NS).saturating_mul(MINUTE_NS).saturating_add(1));
        let reads = self.pipeline.labels_read();
        let by: &[String] = if let Keep::By(names) = &self.keep { names } else { &[] };
        let counts = self.counts();
        let metadata = !matches!(self.keep, Keep::By(_))
            || !by.is_empty()
            || !reads.is_empty()
            || self.pipeline.stages.iter().any(|s| s.effect().changes_labels)
            || self.unwrap.is_some();
        let bytes = self.unwrap.is_none() && self.function.value == RowValue::Bytes;
        Selection {
            matchers: self.pipeline.matchers.clone(),
            range: TimeRange::inclusive(first, last),
            order: Order::Any,
            needles: self.pipeline.needles(),
            columns: Columns { lines: self.pipeline.reads_lines() || bytes, metadata },
            counts: counts && self.windows.on_grid(MINUTE_NS),
            counts_by: if counts { by.iter().chain(&reads).cloned().collect() } else { Vec::new() },
        }
    }
}

fn keep_of(own: Option<&Grouping>, outer: Option<&Grouping>) -> Keep {
    match own.or(outer) {
        None => Keep::All,
        Some(grouping) if grouping.without && grouping.labels.is_empty() => Keep::All,
        Some(grouping) if grouping.without => Keep::Without(grouping.labels.clone()),
        Some(grouping) => Keep::By(grouping.labels.clone()),
    }
}

/// Runs the aggregation. Returns the series, in no particular order, with their memory reservation.
pub async fn run(source: &dyn LogSource, context: &QueryContext, scan: RangeScan) -> Result<Matrix, Error> {
    if scan.is_empty(context) {
        return Ok(Matrix::new(scan.windows.steps()));
    }
    let scan = Arc::new(scan);
    let groups = groups(source, context, Arc::clone(&scan)).await?;
    context.compute(move || scan.matrix(groups)).await
}

/// Reads the rows and adds them to groups.
pub async fn groups(
    source: &dyn LogSource,
    context: &QueryContext,
    scan: Arc<RangeScan>,
) -> Result<RangeGroups, Error> {
    if scan.is_empty(context) {
        return scan.no_groups(context);
    }
    let pipeline = scan.pipeline.clone().begun_at(context.begun_ns());
    let selection = scan.selection(context.earliest_ns());
    let items = source.scan(context, selection).await?;
    let work = Arc::new(RangeWork {
        slots: scan.windows.slots(),
        seen: Mutex::new(SeenRows::new(context.budget())?),
        workers: Mutex::new(Vec::new()),
        context: context.clone(),
        reducer: pipeline.reducer(),
        is_of_lines: pipeline.parses_and_filters(),
        pipeline,
        scan,
    });
    execute(context, items, Arc::clone(&work), &mut Nothing, Merging::Unordered).await?;
    context.compute(move || work.combined()).await
}

/// The output of a page is empty: workers keep what they find.
struct Nothing;

impl Collect<()> for Nothing {
    fn collect(&mut self, _output: ()) -> Result<(), Error> {
        Ok(())
    }
}

struct RangeWork {
    scan: Arc<RangeScan>,
    /// The pipeline of the scan at the time of the query.
    pipeline: Pipeline,
    /// Reduces lines to what the pipeline reads of them.
    reducer: Option<Arc<dyn LineReducer>>,
    /// Whether the stages read only the line and labels.
    is_of_lines: bool,
    context: QueryContext,
    slots: Slots,
    seen: Mutex<SeenRows>,
    workers: Mutex<Vec<RangeWorker>>,
}

struct RangeWorker {
    pipeline: Worker,
    unwrap: Option<RunningUnwrap>,
    keep: KeepIds,
    groups: Groups,
    values: Box<dyn Accumulation>,
    memory: Reservation,
    known: KnownLines,
}

impl Work for RangeWork {
    type Output = ();

    fn run(&self, _number: u32, item: ScanItem) -> Result<(), Error> {
        let kept = self.workers.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let mut worker = match kept {
            Some(worker) => worker,
            None => self.start()?,
        };
        match item {
            ScanItem::Page(mut task) => self.page(&mut worker, &mut *task)?,
            ScanItem::Counts(task) => self.counts(&mut worker, &task.decode()?)?,
        }
        self.workers.lock().unwrap_or_else(PoisonError::into_inner).push(worker);
        Ok(())
    }
}

impl RangeWork {
    fn start(&self) -> Result<RangeWorker, Error> {
        let scan = &self.scan;
        let mut pipeline = self.pipeline.start();
        let names = &mut pipeline.scratch.names;
        let ids =
            |names: &mut crate::names::Names, list: &[String]| list.iter().map(|n| names.id(n)).collect();
        let keep = match &scan.keep {
            Keep::All => KeepIds::All,
            Keep::By(list) => {
                let mut sorted = list.clone();
                sorted.sort();
                sorted.dedup();
                KeepIds::By(ids(names, &sorted))
            }
            Keep::Without(list) => KeepIds::Without(ids(names, list)),
        };
        let unwrap = scan.unwrap.as_ref().map(|unwrap| RunningUnwrap {
            label: names.id(&unwrap.label),
            conversion: unwrap.conversion,
            filters: unwrap.filters.iter().map(|f| f.start(names)).collect(),
        });
        Ok(RangeWorker {
            pipeline,
            unwrap,
            keep,
            groups: Groups::new(scan.leaves_out_empty),
            values: (scan.function.start)(scan.setup()),
            memory: self.context.budget().reserve(0)?,
            known: KnownLines::default(),
        })
    }

    fn page(&self, worker: &mut RangeWorker, task: &mut dyn PageTask) -> Result<(), Error> {
        let page = task.narrow()?;
        let (first, last) = self.scan.windows.bounds();
        let suspicious = page.runs.iter().any(|run| run.suspect.is_some());
        let bytes = self.scan.unwrap.is_none() && self.scan.function.value == RowValue::Bytes;
        let ranges: Vec<_> = page.runs.iter().map(|run| rows_between(&page, run, first, last)).collect();
        let looked_at: usize = ranges.iter().map(|range| range.len()).sum();
        QueryStats::add(&self.context.stats().lines_processed, looked_at as u64);
        if looked_at == 0 {
            return Ok(());
        }
        let reads = self.scan.pipeline.stages_read_lines() || bytes || suspicious;
        let _marks = self.context.budget().reserve(page.timestamps.len() as u64)?;
        let mut chosen = worker.pipeline.choose(task, &page, &ranges)?;
        if reads && chosen.lines.is_none() && chosen.rows.contains(&true) {
            // Rows that may be stored twice are recognised by their complete lines.
            let reduced = match self.reducer.as_deref().filter(|_| !bytes && !suspicious) {
                Some(reducer) => task.reduced(reducer, &chosen.rows)?,
                None => None,
            };
            chosen.are_reduced = reduced.is_some();
            chosen.lines = Some(match (reduced, worker.pipeline.filters_lines()) {
                (Some(reduced), _) => reduced,
                (None, true) => task.lines_of(&chosen.rows)?,
                (None, false) => task.lines()?,
            });
        }
        for (run, rows) in page.runs.iter().zip(ranges) {
            if !rows.is_empty() {
                self.run_of_page(worker, (&page, &chosen), run, rows)?;
            }
        }
        Ok(())
    }

    /// Processes the rows of one stream.
    fn run_of_page(
        &self,
        worker: &mut RangeWorker,
        (page, chosen): (&LogPage, &Chosen),
        run: &StreamRun,
        rows: std::ops::Range<u32>,
    ) -> Result<(), Error> {
        let lines = chosen.lines.as_ref();
        let base = RunLabels::new(page, &run.labels, &mut worker.pipeline.scratch.names);
        let source = worker.keep.group_source(&base, &self.scan.pipeline);
        let all_pass = worker.pipeline.stages.is_empty() && !worker.pipeline.filters_lines();
        if source == GroupSource::Run && all_pass && run.suspect.is_none() && self.scan.unwrap.is_none() {
            return self.whole_run(worker, (page, lines), &base, rows);
        }
        let selected = worker.pipeline.chosen(chosen, rows);
        let RangeWorker { pipeline, unwrap, keep, groups, values, memory, known } = worker;
        let Worker { stages, wanted, scratch, .. } = pipeline;
        let is_of_lines = chosen.are_reduced && self.is_of_lines && is_of_lines(&base, wanted);
        let mut known = is_of_lines.then(|| known.of_run());
        let mut reader = RowReader {
            value: self.scan.function.value,
            fatal: self.scan.fatal_errors(),
            page: (page, lines),
            run,
            row: Row::new(page, &base, wanted, scratch),
            stages,
            unwrap: unwrap.as_mut(),
            groups: (groups, keep, source),
            of_levels: Default::default(),
        };
        let (mut slot, mut slot_end) = (None, i64::MIN);
        let (mut passed, mut duplicates) = (0, 0);
        for &index in &selected {
            let timestamp = page.timestamps[index as usize];
            if timestamp > slot_end {
                (slot, slot_end) = match self.slots.find(timestamp) {
                    Some((found, end)) => (Some(found).filter(|s| !self.slots.is_gap(*s)), end),
                    None => (None, i64::MIN),
                };
            }
            let Some(slot) = slot else { continue };
            let contribution = match (&mut known, lines) {
                (Some(known), Some(lines)) => {
                    known.of_line(lines, index, || reader.contribution(index, &self.seen, memory))?
                }
                _ => reader.contribution(index, &self.seen, memory)?,
            };
            match contribution {
                Contribution::Counts { group, value } => {
                    values.add(memory, group, slot, (timestamp, value))?;
                    passed += 1;
                }
                Contribution::Duplicate => duplicates += 1,
                Contribution::None => {}
            }
        }
        pipeline.give_back(selected);
        QueryStats::add(&self.context.stats().post_filter_lines, passed);
        QueryStats::add(&self.context.stats().duplicates, duplicates);
        Ok(())
    }

    /// Adds the rows of one group that all pass: per slot, only their number or the length of their lines.
    fn whole_run(
        &self,
        worker: &mut RangeWorker,
        (page, lines): (&LogPage, Option<&LineColumn>),
        base: &RunLabels<'_>,
        rows: std::ops::Range<u32>,
    ) -> Result<(), Error> {
        let RangeWorker { pipeline, keep, groups, values, memory, .. } = worker;
        let Worker { wanted, scratch, .. } = pipeline;
        let mut row = Row::new(page, base, wanted, scratch);
        row.load(rows.start as usize, &[]);
        let group = groups.find(&row, keep, memory)?;
        let (mut at, end) = (rows.start as usize, rows.end as usize);
        let mut passed = 0;
        while at < end {
            let Some((slot, until)) = self.slots.find(page.timestamps[at]) else { break };
            let next = at + page.timestamps[at..end].partition_point(|&t| t <= until);
            if !self.slots.is_gap(slot) {
                let count = (next - at) as u64;
                let sum = match (self.scan.function.value, lines) {
                    // Lines are stored back to back, each followed by a separator.
                    (RowValue::Bytes, Some(lines)) => {
                        (lines.ends[next - 1] as usize - lines.start(at) - (next - at - 1)) as u64
                    }
                    _ => count,
                };
                values.add_counted(memory, group, slot, (count, sum))?;
                passed += count;
            }
            at = next;
        }
        QueryStats::add(&self.context.stats().post_filter_lines, passed);
        Ok(())
    }

    /// Adds a source's counts of streams in place of their rows.
    fn counts(&self, worker: &mut RangeWorker, counts: &[StreamCounts]) -> Result<(), Error> {
        let bytes = self.scan.function.value == RowValue::Bytes;
        let mut counted = 0;
        for stream in counts {
            let Some(group) = self.group_of_counts(worker, stream)? else { continue };
            let (mut slot, mut slot_end) = (None, i64::MIN);
            for minute in stream.minutes() {
                // The minute's last instant represents all of it, because windows begin and end at whole
                // minutes.
                let timestamp = i64::from(minute.minute) * MINUTE_NS;
                if timestamp > slot_end {
                    (slot, slot_end) = match self.slots.find(timestamp) {
                        Some((found, end)) => (Some(found).filter(|s| !self.slots.is_gap(*s)), end),
                        None => (None, i64::MIN),
                    };
                }
                let Some(slot) = slot else { continue };
                let rows = u64::from(minute.lines);
                let sum = if bytes { minute.bytes } else { rows };
                worker.values.add_counted(&mut worker.memory, group, slot, (rows, sum))?;
                counted += rows;
            }
        }
        QueryStats::add(&self.context.stats().lines_counted, counted);
        Ok(())
    }

    /// The group of a stream and level; `None` if a label filter drops its rows.
    fn group_of_counts(&self, worker: &mut RangeWorker, counts: &StreamCounts) -> Result<Option<u32>, Error> {
        let levels = if counts.level == Level::None { Vec::new() } else { vec![counts.level] };
        let page = LogPage { timestamps: vec![0], levels, ..LogPage::default() };
        let base = RunLabels::new(&page, &counts.labels, &mut worker.pipeline.scratch.names);
        let Worker { stages, wanted, scratch, .. } = &mut worker.pipeline;
        let mut row = Row::new(&page, &base, wanted, scratch);
        row.load(0, &[]);
        if !passes(stages, &mut row) {
            return Ok(None);
        }
        if self.scan.fatal_errors().has(&row) {
            return Err(pipeline_error(&row));
        }
        worker.groups.find(&row, &worker.keep, &mut worker.memory).map(Some)
    }

    /// Combines the workers' groups.
    fn combined(&self) -> Result<RangeGroups, Error> {
        let workers = std::mem::take(&mut *self.workers.lock().unwrap_or_else(PoisonError::into_inner));
        let mut workers = workers.into_iter();
        let Some(RangeWorker { groups: Groups { labels, .. }, values, memory, .. }) = workers.next() else {
            return self.scan.no_groups(&self.context);
        };
        let mut groups = RangeGroups::new(labels, values, memory);
        for worker in workers {
            groups.merge(&worker.groups.labels, &*worker.values, self.slots.len())?;
        }
        Ok(groups)
    }
}

impl RangeScan {
    /// The parameters of the accumulation.
    fn setup(&self) -> Setup {
        let (slots, parameter) = (self.slots(), self.parameter);
        Setup { slots, parameter, unwraps: self.unwrap.is_some() }
    }

    /// The number of time slots.
    pub fn slots(&self) -> usize {
        self.windows.slots().len()
    }

    /// Whether no row can count.
    fn is_empty(&self, context: &QueryContext) -> bool {
        self.selection(context.earliest_ns()).range.is_empty() || self.windows.steps() == 0
    }

    /// No groups of this aggregation.
    pub fn no_groups(&self, context: &QueryContext) -> Result<RangeGroups, Error> {
        let values = (self.function.start)(self.setup());
        Ok(RangeGroups::new(Vec::new(), values, context.budget().reserve(0)?))
    }

    /// The values of the groups at each step.
    pub fn matrix(&self, mut groups: RangeGroups) -> Result<Matrix, Error> {
        if self.function.absent {
            return self.absent(&groups);
        }
        let (windows, slots) = (&self.windows, self.slots());
        groups.memory.grow((groups.labels.len() * windows.steps() * 8) as u64)?;
        let mut series = Vec::with_capacity(groups.labels.len());
        for (group, labels) in (0u32..).zip(groups.labels) {
            spend(GROUP_UNITS + slots + windows.steps())?;
            series.push(Series { labels, values: groups.values.values(group, windows) });
        }
        let matrix = Matrix { steps: windows.steps(), series, ordered: false };
        Ok(matrix.without_empty())
    }

    /// 1 at the steps whose windows have no rows.
    fn absent(&self, groups: &RangeGroups) -> Result<Matrix, Error> {
        let (windows, slots) = (&self.windows, self.slots());
        let mut values = vec![1.0; windows.steps()];
        for group in 0..groups.labels.len() as u32 {
            spend(GROUP_UNITS + slots + windows.steps())?;
            let found = groups.values.values(group, windows);
            for (value, _) in values.iter_mut().zip(found).filter(|(_, found)| !is_absent(*found)) {
                *value = ABSENT;
            }
        }
        let series = Series { labels: absent_labels(&self.pipeline), values };
        Ok(Matrix { steps: windows.steps(), series: vec![series], ordered: false }.without_empty())
    }
}

/// The labels that exactly one equality matcher names.
fn absent_labels(pipeline: &Pipeline) -> Labels {
    use sandur_model::MatchOp::Equal;
    let matchers = &pipeline.matchers;
    let once = |name: &str| matchers.iter().filter(|m| m.name() == name).count() == 1;
    let named = matchers.iter().filter(|m| m.op() == Equal && once(m.name()) && !m.value().is_empty());
    sorted_labels(named.map(|m| (m.name().into(), m.value().into())).collect())
}

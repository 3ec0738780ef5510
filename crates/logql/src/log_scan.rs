//! Runs a log query: the newest or oldest rows that pass, at most `limit`.
//!
//! Pages arrive in the order of time. Each worker processes a page's rows best first and stops at the
//! limit. The rows found so far bound the timestamps of rows, and of complete pages, that can still enter
//! the answer. Lines are decoded only for pages with such rows.

use std::ops::Range;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use sandur_memory::Reservation;
use sandur_model::{Labels, LineColumn, LogPage, TimeRange};
use sandur_query::{
    Collect, Columns, Direction, Error, LogRow, LogSource, Merging, Order, PageTask, QueryContext,
    QueryStats, RankedRow, RowKey, ScanItem, SeenRows, Selection, TopRows, Want, Work, execute,
};

use crate::pipeline::{Chosen, Pipeline, Worker, is_suspect, passes, rows_between};
use crate::row::{ERROR, ERROR_DETAILS, Origin, Row, RunLabels};

/// The parameters of a scan.
pub struct LogScan {
    /// The filters and stages.
    pub pipeline: Pipeline,
    /// The time range of the rows.
    pub range: TimeRange,
    /// Which rows rank first: the newest or the oldest.
    pub direction: Direction,
    /// The most rows of the answer.
    pub limit: usize,
    /// The least time between two rows, in nanoseconds; 0 is no limit.
    pub interval_ns: i64,
}

/// Runs the query. Returns the rows and their memory reservation.
pub async fn run(
    source: &dyn LogSource,
    context: &QueryContext,
    scan: LogScan,
) -> Result<(Vec<RankedRow>, Reservation), Error> {
    let order = match scan.direction {
        Direction::Backward => Order::NewestFirst,
        Direction::Forward => Order::OldestFirst,
    };
    let selection = Selection {
        matchers: scan.pipeline.matchers.clone(),
        range: scan.range,
        order,
        needles: scan.pipeline.needles(),
        columns: Columns { lines: true, metadata: true },
        counts: false,
        counts_by: Vec::new(),
    };
    // With an interval, each row depends on the previous one, so all passing rows are kept.
    let limit = if scan.interval_ns > 0 { usize::MAX } else { scan.limit };
    if scan.limit == 0 || scan.range.is_empty() {
        return Ok((Vec::new(), context.budget().reserve(0)?));
    }
    let items = source.scan(context, selection).await?;
    let bound = Arc::new(AtomicI64::new(open_bound(scan.direction)));
    let top = TopRows::new(context.budget(), scan.direction, limit)?;
    let mut collector = Collector { top, direction: scan.direction, bound: Arc::clone(&bound) };
    let work = LogWork {
        workers: Mutex::new(Vec::new()),
        seen: Mutex::new(SeenRows::new(context.budget())?),
        context: context.clone(),
        limit,
        bound,
        scan,
    };
    let work = Arc::new(work);
    execute(context, items, Arc::clone(&work), &mut collector, Merging::Unordered).await?;
    let (mut rows, memory) = collector.top.into_ranked();
    if work.scan.interval_ns > 0 {
        thin_out(&mut rows, work.scan.interval_ns, work.scan.limit);
    }
    QueryStats::add(&context.stats().entries_returned, rows.len() as u64);
    Ok((rows, memory))
}

/// The initial bound, which excludes no row.
fn open_bound(direction: Direction) -> i64 {
    match direction {
        Direction::Backward => i64::MIN,
        Direction::Forward => i64::MAX,
    }
}

/// Keeps rows with at least this time between them, and at most `limit`.
pub fn thin_out(rows: &mut Vec<RankedRow>, interval_ns: i64, limit: usize) {
    let mut last: Option<i64> = None;
    rows.retain(|ranked| {
        let timestamp = ranked.key.timestamp;
        let far = last.is_none_or(|last| timestamp.abs_diff(last) >= interval_ns.unsigned_abs());
        if far {
            last = Some(timestamp);
        }
        far
    });
    rows.truncate(limit);
}

struct Collector {
    top: TopRows,
    direction: Direction,
    bound: Arc<AtomicI64>,
}

impl Collect<PageRows> for Collector {
    fn want(&mut self, item: &ScanItem) -> Want {
        match item {
            ScanItem::Page(page) => {
                let (first, last) = page.bounds();
                // Items come in the order of the deciding bound, so no later item can have better rows.
                if self.top.may_enter(first, last) { Want::Take } else { Want::Stop }
            }
            ScanItem::Counts(_) => Want::Skip,
        }
    }

    fn collect(&mut self, output: PageRows) -> Result<(), Error> {
        for row in output.rows {
            self.top.offer(row)?;
        }
        let bound = self.top.bound().unwrap_or(open_bound(self.direction));
        self.bound.store(bound, Ordering::Relaxed);
        Ok(())
    }
}

/// The rows of a page that may enter the answer, and their memory reservation.
struct PageRows {
    rows: Vec<RankedRow>,
    _memory: Reservation,
}

struct LogWork {
    scan: LogScan,
    context: QueryContext,
    limit: usize,
    bound: Arc<AtomicI64>,
    workers: Mutex<Vec<Worker>>,
    seen: Mutex<SeenRows>,
}

impl Work for LogWork {
    type Output = PageRows;

    fn run(&self, number: u32, item: ScanItem) -> Result<PageRows, Error> {
        let nothing = || Ok(PageRows { rows: Vec::new(), _memory: self.context.budget().reserve(0)? });
        let ScanItem::Page(mut task) = item else { return nothing() };
        let kept = self.workers.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let mut worker = kept.unwrap_or_else(|| self.scan.pipeline.start());
        let rows = self.page(&mut worker, number, &mut *task)?;
        self.workers.lock().unwrap_or_else(PoisonError::into_inner).push(worker);
        Ok(rows)
    }
}

/// A row of a page that passed the line filters.
#[derive(Clone, Copy)]
struct Candidate {
    timestamp: i64,
    row: u32,
    run: u32,
}

impl LogWork {
    fn page(&self, worker: &mut Worker, number: u32, task: &mut dyn PageTask) -> Result<PageRows, Error> {
        let mut memory = self.context.budget().reserve(0)?;
        let page = task.narrow()?;
        let (first, last) = self.times();
        let ranges: Vec<_> = page.runs.iter().map(|run| rows_between(&page, run, first, last)).collect();
        let inside: usize = ranges.iter().map(|r| r.len()).sum();
        if inside == 0 {
            return Ok(PageRows { rows: Vec::new(), _memory: memory });
        }
        QueryStats::add(&self.context.stats().lines_processed, inside as u64);
        memory.grow(page.timestamps.len() as u64)?;
        let chosen = worker.choose(task, &page, &ranges)?;
        let candidates = self.candidates(&page, &chosen, ranges, &mut memory)?;
        if candidates.is_empty() {
            return Ok(PageRows { rows: Vec::new(), _memory: memory });
        }
        let lines = match chosen {
            Chosen { lines: Some(lines), .. } => lines,
            Chosen { mut rows, lines: None, .. } => {
                rows.fill(false);
                candidates.iter().for_each(|candidate| rows[candidate.row as usize] = true);
                task.lines_of(&rows)?
            }
        };
        self.rows(worker, number, (&page, &lines), &candidates, memory)
    }

    /// The rows that passed the line filters, best first; without stages, only as many as the answer can
    /// have.
    fn candidates(
        &self,
        page: &LogPage,
        chosen: &Chosen,
        ranges: Vec<Range<u32>>,
        memory: &mut Reservation,
    ) -> Result<Vec<Candidate>, Error> {
        let count = chosen.rows.iter().filter(|chosen| **chosen).count();
        memory.grow((count * size_of::<Candidate>()) as u64)?;
        let mut candidates = Vec::with_capacity(count);
        for (run, range) in (0..).zip(ranges) {
            let inside = range.filter(|&row| chosen.rows[row as usize]);
            let timestamp = |row: u32| page.timestamps[row as usize];
            candidates.extend(inside.map(|row| Candidate { timestamp: timestamp(row), row, run }));
        }
        self.order(page, &mut candidates);
        Ok(candidates)
    }

    /// The timestamps that can still enter the answer, both bounds inclusive.
    fn times(&self) -> (i64, i64) {
        let (first, last) = (self.scan.range.start, self.scan.range.end.saturating_sub(1));
        let bound = self.bound.load(Ordering::Relaxed);
        match self.scan.direction {
            Direction::Backward => (first.max(bound), last),
            Direction::Forward => (first, last.min(bound)),
        }
    }

    fn order(&self, page: &LogPage, candidates: &mut Vec<Candidate>) {
        let direction = self.scan.direction;
        let compare = |a: &Candidate, b: &Candidate| {
            let by_time = match direction {
                Direction::Backward => b.timestamp.cmp(&a.timestamp),
                Direction::Forward => a.timestamp.cmp(&b.timestamp),
            };
            let by_stream = || match a.run == b.run {
                true => std::cmp::Ordering::Equal,
                false => page.runs[a.run as usize].labels.cmp(&page.runs[b.run as usize].labels),
            };
            let by_row = || match direction {
                Direction::Backward => b.row.cmp(&a.row),
                Direction::Forward => a.row.cmp(&b.row),
            };
            by_time.then_with(by_stream).then_with(by_row)
        };
        let suspicious = page.runs.iter().any(|run| run.suspect.is_some());
        let all_pass = self.scan.pipeline.stages.is_empty();
        if all_pass && !suspicious && candidates.len() > self.limit {
            candidates.select_nth_unstable_by(self.limit, compare);
            candidates.truncate(self.limit);
        }
        candidates.sort_unstable_by(compare);
    }

    fn rows(
        &self,
        worker: &mut Worker,
        number: u32,
        (page, lines): (&LogPage, &LineColumn),
        candidates: &[Candidate],
        mut memory: Reservation,
    ) -> Result<PageRows, Error> {
        let Worker { stages, wanted, scratch, .. } = worker;
        let names = &mut scratch.names;
        let bases: Vec<RunLabels<'_>> =
            page.runs.iter().map(|run| RunLabels::new(page, &run.labels, names)).collect();
        let Some(first) = candidates.first() else {
            return Ok(PageRows { rows: Vec::new(), _memory: memory });
        };
        let mut row = Row::new(page, &bases[first.run as usize], wanted, scratch);
        let mut rows = Vec::new();
        let (mut passed, mut duplicates) = (0, 0);
        for candidate in candidates {
            if rows.len() >= self.limit {
                break;
            }
            let run = &page.runs[candidate.run as usize];
            let index = candidate.row as usize;
            row.switch(&bases[candidate.run as usize]);
            row.load(index, lines.line(index));
            if !passes(stages, &mut row) {
                continue;
            }
            passed += 1;
            if is_suspect(run, candidate.timestamp) && !self.is_new(page, lines, candidate)? {
                duplicates += 1;
                continue;
            }
            let key = RowKey {
                timestamp: candidate.timestamp,
                stream: Arc::clone(&run.labels),
                item: number,
                row: candidate.row,
            };
            let ranked = RankedRow { key, row: log_row(&row, &run.labels) };
            memory.grow(ranked.memory_bytes())?;
            rows.push(ranked);
        }
        QueryStats::add(&self.context.stats().post_filter_lines, passed);
        QueryStats::add(&self.context.stats().duplicates, duplicates);
        Ok(PageRows { rows, _memory: memory })
    }

    fn is_new(&self, page: &LogPage, lines: &LineColumn, candidate: &Candidate) -> Result<bool, Error> {
        let stream = page.runs[candidate.run as usize].labels.stream_id();
        let hash = row_hash(page, lines, stream, candidate.row as usize);
        self.seen.lock().unwrap_or_else(PoisonError::into_inner).insert(hash)
    }
}

/// The hash that identifies a stored row.
pub fn row_hash(page: &LogPage, lines: &LineColumn, stream: sandur_model::StreamId, row: usize) -> u128 {
    SeenRows::hash(stream, page.timestamps[row], lines.line(row), page.metadata_of(row))
}

/// Converts a row to its form in the answer.
pub fn log_row(row: &Row<'_>, stream: &Arc<Labels>) -> LogRow {
    let mut left: Vec<(Arc<str>, String)> = Vec::new();
    let mut metadata: Vec<(Arc<str>, String)> = Vec::new();
    let mut parsed: Vec<(Box<str>, Box<str>)> = Vec::new();
    let untouched = row.labels_untouched();
    row.for_each_label(|origin, name, value| {
        let name = row.scratch.names.name(name);
        match origin {
            Origin::Stream if untouched => {}
            Origin::Stream => left.push((Arc::clone(name), value.to_owned())),
            Origin::Metadata => metadata.push((Arc::clone(name), value.to_owned())),
            Origin::Parsed => parsed.push(((&**name).into(), value.into())),
        }
    });
    for (name, said) in [(ERROR, row.error().unwrap_or_default()), (ERROR_DETAILS, row.error_details())] {
        // A line may have a field of this name, which takes precedence over the error of a stage.
        let has_field = parsed.iter().any(|(known, _)| **known == *name);
        if !said.is_empty() && !has_field {
            parsed.push((name.into(), said.into()));
        }
    }
    parsed.sort();
    let labels =
        |pairs: Vec<(Arc<str>, String)>| Labels::from_pairs(pairs.iter().map(|(n, v)| (&**n, v.as_str())));
    let all_left = untouched || left.len() == stream.len();
    LogRow {
        timestamp: row.timestamp,
        // Copied, because a slice would keep the complete page in memory.
        line: Bytes::copy_from_slice(row.line()),
        stream: if all_left { Arc::clone(stream) } else { Arc::new(labels(left)) },
        metadata: if metadata.is_empty() { Arc::default() } else { Arc::new(labels(metadata)) },
        parsed: if parsed.is_empty() { Arc::default() } else { Arc::new(parsed) },
    }
}

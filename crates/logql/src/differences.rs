//! Compares the lines inside a part of a time range (the box) with the other lines of the range: which fields
//! have other values inside.
//!
//! Workers run the stages of the query over their pages and count the values of each field: labels,
//! structured metadata, labels that stages extract, and, if the query has no parser, the members of JSON
//! lines or the pairs of logfmt. The collector adds the counts up and ranks the fields
//! ([`sandur_query::differences`]).
//!
//! **Bounds.** If the lines inside or outside have more than [`BYTES_MAX`], every n-th page of that side is
//! read, and its rows count n times. Apart from this, counts of a field with at most 10,000 values are
//! exact. The memory of the tables is reserved from the query's budget.

use std::sync::{Arc, Mutex, PoisonError};

use sandur_memory::Reservation;
use sandur_memory::job::spend;
use sandur_model::TimeRange;
use sandur_query::differences::{Differences, FieldOrigin, Sides, Table, ranked};
use sandur_query::{
    Collect, Columns, Error, LogSource, Merging, Order, PageTask, QueryContext, QueryStats, ScanItem,
    SeenRows, Selection, StreamsRequest, Want, Work, execute,
};

use crate::ast::{Expr, LogExpr};
use crate::fields::{FieldParser, line_fields};
use crate::page_sample::{self, is_new};
use crate::pipeline::{Pipeline, Worker, passes, rows_between};
use crate::row::{Origin, Row, RunLabels};

/// The most bytes of lines that are read on each side: about a second of one CPU.
const BYTES_MAX: u64 = 96 << 20;
/// Estimated work of counting a field, in units of [`spend`].
const FIELD_UNITS: usize = 60;

/// The parameters of a comparison.
#[derive(Clone, Debug)]
pub struct DifferencesRequest {
    /// The whole time range; the end is exclusive.
    pub range: TimeRange,
    /// The box; the end is exclusive.
    pub inside: TimeRange,
}

/// Compares the box with the rest of the range. A metric query is refused.
pub async fn differences(
    source: &dyn LogSource,
    context: &QueryContext,
    query: &Expr,
    request: DifferencesRequest,
) -> Result<Differences, Error> {
    let Expr::Log(log) = query else {
        return Err(Error::Invalid("only log selector is supported".to_owned()));
    };
    let every = every(source, context, log, &request).await?;
    let pipeline = Pipeline::new(log, None).begun_at(context.begun_ns());
    let selection = Selection {
        matchers: pipeline.matchers.clone(),
        range: request.range,
        order: Order::Any,
        needles: pipeline.needles(),
        columns: Columns { lines: true, metadata: true },
        counts: false,
        counts_by: Vec::new(),
    };
    let scan = source.scan(context, selection).await?;
    let sampling = Sampling { inside: request.inside, every };
    let work = Counting {
        context: context.clone(),
        has_stages: !pipeline.stages.is_empty(),
        pipeline,
        request,
        workers: Mutex::new(Vec::new()),
        seen: Mutex::new(SeenRows::new(context.budget())?),
        sampling,
    };
    let memory = context.budget().reserve(0)?;
    let mut gathering = Gathering { table: Table::default(), memory, sampling };
    // Pages are merged in order, so that equal requests have equal answers when a table is full.
    execute(context, scan, Arc::new(work), &mut gathering, Merging::Ordered).await?;
    let Gathering { table, memory: held, .. } = gathering;
    let (rows, has_more) = (table.rows, table.has_more);
    // The probabilities of many values take long.
    let ranking = move || {
        let _held = held;
        Ok(ranked(table, every[0].max(every[1])))
    };
    let fields = context.compute(ranking).await?;
    Ok(Differences { rows, every, fields, has_more })
}

/// Which pages are read on each side, so that no side has more than [`BYTES_MAX`].
async fn every(
    source: &dyn LogSource,
    context: &QueryContext,
    log: &LogExpr,
    request: &DifferencesRequest,
) -> Result<Sides, Error> {
    let bytes = async |range: TimeRange| {
        let streams = StreamsRequest { matchers: log.matchers.clone(), range };
        let volumes = source.volumes(context, streams).await?;
        Ok::<u64, Error>(volumes.iter().map(|volume| volume.bytes).sum())
    };
    let (whole, inside) = (bytes(request.range).await?, bytes(request.inside).await?);
    let outside = whole.saturating_sub(inside);
    Ok([inside, outside].map(|bytes| page_sample::one_in(bytes, BYTES_MAX)))
}

/// Selects pages. Those that overlap the box are selected by the rate of the inside.
#[derive(Clone, Copy)]
struct Sampling {
    inside: TimeRange,
    every: Sides,
}

impl Sampling {
    fn every_of(&self, (first, last): (i64, i64)) -> u64 {
        let overlaps = first < self.inside.end && last >= self.inside.start;
        self.every[usize::from(!overlaps)]
    }

    fn takes(&self, page: &dyn PageTask) -> bool {
        page_sample::takes(page, self.every_of(page.bounds()))
    }
}

/// The job that counts the fields of a page.
struct Counting {
    context: QueryContext,
    pipeline: Pipeline,
    has_stages: bool,
    request: DifferencesRequest,
    workers: Mutex<Vec<Worker>>,
    seen: Mutex<SeenRows>,
    sampling: Sampling,
}

/// The counts of a page.
struct Counted {
    table: Table,
    weight: u64,
    memory: Reservation,
}

impl Work for Counting {
    type Output = Counted;

    fn run(&self, _number: u32, item: ScanItem) -> Result<Counted, Error> {
        let memory = self.context.budget().reserve(0)?;
        let mut counted = Counted { table: Table::default(), weight: 1, memory };
        let ScanItem::Page(mut task) = item else { return Ok(counted) };
        counted.weight = self.sampling.every_of(task.bounds());
        let kept = self.workers.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let mut worker = kept.unwrap_or_else(|| self.pipeline.start());
        self.page(&mut worker, &mut *task, &mut counted.table)?;
        counted.memory.grow(counted.table.bytes())?;
        self.workers.lock().unwrap_or_else(PoisonError::into_inner).push(worker);
        Ok(counted)
    }
}

impl Counting {
    fn page(&self, worker: &mut Worker, task: &mut dyn PageTask, table: &mut Table) -> Result<(), Error> {
        let page = task.narrow()?;
        let (first, last) = (self.request.range.start, self.request.range.end.saturating_sub(1));
        let ranges: Vec<_> = page.runs.iter().map(|run| rows_between(&page, run, first, last)).collect();
        QueryStats::add(
            &self.context.stats().lines_processed,
            ranges.iter().map(|range| range.len() as u64).sum(),
        );
        let chosen = worker.choose(task, &page, &ranges)?;
        if !chosen.rows.contains(&true) {
            return Ok(());
        }
        let lines = match chosen.lines {
            Some(lines) if !chosen.are_reduced => lines,
            _ => task.lines_of(&chosen.rows)?,
        };
        let Worker { stages, wanted, scratch, .. } = worker;
        for (run, range) in page.runs.iter().zip(ranges) {
            let base = RunLabels::new(&page, &run.labels, &mut scratch.names);
            let mut row = Row::new(&page, &base, wanted, scratch);
            for index in range.filter(|&index| chosen.rows[index as usize]) {
                let index = index as usize;
                row.load(index, lines.line(index));
                if passes(stages, &mut row) && is_new(&self.seen, (&page, &lines), run, index)? {
                    self.count(&row, page.timestamps[index], table)?;
                }
            }
        }
        Ok(())
    }

    /// Counts the fields of a row that passed.
    fn count(&self, row: &Row<'_>, timestamp: i64, table: &mut Table) -> Result<(), Error> {
        let is_inside = self.request.inside.start <= timestamp && timestamp < self.request.inside.end;
        let side = if is_inside { [1, 0] } else { [0, 1] };
        table.rows[usize::from(!is_inside)] += 1;
        let mut fields = 0;
        row.for_each_label(|origin, name, value| {
            let origin = match origin {
                Origin::Stream => FieldOrigin::Label,
                Origin::Metadata => FieldOrigin::Metadata,
                Origin::Parsed => FieldOrigin::Parsed,
            };
            fields += 1;
            table.add(origin, row.scratch.names.name(name), value, side);
        });
        // A parser of the query has found the fields of the line, or has changed the line.
        if !self.has_stages {
            let (parser, found) = line_fields(row.line());
            let origin = match parser {
                FieldParser::Json => FieldOrigin::Json,
                FieldParser::Logfmt => FieldOrigin::Logfmt,
            };
            fields += found.len();
            for field in found {
                table.add(origin, &field.name, &field.value, side);
            }
        }
        Ok(spend(row.line().len() + FIELD_UNITS * fields)?)
    }
}

/// Adds up the counts of all pages.
struct Gathering {
    table: Table,
    memory: Reservation,
    sampling: Sampling,
}

impl Collect<Counted> for Gathering {
    fn want(&mut self, item: &ScanItem) -> Want {
        match item {
            ScanItem::Page(page) if self.sampling.takes(&**page) => Want::Take,
            _ => Want::Skip,
        }
    }

    fn collect(&mut self, counted: Counted) -> Result<(), Error> {
        self.table.merge(counted.table, counted.weight);
        page_sample::cover(&mut self.memory, self.table.bytes())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::time::Duration;

    use sandur_memory::MemoryBudget;
    use sandur_model::{Labels, Level, TenantId};
    use sandur_query::differences::{FieldDifference, ValueShare};
    use sandur_query::{MemoryRow, MemorySource};
    use sandur_runtime::Env;

    use super::*;

    const S: i64 = 1_000_000_000;

    fn row(second: i64, host: &str, line: String) -> MemoryRow {
        MemoryRow {
            labels: Arc::new(Labels::from_pairs([("app", "api"), ("host", host)])),
            timestamp: second * S,
            line: line.into(),
            metadata: Vec::new(),
            level: Level::None,
        }
    }

    /// Between 400 s and 500 s most lines are from host c, with a new version; users are all different.
    fn rows() -> Vec<MemoryRow> {
        let mut rows = Vec::new();
        for second in 0..1_000 {
            for host in ["a", "b", "c"] {
                rows.push(row(
                    second,
                    host,
                    format!(r#"{{"v":"1","user":"u{second}{host}","n":{}}}"#, second % 2),
                ));
            }
            if (400..500).contains(&second) {
                for n in 0..5 {
                    let line = format!(r#"{{"v":"2","user":"x{second}{n}","n":{},"hot":"yes"}}"#, second % 2);
                    rows.push(row(second, "c", line));
                }
            }
        }
        rows
    }

    fn ask(rows: Vec<MemoryRow>, query: &str, budget: u64) -> Result<Differences, Error> {
        let source = MemorySource::new(rows);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        runtime.block_on(async {
            let (budget, tenant) = (MemoryBudget::root("query", budget), TenantId::default_tenant());
            let context =
                QueryContext::new(Env::system(2), tenant, budget.clone(), Duration::from_secs(3_600));
            let request = DifferencesRequest {
                range: TimeRange::new(0, 1_000 * S),
                inside: TimeRange::new(400 * S, 500 * S),
            };
            let query = crate::parse(query)?;
            let answer = differences(&source, &context, &query, request).await;
            assert_eq!(budget.used(), 0, "all memory is released");
            answer
        })
    }

    fn field<'a>(answer: &'a Differences, name: &str) -> &'a FieldDifference {
        answer.fields.iter().find(|field| field.name == name).unwrap()
    }

    #[test]
    fn counts_are_those_of_a_plain_computation() {
        let answer = ask(rows(), r#"{app="api"}"#, 64 << 20).unwrap();
        assert_eq!((answer.rows, answer.every, answer.has_more), ([800, 2_700], [1, 1], false));
        let mut plain: BTreeMap<&str, Sides> = BTreeMap::new();
        let all = rows();
        for row in &all {
            let side = usize::from(!(400 * S..500 * S).contains(&row.timestamp));
            plain.entry(row.labels.get("host").unwrap()).or_default()[side] += 1;
        }
        let host = field(&answer, "host");
        let found: BTreeMap<&str, Sides> =
            host.values.iter().map(|v| (v.value.as_deref().unwrap(), [v.inside, v.outside])).collect();
        assert_eq!(found, plain);
        let names: Vec<&str> =
            answer.fields.iter().filter(|f| f.score > 0.0).map(|f| f.name.as_str()).collect();
        assert_eq!(names, ["hot", "v", "host"], "users are unique, and n and app do not differ");
        assert_eq!(field(&answer, "hot").values[0], ValueShare { value: None, inside: 300, outside: 2_700 });
        assert_eq!((field(&answer, "user").number, field(&answer, "user").rest), (3_500, [0, 0]));
        assert_eq!(field(&answer, "v").origin, FieldOrigin::Json);
    }

    #[test]
    fn filters_and_stages_of_the_query_apply() {
        let answer = ask(rows(), r#"{app="api"} |= "\"n\":1" | json | host != "a""#, 64 << 20).unwrap();
        assert_eq!(answer.rows, [350, 900]);
        assert_eq!(field(&answer, "v").origin, FieldOrigin::Parsed);
        assert_eq!(field(&answer, "host").number, 2);
        assert_eq!(field(&answer, "n").score, 0.0);
    }

    #[test]
    fn a_metric_query_and_too_little_memory_are_refused() {
        let refused = ask(rows(), r#"rate({app="api"}[1m])"#, 64 << 20).unwrap_err();
        assert!(matches!(refused, Error::Invalid(_)), "{refused}");
        let refused = ask(rows(), r#"{app="api"}"#, 100 << 10).unwrap_err();
        assert!(matches!(refused, Error::OverBudget(_)), "{refused}");
    }

    #[test]
    fn nothing_inside_differs_in_nothing() {
        let outside = rows().into_iter().filter(|row| row.timestamp < 300 * S).collect();
        let answer = ask(outside, r#"{app="api"}"#, 64 << 20).unwrap();
        assert_eq!(answer.rows, [0, 900]);
        assert!(answer.fields.iter().all(|field| field.score == 0.0 && field.values.is_empty()));
    }

    #[test]
    fn pages_of_the_box_are_sampled_by_its_own_rate() {
        let sampling = Sampling { inside: TimeRange::new(100, 200), every: [1, 7] };
        assert_eq!(sampling.every_of((90, 100)), 1);
        assert_eq!(sampling.every_of((150, 160)), 1);
        assert_eq!(sampling.every_of((0, 99)), 7);
        assert_eq!(sampling.every_of((200, 300)), 7);
    }
}

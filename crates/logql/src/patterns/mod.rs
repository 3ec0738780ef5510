//! Mines the patterns of the lines that a selector selects, with the numbers of their lines over time.
//!
//! Workers mask the lines of their pages ([`template`]) and count equal templates. The collector clusters
//! templates that differ in a few words ([`clusters`]). Each pattern matches its lines when it is used with
//! `|>`.
//!
//! **Bounds.** If the selected lines have more than [`BYTES_MAX`], they are sampled: every n-th page is
//! read, and its lines count n times. The numbers of templates of a page and of clusters are limited. The
//! memory of clusters is reserved from the query's budget.

mod clusters;
mod template;

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use sandur_memory::Reservation;
use sandur_model::{Level, Matcher, TimeRange};
use sandur_query::{
    Collect, Columns, Error, LogSource, Merging, Needles, Order, QueryContext, QueryStats, ScanItem,
    SeenRows, Selection, StreamsRequest, Want, Work, execute,
};

use crate::page_sample::{self, is_new};
use crate::pipeline::rows_between;
use clusters::{Clusters, Counts};
use template::Template;

/// The most bytes of lines that are read: about a second of one CPU.
const BYTES_MAX: u64 = 256 << 20;
/// The most templates of one page. Lines with further templates are ignored: lines that differ so much
/// have no patterns.
const PAGE_TEMPLATES_MAX: usize = 4_000;
/// The most patterns of an answer, as in Loki.
const PATTERNS_MAX: usize = 300;
/// The bytes of a point, including its copy while the answer is built.
const POINT_BYTES: u64 = 3 * size_of::<(i64, u64)>() as u64;
/// The shortest step, as in Loki.
const STEP_MIN_NS: i64 = 10_000_000_000;

/// The parameters of pattern mining.
#[derive(Clone, Debug)]
pub struct PatternsRequest {
    /// The matchers of the stream selector.
    pub matchers: Vec<Matcher>,
    /// The time range of the lines.
    pub range: TimeRange,
    /// The length of a step, in nanoseconds; at least ten seconds are used.
    pub step_ns: i64,
}

/// A pattern with its numbers of lines.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PatternSeries {
    /// The pattern, for `|>`.
    pub pattern: String,
    /// The level of its lines.
    pub level: Level,
    /// The start of each step in seconds and the number of lines in it, from the first to the last step
    /// with lines.
    pub samples: Vec<(i64, u64)>,
}

/// Finds the patterns with the most lines, in descending order.
pub async fn patterns(
    source: &dyn LogSource,
    context: &QueryContext,
    request: PatternsRequest,
) -> Result<Vec<PatternSeries>, Error> {
    let step_ns = request.step_ns.max(STEP_MIN_NS);
    let volumes = source
        .volumes(context, StreamsRequest { matchers: request.matchers.clone(), range: request.range })
        .await?;
    let bytes: u64 = volumes.iter().map(|volume| volume.bytes).sum();
    let every = page_sample::one_in(bytes, BYTES_MAX);
    let selection = Selection {
        matchers: request.matchers,
        range: request.range,
        order: Order::Any,
        needles: Needles::default(),
        columns: Columns { lines: true, metadata: true },
        counts: false,
        counts_by: Vec::new(),
    };
    let work = Mining {
        context: context.clone(),
        range: request.range,
        step_ns,
        seen: Mutex::new(SeenRows::new(context.budget())?),
    };
    let memory = context.budget().reserve(0)?;
    let mut gathering = Gathering { clusters: Clusters::default(), memory, every };
    let scan = source.scan(context, selection).await?;
    // Pages are merged in order, because clusters depend on it, and equal requests must have equal answers.
    execute(context, scan, Arc::new(work), &mut gathering, Merging::Ordered).await?;
    let mut series = Vec::new();
    for mined in gathering.clusters.mined().into_iter().take(PATTERNS_MAX) {
        // Filling gaps may add many more points than were counted.
        gathering.memory.grow(points(&mined.counts) * POINT_BYTES)?;
        let samples = samples(&mined.counts, step_ns, every);
        series.push(PatternSeries { pattern: mined.pattern, level: mined.level, samples });
    }
    Ok(series)
}

/// The number of points from the first to the last step with lines.
fn points(counts: &Counts) -> u64 {
    let ends = counts.0.first().zip(counts.0.last());
    ends.map_or(0, |((first, _), (last, _))| last.abs_diff(*first) + 1)
}

/// The points without gaps from the first to the last.
fn samples(counts: &Counts, step_ns: i64, every: u64) -> Vec<(i64, u64)> {
    let mut points = Vec::new();
    let mut next = None;
    for &(step, lines) in &counts.0 {
        points.extend((next.unwrap_or(step)..step).map(|gap| (gap, 0)));
        points.push((step, lines * every));
        next = Some(step + 1);
    }
    points.into_iter().map(|(step, lines)| (step * step_ns / 1_000_000_000, lines)).collect()
}

/// The job that masks and counts the lines of a page.
struct Mining {
    context: QueryContext,
    range: TimeRange,
    step_ns: i64,
    seen: Mutex<SeenRows>,
}

/// The templates of a page, with their lines by number of the step.
type Counted = HashMap<(Level, Template), Counts>;

impl Work for Mining {
    type Output = Counted;

    fn run(&self, _number: u32, item: ScanItem) -> Result<Counted, Error> {
        let mut counted = Counted::new();
        let ScanItem::Page(mut task) = item else { return Ok(counted) };
        let page = task.narrow()?;
        let lines = task.lines()?;
        let mut template = Template::default();
        for run in &page.runs {
            // The range's end is exclusive.
            let rows = rows_between(&page, run, self.range.start, self.range.end.saturating_sub(1));
            QueryStats::add(&self.context.stats().lines_processed, rows.len() as u64);
            for row in rows {
                let row = row as usize;
                if is_new(&self.seen, (&page, &lines), run, row)? {
                    template.mask(lines.line(row));
                    count(&mut counted, page.level(row), &mut template, page.timestamps[row] / self.step_ns);
                }
            }
        }
        Ok(counted)
    }
}

fn count(counted: &mut Counted, level: Level, template: &mut Template, step: i64) {
    let key = (level, std::mem::take(template));
    if let Some(counts) = counted.get_mut(&key) {
        counts.add(step, 1);
        // The buffers are reused for the next line.
        *template = key.1;
    } else if counted.len() < PAGE_TEMPLATES_MAX {
        counted.insert(key, Counts(vec![(step, 1)]));
    } else {
        *template = key.1;
    }
}

/// Clusters the templates of all pages.
struct Gathering {
    clusters: Clusters,
    memory: Reservation,
    /// One of this many pages is read.
    every: u64,
}

impl Collect<Counted> for Gathering {
    fn want(&mut self, item: &ScanItem) -> Want {
        match item {
            ScanItem::Page(page) if page_sample::takes(&**page, self.every) => Want::Take,
            _ => Want::Skip,
        }
    }

    fn collect(&mut self, counted: Counted) -> Result<(), Error> {
        let mut counted: Vec<((Level, Template), Counts)> = counted.into_iter().collect();
        // The order of a hash table is arbitrary.
        counted.sort_by(|(a, _), (b, _)| {
            (a.0, &a.1.skeleton, &a.1.words).cmp(&(b.0, &b.1.skeleton, &b.1.words))
        });
        for ((level, template), counts) in &counted {
            self.clusters.add(*level, template, counts);
        }
        page_sample::cover(&mut self.memory, self.clusters.bytes())
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use sandur_memory::MemoryBudget;
    use sandur_model::{Labels, TenantId};
    use sandur_query::{MemoryRow, MemorySource};
    use sandur_runtime::Env;

    use super::*;

    const S: i64 = 1_000_000_000;

    fn row(second: i64, line: &str, level: Level) -> MemoryRow {
        MemoryRow {
            labels: Arc::new(Labels::from_pairs([("app", "api")])),
            timestamp: second * S,
            line: line.to_owned().into(),
            metadata: Vec::new(),
            level,
        }
    }

    fn ask(source: MemorySource, step_s: i64, budget: u64) -> Result<Vec<PatternSeries>, Error> {
        ask_of(TimeRange::new(100 * S, 200 * S), source, step_s, budget)
    }

    fn ask_of(
        range: TimeRange,
        source: MemorySource,
        step_s: i64,
        budget: u64,
    ) -> Result<Vec<PatternSeries>, Error> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        runtime.block_on(async {
            let (budget, tenant) = (MemoryBudget::root("query", budget), TenantId::default_tenant());
            let context =
                QueryContext::new(Env::system(2), tenant, budget.clone(), Duration::from_secs(3_600));
            let request = PatternsRequest {
                matchers: crate::parse_selector(r#"{app="api"}"#).unwrap(),
                range,
                step_ns: step_s * S,
            };
            let answer = patterns(&source, &context, request).await;
            assert_eq!(budget.used(), 0, "all memory is released");
            answer
        })
    }

    fn rows() -> Vec<MemoryRow> {
        vec![
            row(99, "took 1ms for bob", Level::Info),
            row(101, "took 1ms for bob", Level::Info),
            row(105, "took 2ms for bob", Level::Info),
            row(135, "took 3ms for eve", Level::Info),
            row(140, "took 3ms for eve", Level::Error),
            row(200, "took 1ms for bob", Level::Info),
        ]
    }

    #[test]
    fn patterns_are_counted_by_step_and_level() {
        let answer = ask(MemorySource::new(rows()), 1, 1 << 20).unwrap();
        let of = |level: Level, samples: &[(i64, u64)]| PatternSeries {
            pattern: if level == Level::Info { "took <_> for <_>" } else { "took <_> for eve" }.to_owned(),
            level,
            samples: samples.to_vec(),
        };
        let expected =
            [of(Level::Info, &[(100, 2), (110, 0), (120, 0), (130, 1)]), of(Level::Error, &[(140, 1)])];
        assert_eq!(answer, expected, "the shortest step is ten seconds");
    }

    #[test]
    fn splitting_into_pages_and_repeating_rows_changes_nothing() {
        let whole = ask(MemorySource::new(rows()), 60, 1 << 20).unwrap();
        let pages = MemorySource::new(rows()).page_rows(2).duplicated(1);
        assert_eq!(ask(pages, 60, 1 << 20).unwrap(), whole);
    }

    #[test]
    fn memory_is_reserved() {
        assert!(matches!(ask(MemorySource::new(rows()), 60, 3_000), Err(Error::OverBudget(_))));
        // Two lines far apart have many points between them.
        let apart = || vec![row(101, "took 1ms", Level::Info), row(1_000_000, "took 1ms", Level::Info)];
        assert!(matches!(
            ask_of(TimeRange::ALL, MemorySource::new(apart()), 10, 1 << 20),
            Err(Error::OverBudget(_))
        ));
        let points =
            ask_of(TimeRange::ALL, MemorySource::new(apart()), 10, 64 << 20).unwrap()[0].samples.len();
        assert_eq!(points, 99_991);
    }
}

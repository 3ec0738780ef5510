//! A source of log rows in memory, for tests, conformance runs and demonstrations.
//!
//! It serves pages of a chosen size. On request it does what other sources may do: it serves pages in
//! any order where the selection permits it, serves rows twice with their runs marked as suspect, and
//! serves counts instead of pages for complete minutes. None of this may change the result of a query.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::sync::Arc;

use bytes::Bytes;
use sandur_base::BoxFuture;
use sandur_model::{
    Labels, Level, LineAutomaton, LineColumn, LogPage, MINUTE_NS, Matcher, MetadataColumn, MetadataValues,
    StreamRun, Suspect, TenantId, TimeRange, matches_all,
};

use crate::context::QueryContext;
use crate::error::Error;
use crate::series_batch::SampleScan;
use crate::series_index::{KnownSeries, SeriesIndex, SeriesRequest};
use crate::source::{
    CountsTask, Follow, LogSource, MinuteCount, Order, PageTask, Scan, ScanItem, Selection, StreamCounts,
    StreamVolume, StreamsRequest, Versions,
};

/// One stored row.
#[derive(Clone, Debug)]
pub struct MemoryRow {
    /// Labels of the stream.
    pub labels: Arc<Labels>,
    /// Nanoseconds since the epoch.
    pub timestamp: i64,
    /// The line.
    pub line: Bytes,
    /// Structured metadata, sorted by name.
    pub metadata: Vec<(Arc<str>, Arc<str>)>,
    /// Detected level.
    pub level: Level,
}

/// Runs before a scan begins; its error is the error of the scan.
type BeforeScan = dyn Fn(&QueryContext, &Selection) -> BoxFuture<'static, Result<(), Error>> + Send + Sync;

/// Rows in memory.
pub struct MemorySource {
    rows: Vec<MemoryRow>,
    /// Rows of tenants that do not see `rows`.
    own_rows: HashMap<TenantId, Vec<MemoryRow>>,
    before_scan: Option<Box<BeforeScan>>,
    page_rows: usize,
    shuffle: u64,
    duplicate_every: usize,
    counts: bool,
}

impl MemorySource {
    /// A source with these rows for every tenant. Rows of one stream and instant keep their order.
    pub fn new(mut rows: Vec<MemoryRow>) -> Self {
        rows.sort_by_key(|row| row.timestamp);
        let (own_rows, before_scan) = (HashMap::new(), None);
        Self { rows, own_rows, before_scan, page_rows: 1000, shuffle: 0, duplicate_every: 0, counts: false }
    }

    /// Gives a tenant its own rows instead of the common ones.
    pub fn of_tenant(mut self, tenant: TenantId, mut rows: Vec<MemoryRow>) -> Self {
        rows.sort_by_key(|row| row.timestamp);
        self.own_rows.insert(tenant, rows);
        self
    }

    /// Awaits `hook` before every scan; the scan fails when the hook does.
    pub fn before_scan<F>(mut self, hook: F) -> Self
    where
        F: Fn(&QueryContext, &Selection) -> BoxFuture<'static, Result<(), Error>> + Send + Sync + 'static,
    {
        self.before_scan = Some(Box::new(hook));
        self
    }

    /// Sets the number of rows per page.
    pub fn page_rows(mut self, rows: usize) -> Self {
        self.page_rows = rows.max(1);
        self
    }

    /// Serves the pages in an order drawn from `seed` where the selection permits any order.
    pub fn shuffled(mut self, seed: u64) -> Self {
        self.shuffle = seed | 1;
        self
    }

    /// Serves every `n`-th page again, split in two, with all rows marked as suspect. 0: never.
    pub fn duplicated(mut self, n: usize) -> Self {
        self.duplicate_every = n;
        self
    }

    /// Serves counts instead of pages for complete minutes when the selection can use them.
    pub fn with_counts(mut self) -> Self {
        self.counts = true;
        self
    }

    fn selected(&self, context: &QueryContext, matchers: &[Matcher], range: TimeRange) -> Vec<&MemoryRow> {
        let rows = self.own_rows.get(context.tenant()).unwrap_or(&self.rows);
        let inside = rows.iter().filter(|row| range.contains(row.timestamp));
        let matching = inside.filter(|row| matches_all(matchers, &row.labels));
        matching.filter(|row| context.part().has_labels(&row.labels)).collect()
    }

    fn items(&self, context: &QueryContext, selection: &Selection) -> VecDeque<ScanItem> {
        let mut rows = self.selected(context, &selection.matchers, selection.range);
        let mut items = Vec::new();
        if self.counts && selection.counts && self.duplicate_every == 0 {
            let minutes = whole_minutes(selection.range);
            let by = &selection.counts_by;
            let known =
                |row: &MemoryRow| row.metadata.iter().all(|(name, _)| !by.iter().any(|b| **b == **name));
            let (counted, edges): (Vec<_>, Vec<_>) =
                rows.into_iter().partition(|row| minutes.contains(&minute_of(row.timestamp)) && known(row));
            rows = edges;
            items.push(ScanItem::Counts(Box::new(MemoryCounts(count(&counted)))));
        }
        let mut pages: Vec<MemoryPage> = Vec::new();
        for (n, chunk) in rows.chunks(self.page_rows).enumerate() {
            let twice = self.duplicate_every > 0 && n % self.duplicate_every == 0;
            pages.push(MemoryPage::new(chunk, twice, selection));
            if twice {
                let middle = chunk.len() / 2;
                let parts = [&chunk[..middle], &chunk[middle..]];
                pages.extend(
                    parts.iter().filter(|p| !p.is_empty()).map(|p| MemoryPage::new(p, true, selection)),
                );
            }
        }
        match selection.order {
            Order::NewestFirst => {
                pages.reverse();
                pages.sort_by_key(|page| std::cmp::Reverse(page.bounds.1));
            }
            Order::OldestFirst => pages.sort_by_key(|page| page.bounds.0),
            Order::Any => shuffle(&mut pages, self.shuffle),
        }
        items.extend(pages.into_iter().map(|page| ScanItem::Page(Box::new(page))));
        items.into()
    }

    fn labels_of(&self, context: &QueryContext, matchers: &[Matcher], range: TimeRange) -> BTreeSet<&Labels> {
        self.selected(context, matchers, range).into_iter().map(|row| &*row.labels).collect()
    }
}

fn shuffle<T>(items: &mut [T], seed: u64) {
    if seed == 0 {
        return;
    }
    let mut state = seed;
    for n in (1..items.len()).rev() {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        items.swap(n, (state >> 33) as usize % (n + 1));
    }
}

/// The number of the minute that contains an instant; minutes are numbered by their end.
fn minute_of(timestamp: i64) -> i64 {
    (timestamp - 1).div_euclid(MINUTE_NS) + 1
}

/// The minutes that are completely inside the range.
fn whole_minutes(range: TimeRange) -> std::ops::RangeInclusive<i64> {
    // Minute m contains (m - 1) * 60 s + 1 ..= m * 60 s.
    let first =
        (range.start - 1).div_euclid(MINUTE_NS) + i64::from((range.start - 1).rem_euclid(MINUTE_NS) != 0) + 1;
    let last = (range.end - 1).div_euclid(MINUTE_NS);
    first..=last
}

fn count(rows: &[&MemoryRow]) -> Vec<StreamCounts> {
    /// Lines and bytes by minute.
    type Minutes = BTreeMap<i64, (u32, u64)>;
    let mut groups: BTreeMap<(&Arc<Labels>, Level), Minutes> = BTreeMap::new();
    for row in rows {
        let minutes = groups.entry((&row.labels, row.level)).or_default();
        let cell = minutes.entry(minute_of(row.timestamp)).or_default();
        *cell = (cell.0 + 1, cell.1 + row.line.len() as u64);
    }
    let counts = groups.into_iter().map(|((labels, level), minutes)| {
        let minutes: Vec<MinuteCount> = minutes
            .into_iter()
            .map(|(minute, (lines, bytes))| MinuteCount { minute: minute as i32, lines, bytes })
            .collect();
        let to = minutes.len();
        StreamCounts { labels: Arc::clone(labels), level, minutes: Arc::new(minutes), from: 0, to }
    });
    counts.collect()
}

struct MemoryCounts(Vec<StreamCounts>);

impl CountsTask for MemoryCounts {
    fn memory_bytes(&self) -> u64 {
        self.0.iter().map(|c| (c.minutes.len() * size_of::<MinuteCount>() + 64) as u64).sum()
    }

    fn decode(self: Box<Self>) -> Result<Vec<StreamCounts>, Error> {
        Ok(self.0)
    }
}

struct MemoryPage {
    page: LogPage,
    lines: LineColumn,
    bounds: (i64, i64),
    lines_asked: bool,
    /// Whether the page can test its lines; about two of three pages can.
    can_test: bool,
}

impl MemoryPage {
    fn new(rows: &[&MemoryRow], suspect: bool, selection: &Selection) -> Self {
        let bounds = (rows[0].timestamp, rows[rows.len() - 1].timestamp);
        let mut sorted = rows.to_vec();
        sorted.sort_by(|a, b| a.labels.cmp(&b.labels).then(a.timestamp.cmp(&b.timestamp)));
        let mut page = LogPage::default();
        let mut text = Vec::new();
        let mut ends = Vec::new();
        for (n, row) in sorted.iter().enumerate() {
            let suspect = suspect.then_some(Suspect { first: bounds.0, last: bounds.1 });
            match page.runs.last_mut() {
                Some(run) if run.labels == row.labels => run.end = n as u32 + 1,
                _ => page.runs.push(StreamRun {
                    labels: Arc::clone(&row.labels),
                    start: n as u32,
                    end: n as u32 + 1,
                    suspect,
                }),
            }
            page.timestamps.push(row.timestamp);
            text.extend_from_slice(&row.line);
            ends.push(text.len() as u32);
            text.push(b'\n');
        }
        let lines_asked = selection.columns.lines || suspect;
        if selection.columns.metadata || suspect {
            if sorted.iter().any(|row| row.level != Level::None) {
                page.levels = sorted.iter().map(|row| row.level).collect();
            }
            page.metadata = metadata_columns(&sorted);
        }
        let can_test = bounds.1.rem_euclid(3) > 0;
        Self { page, lines: LineColumn { bytes: text.into(), ends }, bounds, lines_asked, can_test }
    }
}

fn metadata_columns(rows: &[&MemoryRow]) -> Vec<MetadataColumn> {
    let names: BTreeSet<&Arc<str>> = rows.iter().flat_map(|r| r.metadata.iter().map(|(n, _)| n)).collect();
    let column = |name: &Arc<str>| {
        let value =
            |row: &&MemoryRow| row.metadata.iter().find(|(n, _)| n == name).map(|(_, v)| Arc::clone(v));
        let all: Vec<Option<Arc<str>>> = rows.iter().map(value).collect();
        let values: Vec<Arc<str>> =
            all.iter().flatten().cloned().collect::<BTreeSet<_>>().into_iter().collect();
        let id = |v: &Option<Arc<str>>| {
            v.as_ref().map_or(0, |v| values.binary_search(v).map_or(0, |n| n as u16 + 1))
        };
        let ids = all.iter().map(id).collect();
        MetadataColumn { name: Arc::clone(name), values: MetadataValues::Dictionary { ids, values } }
    };
    names.into_iter().map(column).collect()
}

impl PageTask for MemoryPage {
    fn bounds(&self) -> (i64, i64) {
        self.bounds
    }

    fn memory_bytes(&self) -> u64 {
        self.page.memory_bytes() + (self.lines.bytes.len() + self.lines.ends.len() * 4) as u64
    }

    fn narrow(&mut self) -> Result<LogPage, Error> {
        Ok(self.page.clone())
    }

    fn lines(&mut self) -> Result<LineColumn, Error> {
        if !self.lines_asked {
            return Err(Error::Internal("lines were not requested".to_owned()));
        }
        Ok(self.lines.clone())
    }

    fn retain(&mut self, test: &LineAutomaton, negated: bool, alive: &mut [bool]) -> Result<bool, Error> {
        let is_tested = self.can_test && self.lines_asked;
        for (row, alive) in alive.iter_mut().enumerate().filter(|_| is_tested) {
            *alive &= test.passes(self.lines.line(row)) != negated;
        }
        Ok(is_tested)
    }

    fn lines_of(&mut self, wanted: &[bool]) -> Result<LineColumn, Error> {
        let lines = self.lines()?;
        let (mut bytes, mut ends) = (Vec::new(), Vec::new());
        for (row, &wanted) in wanted.iter().enumerate() {
            bytes.extend_from_slice(if wanted { lines.line(row) } else { b"" });
            ends.push(bytes.len() as u32);
            bytes.push(b'\n');
        }
        Ok(LineColumn { bytes: bytes.into(), ends })
    }
}

struct MemoryScan(VecDeque<ScanItem>);

impl Scan for MemoryScan {
    fn next(&mut self) -> BoxFuture<'_, Result<Option<ScanItem>, Error>> {
        let item = self.0.pop_front();
        Box::pin(async { Ok(item) })
    }
}

impl SeriesIndex for MemorySource {
    fn series<'a>(
        &'a self,
        context: &'a QueryContext,
        SeriesRequest { any_of, range }: SeriesRequest,
    ) -> BoxFuture<'a, Result<Box<dyn SampleScan>, Error>> {
        let found: BTreeSet<&Labels> =
            any_of.iter().flat_map(|m| self.labels_of(context, m, range)).collect();
        let streams = found.into_iter().map(|labels| Arc::new(labels.clone())).collect();
        let scan = KnownSeries::new(context, streams).map(|scan| Box::new(scan) as Box<dyn SampleScan>);
        Box::pin(std::future::ready(scan))
    }
}

impl Versions for MemorySource {}

impl LogSource for MemorySource {
    fn scan<'a>(
        &'a self,
        context: &'a QueryContext,
        selection: Selection,
    ) -> BoxFuture<'a, Result<Box<dyn Scan>, Error>> {
        let before = self.before_scan.as_ref().map(|hook| hook(context, &selection));
        Box::pin(async move {
            if let Some(before) = before {
                before.await?;
            }
            let scan: Box<dyn Scan> = Box::new(MemoryScan(self.items(context, &selection)));
            Ok(scan)
        })
    }

    fn volumes<'a>(
        &'a self,
        context: &'a QueryContext,
        StreamsRequest { matchers, range }: StreamsRequest,
    ) -> BoxFuture<'a, Result<Vec<StreamVolume>, Error>> {
        let mut volumes: BTreeMap<&Labels, (u64, u64)> = BTreeMap::new();
        for row in self.selected(context, &matchers, range) {
            let cell = volumes.entry(&row.labels).or_default();
            *cell = (cell.0 + 1, cell.1 + row.line.len() as u64);
        }
        let volume = |(labels, (lines, bytes)): (&Labels, (u64, u64))| StreamVolume {
            labels: Arc::new(labels.clone()),
            lines,
            bytes,
            pages: lines.div_ceil(self.page_rows as u64),
        };
        let volumes = volumes.into_iter().map(volume).collect();
        Box::pin(async { Ok(volumes) })
    }

    fn follow(&self, _context: &QueryContext, _matchers: Vec<Matcher>) -> Result<Box<dyn Follow>, Error> {
        Ok(Box::new(NothingNew))
    }
}

/// A source in memory has no new rows.
struct NothingNew;

impl Follow for NothingNew {
    fn next(&mut self) -> BoxFuture<'_, Option<crate::source::Followed>> {
        Box::pin(async { None })
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::source::{Columns, Needles};
    use sandur_memory::MemoryBudget;
    use sandur_runtime::Env;

    fn rows() -> Vec<MemoryRow> {
        let row = |n: i64| MemoryRow {
            labels: Arc::new(Labels::from_pairs([("app", if n % 3 == 0 { "a" } else { "b" })])),
            timestamp: n * 20_000_000_000,
            line: Bytes::from(format!("line {n}")),
            metadata: vec![("k".into(), format!("{}", n % 2).into())],
            level: Level::Info,
        };
        (0..30).map(row).collect()
    }

    fn selection(counts: bool) -> Selection {
        Selection {
            matchers: Vec::new(),
            range: TimeRange::new(1, 30 * 20_000_000_000),
            order: Order::Any,
            needles: Needles::default(),
            columns: Columns { lines: true, metadata: true },
            counts,
            counts_by: Vec::new(),
        }
    }

    fn total(source: &MemorySource, counts: bool) -> (usize, u64, usize) {
        let (mut rows, mut counted, mut suspects) = (0, 0, 0);
        let (env, budget) = (Env::simulated(1, 0), MemoryBudget::root("query", 1 << 20));
        let context = QueryContext::new(env, TenantId::default_tenant(), budget, Duration::from_secs(9));
        for item in source.items(&context, &selection(counts)) {
            match item {
                ScanItem::Page(mut page) => {
                    let narrow = page.narrow().unwrap();
                    rows += narrow.rows();
                    suspects += narrow.runs.iter().filter(|r| r.suspect.is_some()).count();
                    assert_eq!(page.lines().unwrap().ends.len(), narrow.timestamps.len());
                }
                ScanItem::Counts(task) => {
                    let counts = task.decode().unwrap();
                    counted +=
                        counts.iter().flat_map(|c| c.minutes()).map(|m| u64::from(m.lines)).sum::<u64>();
                }
            }
        }
        (rows, counted, suspects)
    }

    #[test]
    fn every_row_is_served_once_or_marked_as_suspect() {
        assert_eq!(total(&MemorySource::new(rows()).page_rows(4).shuffled(9), false), (29, 0, 0));
        let (served, _, suspects) = total(&MemorySource::new(rows()).page_rows(4).duplicated(2), false);
        assert!(served > 29 && suspects > 0);
    }

    #[test]
    fn counts_cover_complete_minutes_and_pages_the_rest() {
        let (rows, counted, _) = total(&MemorySource::new(rows()).with_counts(), true);
        // Rows 1..=29 are 20 s apart from 20 s on; the range is [1 ns, 600 s). The first complete minute
        // begins at 1 ns, and the last one ends at 540 s.
        assert_eq!((rows, counted), (2, 27));
    }
}

//! Plans the reads of one cluster of sources: which counts, which pages, in which order.
//!
//! Pages are ruled out by time, by streams, and by needle filters, before any of them is fetched.
//! Suspect streams are looked for only among the remaining pages: a row that is stored twice has the
//! same line in both places, so filters rule out both or neither.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::sync::Arc;

use roaring::RoaringBitmap;
use sandur_base::Id;
use sandur_format::catalog_entry::BlockMeta;
use sandur_format::log_block::{Carriers, Footer};
use sandur_memory::Reservation;
use sandur_model::{Level, LogPage, MINUTE_NS, Matcher, Suspect, TenantId, TimeRange};
use sandur_query::{Columns, Error, Order, PageTask, QueryContext, QueryStats, ScanItem, Selection};

use super::page::{BlockCountsTask, BlockSelection, SuspectPage, SuspectsByOrdinal};
use crate::blocks::reader::BlockReader;
use crate::error::{ReadError, or_warn};
use crate::head::Head;
use crate::logs::block::OpenLogs;
use crate::logs::head::WantedStreams;
use crate::logs::mask::{Mask, MaskedPage};
use crate::logs::pages::{Sought, pages_holding};
use crate::logs::suspects::{StreamSpan, Suspects};
use crate::logs::touched::{Touched, touched};
use crate::needles::NeedleKeys;
use crate::reading::matching;
use crate::rules::Rules;

/// The columns that are needed to compare rows.
const WHOLE_ROWS: Columns = Columns { lines: true, metadata: true };

/// Blocks and heads whose times overlap.
#[derive(Clone)]
pub struct Cluster {
    /// The blocks, each with the times of its rows that belong to this cluster.
    pub blocks: Vec<(Arc<BlockMeta>, TimeRange)>,
    /// The heads, each with the bounds of its rows when the cluster was made. Rows of other times that
    /// arrived later belong to no cluster of this scan.
    pub heads: Vec<(Arc<Head>, TimeRange)>,
}

/// A page to be read.
pub enum Planned {
    /// A page of a block.
    Block(Arc<BlockSelection>, u32),
    /// A page of a head.
    Head(Box<dyn PageTask>),
}

/// What to read of a cluster.
pub struct Plan {
    /// Counts, in no order.
    pub counts: Vec<ScanItem>,
    /// Pages in the selection's order.
    pub pages: Vec<Planned>,
    /// The memory of the list of pages.
    pub memory: Reservation,
}

/// A block with the parts of it to read.
pub(super) struct Wanted {
    pub(super) block: Arc<OpenLogs>,
    /// The requested times of the block.
    range: TimeRange,
    /// All selected streams with rows in the range.
    pub(super) streams: RoaringBitmap,
    /// The streams whose rows are counted from the footer.
    counted: RoaringBitmap,
    /// Pages that may hold rows of the other streams.
    pages: Vec<u32>,
    /// The rows that deletes hide.
    touched: Touched,
    /// The memory of these sets and lists.
    memory: Reservation,
}

/// The matching rows of a head.
pub(super) struct HeadPart {
    pages: Vec<Box<dyn PageTask>>,
    pub(super) spans: Vec<StreamSpan>,
}

/// Plans queries over clusters.
pub struct Planner {
    /// The reader of footers and filters.
    pub reader: BlockReader,
    /// The context of the query.
    pub context: QueryContext,
    /// The rows that the query selects.
    pub selection: Arc<Selection>,
    /// Its needles as filter keys.
    pub needles: NeedleKeys,
    /// The rules that hide rows.
    pub rules: Rules,
}

impl Planner {
    /// Opens the cluster's footers and decides what to read.
    pub async fn plan(&self, cluster: Cluster) -> Result<Plan, Error> {
        let started = self.context.env().monotonic();
        let mut wanted = self.open(&cluster.blocks).await?;
        // The suspect streams are known only after the heads' pages.
        let range = self.selection.range;
        let mut rules = self.rules.between(range.start, range.end.saturating_sub(1));
        let whole = wanted.len() + cluster.heads.len() > 1 || rules.any(|rule| rule.looks_at_rows());
        let columns = if whole { WHOLE_ROWS } else { self.selection.columns };
        let heads = self.heads_with_rows(&cluster.heads, columns).await?;
        let several = wanted.len() + heads.len() > 1;
        let mut suspects = Suspects::default();
        if self.counts_whole_minutes() {
            if several {
                suspects =
                    self.suspects(&wanted, self.spans(&wanted, &heads, |w| w.streams.clone())?).await?;
            }
            for one in &mut wanted {
                one.counted = self.countable(one, &suspects);
            }
        }
        for one in &mut wanted {
            one.pages = self.pages_of(one).await?;
            one.memory.grow((one.pages.len() * size_of::<u32>()) as u64)?;
        }
        if several && !self.counts_whole_minutes() {
            suspects = self.suspects(&wanted, self.spans(&wanted, &heads, streams_of_pages)?).await?;
        }
        let plan = self.assemble(wanted, heads, Arc::new(suspects))?;
        QueryStats::add_time(
            &self.context.stats().index_ns,
            self.context.env().monotonic().saturating_sub(started),
        );
        Ok(plan)
    }

    async fn open(&self, blocks: &[(Arc<BlockMeta>, TimeRange)]) -> Result<Vec<Wanted>, Error> {
        let stats = self.context.stats();
        let (blocks, times): (Vec<_>, Vec<_>) = blocks.iter().cloned().unzip();
        let opened = self.reader.open_all::<Footer>(&blocks, stats).await;
        QueryStats::add(&stats.blocks_opened, blocks.len() as u64);
        let mut wanted = Vec::with_capacity(blocks.len());
        for (block, times) in opened.into_iter().zip(times) {
            let Some(block) = or_warn(&self.context, block)? else { continue };
            let selected = matching::in_block(&self.context, &block, &self.selection.matchers).await?;
            let selected = selected.map_err(|reason| ReadError::damaged(&block.meta, reason));
            let Some(selected) = or_warn(&self.context, selected)? else { continue };
            let range = self.asked_of(&block.meta, times);
            let mut streams = block.footer.streams().touching(selected, range);
            let rules = self.rules.between(block.meta.min_ts, block.meta.max_ts);
            let of_interest = (&streams, range);
            let memory = (self.context.budget(), stats);
            let touched = touched(&self.reader, &block, of_interest, rules, memory).await;
            let Some(touched) = or_warn(&self.context, touched)? else { continue };
            streams -= &touched.gone;
            QueryStats::add(&stats.streams, streams.len());
            if !streams.is_empty() {
                let (counted, pages) = (RoaringBitmap::new(), Vec::new());
                // The streams, and as many of them that are counted.
                let memory = self.context.budget().reserve(2 * streams.serialized_size() as u64)?;
                wanted.push(Wanted { block, range, streams, counted, pages, touched, memory });
            }
        }
        Ok(wanted)
    }

    /// The requested times of a block, of which `times` belong to the cluster.
    fn asked_of(&self, block: &BlockMeta, times: TimeRange) -> TimeRange {
        match times.covers(block.min_ts, block.max_ts) {
            true => self.selection.range,
            false => self.selection.range.intersect(&times),
        }
    }

    /// Makes the heads' pages first and reads their bounds afterwards, so that a page's rows lie within
    /// the bounds even if more rows arrive in between.
    async fn heads_with_rows(
        &self,
        heads: &[(Arc<Head>, TimeRange)],
        columns: Columns,
    ) -> Result<Vec<HeadPart>, Error> {
        let order = self.selection.order;
        let (heads, ranges): (Vec<_>, Vec<_>) = heads
            .iter()
            .map(|(head, times)| (Arc::clone(head), self.selection.range.intersect(times)))
            .unzip();
        let part = self.context.part();
        let of_head = move |n: usize, head: &Head, tenant: &TenantId, matchers: &[Matcher]| {
            let (range, wanted) = (ranges[n], WantedStreams { tenant, matchers, part });
            let pages = head.logs().page_tasks(wanted, range, order, columns);
            let bounds = head.logs().stream_bounds(wanted, range);
            let span = |b: crate::logs::head::StreamBounds| StreamSpan {
                source: u32::MAX,
                stream: b.id,
                first: b.first.max(range.start),
                last: b.last.min(range.end.saturating_sub(1)),
            };
            HeadPart { pages, spans: bounds.into_iter().map(span).collect() }
        };
        let mut parts = matching::in_heads(&self.context, &heads, &self.selection.matchers, of_head).await?;
        parts.retain(|part| !part.pages.is_empty());
        Ok(parts)
    }

    /// Counts may replace rows if the range consists of full minutes.
    fn counts_whole_minutes(&self) -> bool {
        self.selection.counts && is_of_whole_minutes(self.selection.range)
    }

    /// The streams whose counts answer the query: their rows are stored once, and each label that the
    /// query groups by is either a stream label or occurs in no row's structured metadata.
    fn countable(&self, one: &Wanted, suspects: &Suspects) -> RoaringBitmap {
        let table = one.block.footer.streams();
        let has_own_levels = |ordinal| table.stats(ordinal).levels & (1 << Level::None as u16) == 0;
        let keys = one.block.footer.metadata_keys();
        let asked: Vec<_> = self.selection.counts_by.iter().map(|l| (l.as_str(), keys.carriers(l))).collect();
        let knows = |ordinal: u32, (label, carriers): &(&str, Carriers<'_>)| {
            table.label(ordinal, label).is_some()
                || !carriers.may_include(ordinal)
                || (*label == LogPage::DETECTED_LEVEL && has_own_levels(ordinal))
        };
        let countable = |ordinal: &u32| {
            // Counts include hidden rows.
            let whole = !one.touched.partly.contains(*ordinal);
            let stats = table.stats(*ordinal);
            let meets = |times: &Suspect| stats.min_ts <= times.last && times.first <= stats.max_ts;
            let unique =
                suspects.is_empty() || !suspects.get(&one.block.series_id(*ordinal)).is_some_and(meets);
            whole && unique && asked.iter().all(|label| knows(*ordinal, label))
        };
        match is_of_whole_minutes(one.range) {
            true => one.streams.iter().filter(countable).collect(),
            false => RoaringBitmap::new(),
        }
    }

    async fn pages_of(&self, one: &Wanted) -> Result<Vec<u32>, Error> {
        let streams = &one.streams - &one.counted;
        let stats = self.context.stats();
        if streams.is_empty() {
            return Ok(Vec::new());
        }
        let began = self.context.env().monotonic();
        let sought = Sought { range: one.range, streams: &streams, needles: &self.needles };
        let memory = (self.context.budget(), stats);
        let found = pages_holding(&self.reader, &one.block, sought, memory).await;
        let Some(found) = or_warn(&self.context, found)? else { return Ok(Vec::new()) };
        found.unread.iter().for_each(|damage| self.context.warn(damage.to_string()));
        QueryStats::add(&stats.pages_total, found.before_filters);
        QueryStats::add(&stats.filters_asked, found.filters_asked);
        QueryStats::add(&stats.pages_filtered, found.before_filters - found.pages.len());
        QueryStats::add_time(&stats.filter_ns, self.context.env().monotonic().saturating_sub(began));
        Ok(found.pages.iter().collect())
    }

    fn assemble(
        &self,
        wanted: Vec<Wanted>,
        heads: Vec<HeadPart>,
        suspects: Arc<Suspects>,
    ) -> Result<Plan, Error> {
        let (selection, budget) = (&self.selection, self.context.budget());
        let count = wanted.iter().map(|one| one.pages.len()).sum::<usize>()
            + heads.iter().map(|head| head.pages.len()).sum::<usize>();
        let memory = budget.reserve((count * size_of::<Planned>()) as u64)?;
        let mut plan = Plan { counts: Vec::new(), pages: Vec::with_capacity(count), memory };
        for one in wanted {
            if !one.counted.is_empty() {
                plan.counts.push(self.counts_item(&one));
            }
            if one.pages.is_empty() {
                continue;
            }
            let streams = &one.streams - &one.counted;
            let suspects = match suspects.is_empty() {
                true => HashMap::default(),
                false => streams
                    .iter()
                    .filter_map(|n| Some((n, *suspects.get(&one.block.series_id(n))?)))
                    .collect(),
            };
            let (doubtful, sure) = split_by_doubt(&one.block, one.pages, &suspects);
            let read = |suspects: &SuspectsByOrdinal, columns, mask| {
                let bytes = streams.serialized_size() + suspects.capacity() * size_of::<(u32, Suspect)>();
                let memory = budget.reserve((size_of::<BlockSelection>() + bytes) as u64)?;
                Ok::<_, Error>(Arc::new(BlockSelection {
                    block: Arc::clone(&one.block),
                    streams: streams.clone(),
                    suspects: suspects.clone(),
                    range: one.range,
                    columns,
                    mask,
                    context: self.context.clone(),
                    _memory: memory,
                }))
            };
            let parts = [(sure, HashMap::default(), selection.columns), (doubtful, suspects, WHOLE_ROWS)];
            for (pages, suspects, columns) in parts {
                let (masked, plain) = split_by_mask(&one.touched, pages);
                let parts = [(plain, None), (masked, one.touched.mask.clone())];
                for (pages, mask) in parts.into_iter().filter(|(pages, _)| !pages.is_empty()) {
                    let whole = mask.as_ref().is_some_and(|mask| mask.looks_at_rows());
                    let columns = if whole { WHOLE_ROWS } else { columns };
                    let part = read(&suspects, columns, mask)?;
                    plan.pages.extend(pages.into_iter().map(|page| Planned::Block(Arc::clone(&part), page)));
                }
            }
        }
        plan.pages.extend(heads.into_iter().flat_map(|head| head.pages).map(|inner| {
            let (suspects, context) = (Arc::clone(&suspects), self.context.clone());
            let (first, last) = inner.bounds();
            let page = Box::new(SuspectPage { inner, suspects, context });
            match Mask::of(self.rules.between(first, last).cloned().collect()) {
                Some(mask) => Planned::Head(Box::new(MaskedPage::new(page, mask, self.context.clone()))),
                None => Planned::Head(page),
            }
        }));
        // Rows of one instant are returned in the order in which they arrived, as far as pages show it.
        match selection.order {
            Order::NewestFirst => plan.pages.sort_by_key(|page| Reverse((page.bounds().1, page.age()))),
            Order::OldestFirst => plan.pages.sort_by_key(|page| (page.bounds().0, page.age())),
            Order::Any => {}
        }
        Ok(plan)
    }

    fn counts_item(&self, one: &Wanted) -> ScanItem {
        ScanItem::Counts(Box::new(BlockCountsTask {
            reader: self.reader.clone(),
            block: Arc::clone(&one.block),
            streams: one.counted.clone(),
            range: one.range,
            context: self.context.clone(),
            known: self.reader.known_counts(&one.block),
        }))
    }
}

/// Whether a range consists of full minutes `(a, b]`, as counts are stored.
fn is_of_whole_minutes(TimeRange { start, end }: TimeRange) -> bool {
    let whole = |at: i64| at.saturating_sub(1).rem_euclid(MINUTE_NS) == 0;
    whole(start) && whole(end)
}

impl Wanted {
    /// First and last instant to be read of the block: those of its pages, once they are chosen.
    pub(super) fn times_of_pages(&self) -> (i64, i64) {
        let (first, last) = (self.range.start, self.range.end.saturating_sub(1));
        let pages = self.pages.iter().map(|page| &self.block.footer.pages()[*page as usize]);
        let times = pages.map(|page| (page.min_ts, page.max_ts));
        match times.reduce(|(first, last), (min, max)| (first.min(min), last.max(max))) {
            Some((min, max)) => (first.max(min), last.min(max)),
            None => (first, last),
        }
    }
}

/// Splits the pages into those that may have hidden rows and the others.
fn split_by_mask(touched: &Touched, pages: Vec<u32>) -> (Vec<u32>, Vec<u32>) {
    pages.into_iter().partition(|page| touched.pages.contains(*page))
}

/// Splits the pages into those that may have suspect rows and the others, which are read with the
/// requested columns only.
fn split_by_doubt(block: &OpenLogs, pages: Vec<u32>, suspects: &SuspectsByOrdinal) -> (Vec<u32>, Vec<u32>) {
    let streams: RoaringBitmap = suspects.keys().collect();
    let first = suspects.values().map(|s| s.first).min().unwrap_or(i64::MAX);
    let last = suspects.values().map(|s| s.last).max().unwrap_or(i64::MIN);
    let doubtful = |page: &u32| {
        let entry = &block.footer.pages()[*page as usize];
        entry.min_ts <= last
            && first <= entry.max_ts
            && streams.range_cardinality(entry.first_stream..=entry.last_stream) > 0
    };
    pages.into_iter().partition(doubtful)
}

/// The selected streams in the stream ranges of the remaining pages.
fn streams_of_pages(one: &Wanted) -> RoaringBitmap {
    if one.pages.len() == one.block.footer.pages().len() {
        return one.streams.clone();
    }
    let mut near = RoaringBitmap::new();
    for page in one.pages.iter().map(|&n| &one.block.footer.pages()[n as usize]) {
        near.insert_range(page.first_stream..=page.last_stream);
    }
    near &= &one.streams;
    near
}

impl Planned {
    /// A sort key that is smaller for rows that arrived earlier: first merged blocks, then new blocks by
    /// their ids, then heads.
    ///
    /// A block that was rewritten for a delete request has a new id at its old level. Its rows therefore
    /// count as later than newer rows of the same level, which affects only rows of one instant. The old
    /// id cannot be used again: ids below a writer's orphan floor belong to no block.
    fn age(&self) -> (Reverse<u8>, Id, u32) {
        match self {
            Self::Block(selection, page) => {
                let meta = &selection.block.meta;
                (Reverse(meta.level), meta.id, *page)
            }
            Self::Head(_) => (Reverse(0), Id(u128::MAX), 0),
        }
    }

    /// First and last timestamp that the page may have within the requested times.
    pub fn bounds(&self) -> (i64, i64) {
        match self {
            Self::Block(selection, page) => {
                let entry = &selection.block.footer.pages()[*page as usize];
                let range = selection.range;
                (entry.min_ts.max(range.start), entry.max_ts.min(range.end.saturating_sub(1)))
            }
            Self::Head(task) => task.bounds(),
        }
    }
}

//! A running scan: one cluster after the other, with pages fetched ahead in batches.
//!
//! Two batches are in flight while the query processes earlier ones. Batches begin small, so that a
//! query for the latest rows does not fetch pages that it will not read. They double up to a size at
//! which a request costs little compared with its bytes. Fetched bytes are reserved from the query's
//! budget, of which half is left for the pages that are being processed. When the budget is short, the scan
//! fetches less ahead, down to one page. A call that failed for lack of memory can be repeated.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use futures_util::future::try_join_all;
use sandur_base::{BoxFuture, Id};
use sandur_cache::{Hint, Tier};
use sandur_memory::Reservation;
use sandur_query::{Error, PageTask, QueryContext, QueryStats, Scan, ScanItem, Selection};
use sandur_runtime::Task;

use super::ahead::PlansAhead;
use super::page::{BlockPage, BlockSelection, PageLines};
use super::plan::{Cluster, Plan, Planned, Planner};
use crate::blocks::bytes::Stored;
use crate::blocks::reader::BlockReader;
use crate::error::ReadError;
use crate::logs::mask::MaskedPage;
use crate::needles::NeedleKeys;
use crate::rules::Rules;

/// Stored bytes of the first batch.
const FIRST_BATCH_BYTES: u64 = 1 << 20;
/// Stored bytes of later batches: large enough that a request's fixed cost is small.
const BATCH_BYTES_MAX: u64 = 8 << 20;
/// The number of batches in flight.
const BATCHES_AHEAD: usize = 2;
/// Pages that are fetched ahead leave this fraction of the budget available.
const AHEAD_LEAVES_ONE_IN: u64 = 2;

type Fetched = Result<Vec<ScanItem>, Error>;

/// The scan of one selection.
pub struct EngineScan {
    reader: BlockReader,
    context: QueryContext,
    plans: PlansAhead,
    planned: VecDeque<Planned>,
    /// The memory of the list of planned pages.
    planned_memory: Reservation,
    /// Stored bytes of planned pages that are not being fetched yet.
    planned_bytes: u64,
    fetching: VecDeque<Task<Fetched>>,
    ready: VecDeque<ScanItem>,
    batch_bytes: u64,
    /// Stored bytes of all pages planned so far, by which the cache estimates the size of the scan.
    scan_bytes: u64,
}

impl EngineScan {
    /// A scan over clusters in the selection's order.
    pub fn new(
        reader: BlockReader,
        context: QueryContext,
        selection: Selection,
        clusters: impl IntoIterator<Item = Cluster>,
        rules: Rules,
    ) -> Self {
        let planner = Planner {
            reader: reader.clone(),
            context: context.clone(),
            needles: NeedleKeys::new(&selection.needles),
            selection: Arc::new(selection),
            rules,
        };
        let planned_memory = context.budget().empty();
        Self {
            reader,
            context,
            planned_memory,
            plans: PlansAhead::new(planner, clusters.into_iter().collect()),
            planned: VecDeque::new(),
            planned_bytes: 0,
            fetching: VecDeque::new(),
            ready: VecDeque::new(),
            batch_bytes: FIRST_BATCH_BYTES,
            scan_bytes: 0,
        }
    }

    async fn next_item(&mut self) -> Result<Option<ScanItem>, Error> {
        loop {
            self.context.check()?;
            self.take_ready_plans().await?;
            self.fetch_ahead()?;
            if let Some(item) = self.ready.pop_front() {
                return Ok(Some(item));
            }
            if let Some(task) = self.fetching.pop_front() {
                let fetched = task.join().await.map_err(|error| Error::Internal(error.to_string()))?;
                self.ready.extend(fetched?);
                continue;
            }
            let Some(plan) = self.plans.next().await? else { return Ok(None) };
            self.take(plan);
        }
    }

    /// Takes plans that are complete, so that a batch may have pages of several clusters.
    async fn take_ready_plans(&mut self) -> Result<(), Error> {
        while self.plans.is_ready() && self.planned_bytes < self.batch_bytes {
            match self.plans.next().await {
                Ok(Some(plan)) => self.take(plan),
                Ok(None) => break,
                Err(Error::OverBudget(_)) if !self.is_idle() => break,
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Whether no memory of this scan will be released by its next items.
    fn is_idle(&self) -> bool {
        self.planned.is_empty() && self.fetching.is_empty() && self.ready.is_empty()
    }

    fn take(&mut self, plan: Plan) {
        self.ready.extend(plan.counts);
        let bytes = plan.pages.iter().map(stored_bytes).sum::<u64>();
        self.scan_bytes += bytes;
        self.planned_bytes += bytes;
        self.planned_memory.absorb(plan.memory);
        self.planned.extend(plan.pages);
    }

    /// Starts fetches until enough are in flight. A short budget is an error only if no other work of
    /// this scan could release memory.
    fn fetch_ahead(&mut self) -> Result<(), Error> {
        let most = if self.context.saves_memory() { 1 } else { BATCHES_AHEAD };
        while self.fetching.len() < most && !self.planned.is_empty() {
            let idle = self.fetching.is_empty() && self.ready.is_empty();
            match self.start_batch(idle) {
                Ok(true) => {}
                Ok(false) => break,
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Takes planned pages up to the size of a batch and fetches them; one page if the query saves memory.
    /// Returns `false` when memory is short, unless one page must be fetched.
    fn start_batch(&mut self, must: bool) -> Result<bool, Error> {
        let (budget, saves_memory) = (self.context.budget().clone(), self.context.saves_memory());
        let must_leave = budget.capacity() / AHEAD_LEAVES_ONE_IN;
        let mut batch = Vec::new();
        let mut bytes = 0;
        while let Some(next) = self.planned.front() {
            let size = stored_bytes(next);
            if !batch.is_empty() && (saves_memory || bytes + size > self.batch_bytes) {
                break;
            }
            let is_first = must && batch.is_empty();
            let has_room = budget.available().saturating_sub(size) >= must_leave;
            if size > 0 && !is_first && (saves_memory || !has_room) {
                break;
            }
            let memory = match budget.reserve(size) {
                Ok(memory) => memory,
                Err(refusal) if is_first => return Err(refusal.into()),
                Err(_) => break,
            };
            bytes += size;
            self.planned_bytes -= size;
            self.planned_memory.shrink(size_of::<Planned>() as u64);
            batch.push((self.planned.pop_front().expect("there is a front"), memory));
        }
        if batch.is_empty() {
            return Ok(false);
        }
        self.batch_bytes = (self.batch_bytes * 2).min(BATCH_BYTES_MAX);
        let (reader, context) = (self.reader.clone(), self.context.clone());
        let hint = Hint::Scan { bytes: self.scan_bytes };
        let work = async move { fetch(&reader, &context, batch, hint).await };
        let task = self.context.env().spawn("fetch pages", work);
        self.fetching.push_back(task);
        Ok(true)
    }
}

impl Scan for EngineScan {
    fn next(&mut self) -> BoxFuture<'_, Result<Option<ScanItem>, Error>> {
        Box::pin(self.next_item())
    }
}

fn stored_bytes(page: &Planned) -> u64 {
    match page {
        Planned::Block(selection, index) => {
            let entry = &selection.block.footer.pages()[*index as usize];
            let lines = if selection.columns.lines { entry.lines.len } else { 0 };
            u64::from(entry.narrow.len) + u64::from(lines)
        }
        Planned::Head(_) => 0,
    }
}

/// A page of a block within a batch.
struct Wanted {
    position: usize,
    selection: Arc<BlockSelection>,
    index: u32,
    memory: Reservation,
}

/// Reads the stored bytes of a batch, with one call per block. Returns its pages in order.
async fn fetch(
    reader: &BlockReader,
    context: &QueryContext,
    batch: Vec<(Planned, Reservation)>,
    hint: Hint,
) -> Fetched {
    let mut items: Vec<Option<ScanItem>> = Vec::with_capacity(batch.len());
    let mut by_block: BTreeMap<Id, Vec<Wanted>> = BTreeMap::new();
    for (position, (page, memory)) in batch.into_iter().enumerate() {
        match page {
            Planned::Head(task) => items.push(Some(ScanItem::Page(task))),
            Planned::Block(selection, index) => {
                items.push(None);
                let id = selection.block.meta.id;
                by_block.entry(id).or_default().push(Wanted { position, selection, index, memory });
            }
        }
    }
    let reads = by_block.into_values().map(|pages| async move {
        let read = read_pages(reader, context, &pages, hint).await?;
        Ok::<_, Error>((pages, read))
    });
    for (pages, read) in try_join_all(reads).await? {
        for (page, stored) in pages.into_iter().zip(read) {
            let Some((narrow, lines)) = stored else { continue };
            let Wanted { position, selection, index, memory } = page;
            count_hit(context.stats(), narrow.tier, lines.as_ref().map(|lines| lines.tier));
            let (narrow, lines) =
                (narrow.bytes, lines.map_or(PageLines::None, |l| PageLines::Stored(l.bytes)));
            let mask = selection.mask.clone();
            let page: Box<dyn PageTask> =
                Box::new(BlockPage { selection, index, narrow, lines, timestamps: Vec::new(), memory });
            let page = match mask {
                Some(mask) => Box::new(MaskedPage::new(page, mask, context.clone())),
                None => page,
            };
            items[position] = Some(ScanItem::Page(page));
        }
    }
    Ok(items.into_iter().flatten().collect())
}

/// A page's narrow columns, and its lines if they are requested.
type StoredPage = (Stored, Option<Stored>);

/// Reads the stored bytes of pages of one block; `None` for pages that cannot be read. Reads all at
/// once. If that fails because of the block, reads page by page, since the rest of a truncated block is
/// still useful.
async fn read_pages(
    reader: &BlockReader,
    context: &QueryContext,
    pages: &[Wanted],
    hint: Hint,
) -> Result<Vec<Option<StoredPage>>, Error> {
    match read_together(reader, context, pages, hint).await {
        Ok(stored) => return Ok(stored.into_iter().map(Some).collect()),
        Err(error @ ReadError::Store { .. }) => return Err(Error::Unavailable(error.to_string())),
        Err(damage) => context.warn(damage.to_string()),
    }
    let mut stored: Vec<Option<StoredPage>> = Vec::with_capacity(pages.len());
    if pages.len() > 1 {
        for page in pages {
            match read_together(reader, context, std::slice::from_ref(page), hint).await {
                Ok(one) => stored.extend(one.into_iter().map(Some)),
                Err(error @ ReadError::Store { .. }) => return Err(Error::Unavailable(error.to_string())),
                Err(_) => stored.push(None),
            }
        }
    }
    stored.resize_with(pages.len(), || None);
    Ok(stored)
}

async fn read_together(
    reader: &BlockReader,
    context: &QueryContext,
    pages: &[Wanted],
    hint: Hint,
) -> Result<Vec<StoredPage>, ReadError> {
    let Some(first) = pages.first() else { return Ok(Vec::new()) };
    let mut pieces = Vec::with_capacity(2 * pages.len());
    for page in pages {
        let entry = &page.selection.block.footer.pages()[page.index as usize];
        pieces.push(entry.narrow);
        if page.selection.columns.lines {
            pieces.push(entry.lines);
        }
    }
    let read = reader.pieces(&first.selection.block.meta, &pieces, hint, context.stats()).await?;
    let mut stored = read.into_iter();
    let mut next = || stored.next().expect("one answer per piece");
    Ok(pages.iter().map(|page| (next(), page.selection.columns.lines.then(&mut next))).collect())
}

/// Counts a page as found in the slower of the tiers that held its parts.
fn count_hit(stats: &QueryStats, narrow: Tier, lines: Option<Tier>) {
    match (narrow, lines.unwrap_or(narrow)) {
        (Tier::Origin, _) | (_, Tier::Origin) => {}
        (Tier::Ram, Tier::Ram) => QueryStats::add(&stats.page_cache_hits, 1),
        (Tier::Flash, _) | (_, Tier::Flash) => QueryStats::add(&stats.page_flash_hits, 1),
    }
}

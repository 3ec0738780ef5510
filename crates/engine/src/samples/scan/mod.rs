//! Reading samples: the matching series of blocks and heads in batches, each series once with all samples.
//!
//! **Life of a scan.** [`SeriesScan::open`] takes a view, opens the footers of the blocks of the range and
//! selects series by their indexes. Every holder of series (block or head) has them sorted by labels, so
//! [`walk`] finds the next series by looking at the first one that is left of each holder: nothing is kept
//! of series that were not reached yet but a bitmap for each block. For a batch of them [`fetch`] reads the
//! pages that hold them, of all blocks at once, and [`decode`] puts their samples together in parts, on as
//! many threads of the CPU pool as there are. While a batch is used, part by part, the next one is decoded
//! and the one after it is read: a store is not waited for while there is something to compute.
//!
//! **Invariants.** Series come in the order of [`sandur_format::block::compare_series`], samples by
//! rising time, each time once: of samples that are
//! stored twice that of the holder which had it first. A damaged or missing block is a warning that names
//! it; a store that does not answer fails the query. Memory is reserved from the query's budget first.

mod decode;
mod fetch;
mod labels;
mod walk;

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

use futures_util::future::try_join_all;
use roaring::RoaringBitmap;
use sandur_base::{BoxFuture, OverBudget, Reservation, Task};
use sandur_format::catalog_entry::BlockMeta;
use sandur_format::sample_block::Footer;
use sandur_model::{Matcher, TenantId, TimeRange};
use sandur_query::{
    BATCH_SERIES, Error, LabelIds, QueryContext, QueryStats, SampleScan, SampleSelection, Samples,
    SeriesBatch,
};

use super::OpenSamples;
use super::head::SelectedSeries;
use super::hidden::HiddenSamples;
use super::index::{IndexError, IndexReader, or_warn};
use crate::block_reader::{self, BlockReader};
use crate::head::Head;
use crate::matching;
use crate::rules::Rules;
use crate::series_reader::{OPEN_AT_ONCE, SeriesReader};
use crate::view::View;
use decode::{Decoded, decode};
use fetch::{Fetched, Fetcher};
pub(super) use labels::LabelScan;
use walk::{Found, Walk};

/// Samples of a batch from which it takes no further series: 16 MiB of times and values.
const BATCH_ROWS: u64 = 1 << 20;
/// Series of a part: fewer would be handed over too often.
const PART_SERIES: usize = 64;
/// Parts of a batch for each thread, so that none of them waits long for the last.
const PARTS_PER_THREAD: usize = 2;
/// Bytes of a batch, as it is stored and decoded, that are quicker decoded than handed to the CPU pool.
const LITTLE_BYTES: u64 = 512 << 10;
/// Bytes that a series of a batch takes beside its samples and its labels.
const SERIES_BYTES: u64 = 200;

/// A block or a head, with the series of it that match.
pub(super) enum Holder {
    Block { block: Arc<OpenSamples>, hidden: HiddenSamples },
    Head { series: Arc<SelectedSeries> },
}

impl Holder {
    /// A block of which labels alone are asked for.
    fn of_labels(index: &IndexReader) -> Self {
        Self::Block { block: Arc::clone(index.block()), hidden: HiddenSamples::default() }
    }
}

/// A running scan.
pub(crate) struct SeriesScan {
    reader: BlockReader,
    context: QueryContext,
    selection: Arc<SampleSelection>,
    rules: Rules,
    holders: Arc<Vec<Holder>>,
    /// Unless it is away with the batch that is read.
    walk: Option<Walk>,
    /// Parts of the current batch that were not taken yet.
    parts: VecDeque<SeriesBatch>,
    /// The next batch, which is decoded while the one before it is used.
    ahead: Option<Task<Ahead>>,
    /// For the places of series in heads.
    _memory: Reservation,
}

impl SeriesScan {
    /// The matching series with samples in the range.
    pub(crate) async fn open(
        reader: &BlockReader,
        rules: Rules,
        view: &View,
        context: &QueryContext,
        selection: SampleSelection,
    ) -> Result<Self, Error> {
        let (matchers, range) = (&selection.matchers, selection.range());
        let blocks = blocks_of(view, context, range);
        let mut memory = context.budget().reserve(0)?;
        let (mut holders, mut walk) = (Vec::new(), Walk::new(context));
        for some in blocks.chunks(OPEN_AT_ONCE) {
            context.check()?;
            for block in reader.open_all(some, context.stats()).await {
                let Some(block) = block_reader::or_warn(context, block)? else { continue };
                QueryStats::add(&context.stats().blocks_opened, 1);
                let index = IndexReader::new(reader, context, &block);
                let selected = or_warn(context, select(&block, &index, matchers, range, &rules).await)?;
                if let Some((series, hidden)) = selected.filter(|(series, _)| !series.is_empty()) {
                    walk.add_block(index, series)?;
                    holders.push(Holder::Block { block, hidden });
                }
            }
        }
        QueryStats::add(&context.stats().heads_asked, view.heads.len() as u64);
        let look = move |_, head: &Head, tenant: &TenantId, matchers: &[Matcher]| {
            head.samples().select(tenant, matchers, range)
        };
        // The later a writer began, the later it took its rows, as far as that can be told.
        let mut heads = view.heads.clone();
        heads.sort_by_key(|head| head.incarnation());
        for series in matching::in_heads(context, &heads, matchers, look).await? {
            if !series.is_empty() {
                memory.grow(series.len() as u64 * size_of::<usize>() as u64)?;
                let series = Arc::new(series);
                walk.add_head(Arc::clone(&series));
                holders.push(Holder::Head { series });
            }
        }
        walk.narrow(selection.labels.as_deref());
        let (reader, context, selection) = (reader.clone(), context.clone(), Arc::new(selection));
        let (holders, walk) = (Arc::new(holders), Some(walk));
        let (parts, ahead) = (VecDeque::new(), None);
        Ok(Self { reader, context, selection, rules, holders, walk, parts, ahead, _memory: memory })
    }

    /// The next series; `None` after the last one. Series without samples in the range are left out, so a
    /// batch may be empty.
    async fn take(&mut self) -> Result<Option<SeriesBatch>, Error> {
        self.context.check()?;
        if let Some(part) = self.parts.pop_front() {
            return Ok(Some(part));
        }
        let Ahead { found, decoded, then } = match (self.ahead.take(), self.walk.take()) {
            (Some(task), walk) => {
                self.walk = walk;
                task.join().await.map_err(|error| Error::Internal(error.to_string()))?
            }
            // There is nothing to do beside it.
            (None, Some(walk)) => {
                let reader = self.parts_reader();
                reader.decoded(reader.fetched(walk).await).await
            }
            (None, None) => return Ok(None),
        };
        let mut next = None;
        match (then, &decoded) {
            (Then::Fetched(fetch), Err(Error::OverBudget(refusal))) => {
                next = Some(self.without_bytes(fetch, refusal.clone()).await?);
            }
            (Then::Fetched(fetch), _) => next = Some(fetch),
            (Then::Walk(walk), _) => self.walk = Some(walk),
            (Then::Nothing, _) => {}
        }
        let decoded = match decoded {
            // Read ahead while batches before it were still in use: they are gone by now.
            Err(Error::OverBudget(_)) => self.read_again(found).await?,
            decoded => decoded?,
        };
        let Some(batches) = decoded else { return Ok(None) };
        self.ahead = match next {
            Some(next) => Some(self.parts_reader().decode_ahead(next)),
            None => self.read_first(),
        };
        self.parts.extend(batches);
        Ok(self.parts.pop_front())
    }

    fn parts_reader(&self) -> PartsReader {
        let (reader, context, holders) =
            (self.reader.clone(), self.context.clone(), Arc::clone(&self.holders));
        let fetcher = Fetcher { reader, context, holders, range: self.selection.range() };
        PartsReader { fetcher, selection: Arc::clone(&self.selection), rules: self.rules.clone() }
    }

    /// Begins to read the next batch, unless there was none after the last one.
    fn read_first(&mut self) -> Option<Task<Ahead>> {
        let (walk, reader) = (self.walk.take()?, self.parts_reader());
        let fetch = reader.fetch_ahead(walk);
        Some(reader.decode_ahead(fetch))
    }

    /// The batch that is read, which gives its memory back and is read again in its turn.
    async fn without_bytes(
        &self,
        fetch: Task<FetchedAhead>,
        refusal: OverBudget,
    ) -> Result<Task<FetchedAhead>, Error> {
        let mut next = fetch.join().await.map_err(|error| Error::Internal(error.to_string()))?;
        if matches!(next.fetched, Ok(Some(_))) {
            next.fetched = Err(refusal.into());
        }
        Ok(self.context.env().spawn("read samples", async move { next }))
    }

    async fn read_again(
        &mut self,
        found: Option<Arc<Vec<Found>>>,
    ) -> Result<Option<Vec<SeriesBatch>>, Error> {
        let found = match (found, &mut self.walk) {
            (Some(found), _) => found,
            (None, Some(walk)) => Arc::new(walk.take(BATCH_SERIES, BATCH_ROWS).await?),
            (None, None) => return Ok(None),
        };
        if found.is_empty() {
            return Ok(None);
        }
        self.parts_reader().read(found).await.map(Some)
    }
}

/// Reads and decodes the batches of a scan. Cheap to clone.
#[derive(Clone)]
struct PartsReader {
    fetcher: Fetcher,
    selection: Arc<SampleSelection>,
    rules: Rules,
}

impl PartsReader {
    /// Begins to read the next batch.
    fn fetch_ahead(&self, walk: Walk) -> Task<FetchedAhead> {
        let reader = self.clone();
        self.fetcher.context.env().spawn("read samples", async move { reader.fetched(walk).await })
    }

    /// Reads the next batch.
    async fn fetched(&self, mut walk: Walk) -> FetchedAhead {
        let found = match walk.take(BATCH_SERIES, BATCH_ROWS).await {
            Ok(found) if found.is_empty() => return FetchedAhead { walk, found: None, fetched: Ok(None) },
            Ok(found) => Arc::new(found),
            Err(error) => return FetchedAhead { walk, found: None, fetched: Err(error) },
        };
        let fetched = self.fetcher.clone().fetch(Arc::clone(&found)).await.map(Some);
        FetchedAhead { walk, found: Some(found), fetched }
    }

    /// Decodes a batch once it is read, and reads the one after it meanwhile.
    fn decode_ahead(&self, fetch: Task<FetchedAhead>) -> Task<Ahead> {
        let reader = self.clone();
        let decode = async move {
            match fetch.join().await {
                Ok(fetched) => reader.decoded(fetched).await,
                Err(error) => {
                    let decoded = Err(Error::Internal(error.to_string()));
                    let walk = Walk::new(&reader.fetcher.context);
                    Ahead { found: None, decoded, then: Then::Walk(walk) }
                }
            }
        };
        self.fetcher.context.env().spawn("decode samples", decode)
    }

    /// Decodes a batch that was read, and begins to read the one after it, if there is one.
    async fn decoded(&self, fetched: FetchedAhead) -> Ahead {
        let FetchedAhead { mut walk, found, fetched } = fetched;
        match fetched {
            Ok(Some(fetched)) => {
                let then = match walk.is_over() {
                    true => Then::Nothing,
                    false => Then::Fetched(self.fetch_ahead(walk)),
                };
                let decoded = self.decode(fetched).await.map(Some);
                Ahead { found, decoded, then }
            }
            Ok(None) => Ahead { found, decoded: Ok(None), then: Then::Nothing },
            Err(error) => Ahead { found, decoded: Err(error), then: Then::Walk(walk) },
        }
    }

    async fn read(self, found: Arc<Vec<Found>>) -> Result<Vec<SeriesBatch>, Error> {
        let fetched = self.fetcher.clone().fetch(found).await?;
        self.decode(fetched).await
    }

    /// The samples of a batch that was read, in one or several parts.
    async fn decode(&self, fetched: Fetched) -> Result<Vec<SeriesBatch>, Error> {
        let (context, holders) = (self.fetcher.context.clone(), Arc::clone(&self.fetcher.holders));
        let Fetched { found, blocks, mut memory } = fetched;
        memory.grow(blocks.iter().map(|block| block.decoded_bytes).sum())?;
        QueryStats::add(&context.stats().streams, found.len() as u64);
        let is_little = memory.bytes() <= LITTLE_BYTES;
        let blocks = Arc::new(blocks);
        let decode_part = |part: Range<usize>| {
            let (holders, found, blocks) = (Arc::clone(&holders), Arc::clone(&found), Arc::clone(&blocks));
            let (selection, rules) = (Arc::clone(&self.selection), self.rules.clone());
            let work = move || Ok(decode(&holders, &found[part], &blocks, &selection, &rules)?);
            context.compute_sized(is_little, work)
        };
        let threads = context.env().cpu().parallelism().min(context.parallelism());
        let decoded = try_join_all(parts_of(found.len(), threads).map(decode_part)).await?;
        let mut batches = Vec::with_capacity(decoded.len());
        for Decoded { batch, damaged } in decoded {
            damaged.iter().for_each(|damage| context.warn(damage.as_str()));
            batches.push(batch);
        }
        memory.resize(batches.iter().map(bytes_of).sum())?;
        for batch in &mut batches {
            batch.held = Some(memory.split(bytes_of(batch)));
        }
        Ok(batches)
    }
}

/// The parts of a batch of so many series that are decoded at the same time.
fn parts_of(series: usize, threads: usize) -> impl Iterator<Item = Range<usize>> {
    let parts = if threads > 1 { threads * PARTS_PER_THREAD } else { 1 };
    let step = series.div_ceil(parts).max(PART_SERIES);
    (0..series).step_by(step).map(move |from| from..series.min(from + step))
}

/// A batch that was read ahead; none after the last one.
struct FetchedAhead {
    walk: Walk,
    /// Its series, if they were found.
    found: Option<Arc<Vec<Found>>>,
    fetched: Result<Option<Fetched>, Error>,
}

/// A batch that was decoded ahead; none after the last one.
struct Ahead {
    /// Its series, if they were found.
    found: Option<Arc<Vec<Found>>>,
    decoded: Result<Option<Vec<SeriesBatch>>, Error>,
    then: Then,
}

/// How a scan goes on behind a batch.
enum Then {
    /// The next one is being read.
    Fetched(Task<FetchedAhead>),
    /// From here.
    Walk(Walk),
    /// It does not.
    Nothing,
}

impl SampleScan for SeriesScan {
    fn next(&mut self) -> BoxFuture<'_, Result<Option<SeriesBatch>, Error>> {
        Box::pin(self.take())
    }

    fn is_over(&self) -> bool {
        self.parts.is_empty() && self.ahead.is_none() && self.walk.is_none()
    }
}

/// Bytes that a batch takes.
fn bytes_of(batch: &SeriesBatch) -> u64 {
    let samples = |samples: &Arc<Samples>| {
        let histograms =
            samples.histograms.iter().map(|histogram| histogram.memory_bytes() + 16).sum::<u64>();
        (samples.times.len() as u64) * super::SAMPLE_BYTES
            + (samples.starts.len() + samples.histogram_starts.len()) as u64 * 8
            + histograms
    };
    let labels = |labels: &LabelIds| SERIES_BYTES + size_of_val::<[_]>(labels) as u64;
    let texts = batch.dictionary.memory_bytes();
    batch.samples.iter().map(samples).sum::<u64>() + batch.labels.iter().map(labels).sum::<u64>() + texts
}

/// The blocks of a range, those whose rows came first before others.
fn blocks_of(view: &View, context: &QueryContext, range: TimeRange) -> Vec<Arc<BlockMeta>> {
    let mut blocks = SeriesReader::<Footer>::blocks(view, context, range);
    blocks.sort_by_key(|block| block.order_of_writing());
    blocks
}

/// The series of a block that match and may have samples in the range, and what is hidden of them.
async fn select(
    block: &Arc<OpenSamples>,
    index: &IndexReader,
    matchers: &[Matcher],
    range: TimeRange,
    rules: &Rules,
) -> Result<(RoaringBitmap, HiddenSamples), IndexError> {
    let selected = index.select(matchers).await?;
    let mut series = index.touching(selected, range).await?;
    let rules = rules.between(block.meta.min_ts, block.meta.max_ts);
    let hidden = HiddenSamples::of_block(block, index, rules).await?;
    series -= &hidden.gone;
    Ok((series, hidden))
}

//! Reading samples: the matching series of blocks and heads in batches, each series once with all samples.
//!
//! **Life of a scan.** [`SeriesScan::open`] takes a view, opens the footers of the blocks of the range and
//! selects series by their indexes. Every holder of series (block or head) has them sorted by labels, so
//! [`walk`] finds the next series by looking at the first one that is left of each holder: nothing is kept
//! of series that were not reached yet but a bitmap for each block. For some batches of them [`fetch`] reads
//! the pages that hold them, of all blocks at once, and [`decode`] puts the samples of a batch together in
//! parts, on as many threads of the CPU pool as there are. While a batch is used, part by part, the next one
//! is decoded and those after it are read ([`pipeline`]): a store is not waited for while there is something
//! to compute.
//!
//! **Invariants.** Series come in the order of [`sandur_format::block::compare_series`], samples by
//! rising time, each time once: of samples that are
//! stored twice that of the holder which had it first. A damaged or missing block is a warning that names
//! it; a store that does not answer fails the query. Memory is reserved from the query's budget first.

mod decode;
mod fetch;
mod labels;
mod pipeline;
mod walk;

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

use futures_util::future::{join_all, try_join_all};
use roaring::RoaringBitmap;
use sandur_base::{BoxFuture, Reservation, Task};
use sandur_format::catalog_entry::BlockMeta;
use sandur_format::sample_block::Footer;
use sandur_model::{Matcher, TenantId, TimeRange};
use sandur_query::{
    Error, LabelIds, QueryContext, QueryStats, SampleScan, SampleSelection, Samples, SeriesBatch,
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
use pipeline::{FoundBatch, Pipeline};
use walk::Walk;

/// Series of a part: fewer would be handed over too often.
const PART_SERIES: usize = 64;
/// Parts of a batch for each thread, so that none of them waits long for the last.
const PARTS_PER_THREAD: usize = 2;
/// Bytes of a decoded batch that is quicker decoded than handed to the CPU pool.
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
    context: QueryContext,
    /// Parts of the current batch that were not taken yet.
    parts: VecDeque<SeriesBatch>,
    /// What comes after it; `None` when there is nothing, or while the next batch is decoded.
    pipeline: Option<Box<Pipeline>>,
    /// The next batch, which is decoded while the one before it is used.
    ahead: Option<Task<Ahead>>,
    /// For the places of series in heads.
    _memory: Reservation,
}

/// What was decoded of the next batch, and what comes after it.
type Ahead = (Box<Pipeline>, Result<Option<Vec<SeriesBatch>>, Error>);

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
            let asked = Asked { context, matchers, range, rules: &rules };
            for (index, series, hidden) in asked.of_blocks(reader, some).await? {
                let block = Arc::clone(index.block());
                walk.add_block(index, series)?;
                holders.push(Holder::Block { block, hidden });
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
        let (range, holders) = (selection.range(), Arc::new(holders));
        let fetcher = Fetcher { reader, context: context.clone(), holders, range };
        let pipeline = Some(Box::new(Pipeline::new(PartsReader { fetcher, selection, rules }, walk)));
        let (parts, ahead) = (VecDeque::new(), None);
        Ok(Self { context, parts, pipeline, ahead, _memory: memory })
    }

    /// The next series; `None` after the last one. Series without samples in the range are left out, so a
    /// batch may be empty.
    async fn take(&mut self) -> Result<Option<SeriesBatch>, Error> {
        self.context.check()?;
        if let Some(part) = self.parts.pop_front() {
            return Ok(Some(part));
        }
        let (mut pipeline, mut decoded) = match (self.ahead.take(), self.pipeline.take()) {
            (Some(task), _) => task.join().await.map_err(|error| Error::Internal(error.to_string()))?,
            (None, Some(pipeline)) => decode_next(pipeline).await,
            (None, None) => return Ok(None),
        };
        if matches!(decoded, Err(Error::OverBudget(_))) {
            // Batches before it were still in use, or others were read ahead: they are gone by now.
            pipeline.give_back().await;
            (pipeline, decoded) = decode_next(pipeline).await;
        }
        let Some(batches) = decoded? else { return Ok(None) };
        if !pipeline.is_over() {
            self.ahead = Some(self.context.env().spawn("decode samples", decode_next(pipeline)));
        }
        self.parts.extend(batches);
        Ok(self.parts.pop_front())
    }
}

async fn decode_next(mut pipeline: Box<Pipeline>) -> Ahead {
    let decoded = pipeline.next().await;
    (pipeline, decoded)
}

/// Reads and decodes the batches of a scan. Cheap to clone.
#[derive(Clone)]
struct PartsReader {
    fetcher: Fetcher,
    selection: Arc<SampleSelection>,
    rules: Rules,
}

impl PartsReader {
    /// The stored bytes of batches.
    async fn fetch(&self, batches: Vec<FoundBatch>) -> Result<Fetched, Error> {
        self.fetcher.clone().fetch(batches).await
    }

    /// The samples of a batch that was read, in one or several parts.
    async fn decode(&self, found: FoundBatch, fetched: &Arc<Fetched>) -> Result<Vec<SeriesBatch>, Error> {
        let (context, holders) = (self.fetcher.context.clone(), Arc::clone(&self.fetcher.holders));
        let mut memory = context.budget().reserve(fetched.decoded_bytes(&found))?;
        QueryStats::add(&context.stats().streams, found.len() as u64);
        let is_little = memory.bytes() <= LITTLE_BYTES;
        let decode_part = |part: Range<usize>| {
            let (holders, found, fetched) = (Arc::clone(&holders), Arc::clone(&found), Arc::clone(fetched));
            let (selection, rules) = (Arc::clone(&self.selection), self.rules.clone());
            let work = move || Ok(decode(&holders, &found[part], &fetched.blocks, &selection, &rules)?);
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

impl SampleScan for SeriesScan {
    fn next(&mut self) -> BoxFuture<'_, Result<Option<SeriesBatch>, Error>> {
        Box::pin(self.take())
    }

    fn is_over(&self) -> bool {
        self.parts.is_empty() && self.ahead.is_none() && self.pipeline.is_none()
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

/// What is asked of blocks.
struct Asked<'a> {
    context: &'a QueryContext,
    matchers: &'a [Matcher],
    range: TimeRange,
    rules: &'a Rules,
}

/// A block, the series of it that match and may have samples in the range, and what is hidden of them.
type Selected = (IndexReader, RoaringBitmap, HiddenSamples);

impl Asked<'_> {
    /// Those of the blocks with matching series, which are found in all of them at the same time: in one
    /// after the other where the memory of the query does not suffice for that.
    async fn of_blocks(
        &self,
        reader: &BlockReader,
        blocks: &[Arc<BlockMeta>],
    ) -> Result<Vec<Selected>, Error> {
        let mut indexes = Vec::with_capacity(blocks.len());
        for block in reader.open_all(blocks, self.context.stats()).await {
            if let Some(block) = block_reader::or_warn(self.context, block)? {
                QueryStats::add(&self.context.stats().blocks_opened, 1);
                indexes.push(IndexReader::new(reader, self.context, &block));
            }
        }
        let mut selecting = Vec::with_capacity(indexes.len());
        for index in &indexes {
            selecting.push(self.of_block(index));
        }
        let selected = join_all(selecting).await;
        let mut found = Vec::with_capacity(indexes.len());
        for (index, mut selected) in indexes.into_iter().zip(selected) {
            if let Err(IndexError::Query(Error::OverBudget(_))) = selected {
                selected = self.of_block(&index).await;
            }
            let selected = or_warn(self.context, selected)?;
            if let Some((series, hidden)) = selected.filter(|(series, _)| !series.is_empty()) {
                found.push((index, series, hidden));
            }
        }
        Ok(found)
    }

    async fn of_block(&self, index: &IndexReader) -> Result<(RoaringBitmap, HiddenSamples), IndexError> {
        let selected = index.select(self.matchers).await?;
        let mut series = index.touching(selected, self.range).await?;
        let block = index.block();
        let rules = self.rules.between(block.meta.min_ts, block.meta.max_ts);
        let hidden = HiddenSamples::of_block(block, index, rules).await?;
        series -= &hidden.gone;
        Ok((series, hidden))
    }
}

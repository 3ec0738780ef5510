//! Reading samples: the matching series of blocks and heads in batches, each series once with all samples.
//!
//! **Life of a scan.** [`SeriesScan::open`] takes a view, opens the footers of the blocks of the range and
//! selects series by their indexes. Every holder of series (block or head) has them sorted by labels, so
//! [`walk`] finds the next series by looking at the first one that is left of each holder: nothing is kept
//! of series that were not reached yet but a bitmap for each block. For a batch of them [`fetch`] reads the
//! pages that hold them, of all blocks at once and while the batch before is used, and [`decode`] puts their
//! samples together on the CPU pool.
//!
//! **Invariants.** Series come in the order of [`sandur_format::block::compare_series`], samples by
//! rising time, each time once: of samples that are
//! stored twice that of the holder which had it first. A damaged or missing block is a warning that names
//! it; a store that does not answer fails the query. Memory is reserved from the query's budget first.

mod decode;
mod fetch;
mod labels;
mod walk;

use std::cmp::Reverse;
use std::sync::Arc;

use roaring::RoaringBitmap;
use sandur_base::{BoxFuture, Reservation, Task};
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
    /// The next batch, which is read while the one before it is used.
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
        for series in matching::in_heads(context, &view.heads, matchers, look).await? {
            if !series.is_empty() {
                memory.grow(series.len() as u64 * size_of::<usize>() as u64)?;
                let series = Arc::new(series);
                walk.add_head(Arc::clone(&series));
                holders.push(Holder::Head { series });
            }
        }
        let (reader, context, selection) = (reader.clone(), context.clone(), Arc::new(selection));
        let (holders, walk) = (Arc::new(holders), Some(walk));
        Ok(Self { reader, context, selection, rules, holders, walk, ahead: None, _memory: memory })
    }

    /// The next series; `None` after the last one. Series without samples in the range are left out, so a
    /// batch may be empty.
    async fn take(&mut self) -> Result<Option<SeriesBatch>, Error> {
        self.context.check()?;
        let Some(task) = self.ahead.take().or_else(|| self.read_next()) else { return Ok(None) };
        let Ahead { walk, found, fetched } =
            task.join().await.map_err(|error| Error::Internal(error.to_string()))?;
        self.walk = Some(walk);
        let fetched = match fetched {
            // Read ahead while the batch before it was still in use: that one is gone by now.
            Err(Error::OverBudget(_)) => self.read_again(found).await?,
            fetched => fetched?,
        };
        let Some(fetched) = fetched else { return Ok(None) };
        self.ahead = self.read_next();
        QueryStats::add(&self.context.stats().streams, fetched.found.len() as u64);
        let (holders, selection, rules) =
            (Arc::clone(&self.holders), Arc::clone(&self.selection), self.rules.clone());
        let Fetched { found, blocks, mut memory } = fetched;
        let work = move || Ok(decode(&holders, &found, &blocks, &selection, &rules)?);
        let Decoded { mut batch, damaged } = self.context.compute(work).await?;
        damaged.iter().for_each(|damage| self.context.warn(damage.as_str()));
        memory.resize(bytes_of(&batch))?;
        batch.held = Some(memory);
        Ok(Some(batch))
    }

    fn fetcher(&self) -> Fetcher {
        let (reader, context, holders) =
            (self.reader.clone(), self.context.clone(), Arc::clone(&self.holders));
        Fetcher { reader, context, holders, range: self.selection.range() }
    }

    /// Begins to read the next batch, unless there was none after the last one.
    fn read_next(&mut self) -> Option<Task<Ahead>> {
        let (mut walk, fetcher) = (self.walk.take()?, self.fetcher());
        let read = async move {
            let found = match walk.take(BATCH_SERIES, BATCH_ROWS).await {
                Ok(found) if found.is_empty() => return Ahead { walk, found: None, fetched: Ok(None) },
                Ok(found) => Arc::new(found),
                Err(error) => return Ahead { walk, found: None, fetched: Err(error) },
            };
            let fetched = fetcher.fetch(Arc::clone(&found)).await.map(Some);
            Ahead { walk, found: Some(found), fetched }
        };
        Some(self.context.env().spawn("fetch samples", read))
    }

    async fn read_again(&mut self, found: Option<Arc<Vec<Found>>>) -> Result<Option<Fetched>, Error> {
        let found = match (found, &mut self.walk) {
            (Some(found), _) => found,
            (None, Some(walk)) => Arc::new(walk.take(BATCH_SERIES, BATCH_ROWS).await?),
            (None, None) => return Ok(None),
        };
        if found.is_empty() {
            return Ok(None);
        }
        self.fetcher().fetch(found).await.map(Some)
    }
}

/// A batch that was read ahead; none after the last one.
struct Ahead {
    walk: Walk,
    /// Its series, if they were found.
    found: Option<Arc<Vec<Found>>>,
    fetched: Result<Option<Fetched>, Error>,
}

impl SampleScan for SeriesScan {
    fn next(&mut self) -> BoxFuture<'_, Result<Option<SeriesBatch>, Error>> {
        Box::pin(self.take())
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
    blocks.sort_by_key(|block| (Reverse(block.level), block.id));
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

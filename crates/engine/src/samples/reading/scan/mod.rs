//! Reads samples: the matching series of blocks and heads in batches, each series once with all its samples.
//!
//! **Life of a scan.** [`SeriesScan::open`] takes a view, opens the footers of the blocks of the range,
//! and selects series by their indexes. Every holder of series (block or head) has them sorted by
//! labels, so [`walk`] finds the next series by comparing the first remaining series of each holder. Of
//! the series that were not reached yet it keeps only a bitmap per block. For some batches [`fetch`]
//! reads the pages that have the series, from all blocks concurrently. A caller that runs its own jobs
//! on samples takes a batch as it is stored and decodes it in parts ([`stored`]). For other callers
//! [`decode`] decodes a batch in parts, on all threads of the CPU pool, while the caller uses the
//! previous batch. Later batches are read ahead ([`pipeline`]), so that reads from the store overlap
//! with computing.
//!
//! **Invariants.** Series are in the order of [`sandur_format::block::compare_series`]. Samples are by
//! ascending time, each time once: of samples that are stored twice, the one whose holder had it first.
//! A damaged or missing block adds a warning that names it. A store that does not answer fails the
//! query. Memory is reserved from the query's budget first.

mod decode;
mod fetch;
mod holder;
mod labels;
mod pipeline;
mod stored;
mod walk;

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

use futures_util::future::{join_all, try_join_all};
use roaring::RoaringBitmap;
use sandur_base::BoxFuture;
use sandur_format::catalog_entry::BlockMeta;
use sandur_format::sample_block::Footer;
use sandur_memory::Reservation;
use sandur_model::{Matcher, TenantId, TimeRange};
use sandur_query::{
    BATCH_SERIES, Error, LabelIds, QueryContext, QueryStats, SampleScan, SampleSelection, Samples,
    SeriesBatch, SeriesPart,
};
use sandur_runtime::Task;

use crate::blocks::reader::BlockReader;
use crate::error;
use crate::head::Head;
use crate::reading::matching;
use crate::reading::series_reader::{OPEN_AT_ONCE, SeriesReader};
use crate::rules::Rules;
use crate::samples::hidden::HiddenSamples;
use crate::samples::index::{IndexError, IndexReader, or_warn};
use crate::view::View;
use fetch::Fetcher;
use holder::{Holder, SERIES_BYTES};
pub(super) use labels::LabelScan;
use pipeline::{PartsReader, Pipeline};
use stored::StoredSeries;
use walk::Walk;

/// The fewest series of a part. Smaller parts would spend too much on scheduling.
const PART_SERIES: usize = 64;
/// Parts of a batch per thread, so that the threads finish at about the same time.
const PARTS_PER_THREAD: usize = 2;
/// Up to this many bytes of a batch are decoded inline, because a job on the CPU pool costs more.
const LITTLE_BYTES: u64 = 512 << 10;
/// A running scan.
pub(crate) struct SeriesScan {
    context: QueryContext,
    /// Parts of the current batch that were not taken yet.
    parts: VecDeque<SeriesBatch>,
    /// A batch that is decoded a few series at a time, and the number of its series that were returned.
    rest: Option<(StoredSeries, usize)>,
    /// The most series that are decoded at a time, after a complete batch did not fit in the memory.
    series_max: Option<usize>,
    /// Reads the batches after it; `None` when there are none, or while the next batch is being made.
    pipeline: Option<Box<Pipeline>>,
    /// The next batch, which is read (and decoded) while the current one is used.
    ahead: Option<Task<Ahead>>,
    /// Pays for the positions of series in heads.
    _memory: Reservation,
}

/// The pipeline after the next batch, and that batch.
type Ahead = (Box<Pipeline>, Result<Option<Made>, Error>);

/// A batch in the requested form.
enum Made {
    Stored(StoredSeries),
    Decoded(Vec<SeriesBatch>),
}

/// The requested form of a batch.
#[derive(Clone, Copy)]
enum As {
    Stored,
    Decoded,
}

impl SeriesScan {
    /// Opens a scan of the matching series with samples in the range.
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
        // A later writer received its rows later, as far as that is known.
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
        let (parts, rest, series_max, ahead) = (VecDeque::new(), None, None, None);
        Ok(Self { context, parts, rest, series_max, pipeline, ahead, _memory: memory })
    }

    /// Returns the next series; `None` after the last ones. Series without samples in the range are left
    /// out, so a batch may be empty.
    async fn take(&mut self) -> Result<Option<SeriesBatch>, Error> {
        loop {
            self.context.check()?;
            if let Some(part) = self.parts.pop_front() {
                return Ok(Some(part));
            }
            if let Some(rest) = self.rest.take() {
                return self.decode_few(rest).await.map(Some);
            }
            let how = if self.series_max.is_some() { As::Stored } else { As::Decoded };
            match self.make(how).await {
                Ok(None) => return Ok(None),
                Ok(Some(Made::Decoded(batches))) => self.parts.extend(batches),
                Ok(Some(Made::Stored(stored))) => self.rest = Some((stored, 0)),
                Err(Error::OverBudget(_)) if self.series_max.is_none() => {
                    self.series_max = Some(BATCH_SERIES)
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// Decodes the next series of a batch, as many as there is memory for. If there is not enough for one,
    /// the call can be repeated.
    async fn decode_few(&mut self, (stored, from): (StoredSeries, usize)) -> Result<SeriesBatch, Error> {
        loop {
            let until = stored.series().min(from + self.series_max.unwrap_or(BATCH_SERIES));
            match stored.decode_part(from..until, false).await {
                Err(Error::OverBudget(_)) if self.ahead.is_some() => self.let_go().await,
                Err(Error::OverBudget(_)) if until > from + 1 => self.series_max = Some((until - from) / 2),
                Err(error) => {
                    self.rest = Some((stored, from));
                    return Err(error);
                }
                Ok(batch) => {
                    self.rest = (until < stored.series()).then_some((stored, until));
                    return Ok(batch);
                }
            }
        }
    }

    /// Returns the next series without decoding them.
    async fn take_part(&mut self) -> Result<Option<Arc<dyn SeriesPart>>, Error> {
        self.context.check()?;
        if !self.parts.is_empty() || self.rest.is_some() {
            return Ok(self.take().await?.map(|part| Arc::new(part) as Arc<dyn SeriesPart>));
        }
        match self.make(As::Stored).await? {
            None => Ok(None),
            Some(Made::Stored(stored)) => Ok(Some(Arc::new(stored))),
            Some(Made::Decoded(batches)) => {
                self.parts.extend(batches);
                Ok(self.parts.pop_front().map(|part| Arc::new(part) as Arc<dyn SeriesPart>))
            }
        }
    }

    /// Returns the next batch. If memory is refused, the call can be repeated.
    async fn make(&mut self, how: As) -> Result<Option<Made>, Error> {
        let (mut pipeline, mut made) = match (self.ahead.take(), self.pipeline.take()) {
            (Some(task), _) => task.join().await.map_err(|error| Error::Internal(error.to_string()))?,
            (None, Some(pipeline)) => make_next(pipeline, how).await,
            (None, None) => return Ok(None),
        };
        if matches!(made, Err(Error::OverBudget(_))) {
            // Earlier batches were still in use, or later ones were read ahead. Release the latter and
            // try again.
            pipeline.give_back().await;
            (pipeline, made) = make_next(pipeline, how).await;
        }
        if !matches!(made, Ok(None)) && !pipeline.is_over() {
            match &made {
                Ok(_) => {
                    self.ahead = Some(self.context.env().spawn("next samples", make_ahead(pipeline, how)))
                }
                Err(_) => self.pipeline = Some(pipeline),
            }
        }
        made
    }

    /// Releases what was read ahead.
    async fn let_go(&mut self) {
        let Some(task) = self.ahead.take() else { return };
        let Ok((mut pipeline, made)) = task.join().await else { return };
        match made {
            Ok(Some(Made::Stored(stored))) => pipeline.put_back(stored.found),
            Ok(Some(Made::Decoded(batches))) => self.parts.extend(batches),
            // The next call makes it again.
            Ok(None) | Err(_) => {}
        }
        pipeline.give_back().await;
        self.pipeline = Some(pipeline);
    }
}

async fn make_next(mut pipeline: Box<Pipeline>, how: As) -> Ahead {
    let made = match (pipeline.next().await, how) {
        (Ok(Some(stored)), As::Decoded) => {
            let decoded = stored.decode_parts().await;
            if decoded.is_err() {
                pipeline.put_back(stored.found);
            }
            decoded.map(|batches| Some(Made::Decoded(batches)))
        }
        (stored, _) => stored.map(|stored| stored.map(Made::Stored)),
    };
    (pipeline, made)
}

/// Makes the next batch while the current one is used.
async fn make_ahead(mut pipeline: Box<Pipeline>, how: As) -> Ahead {
    match pipeline.read_ahead().await {
        Ok(()) => make_next(pipeline, how).await,
        Err(error) => (pipeline, Err(error)),
    }
}

impl StoredSeries {
    /// Decodes the samples of the batch, in one or several parts.
    async fn decode_parts(&self) -> Result<Vec<SeriesBatch>, Error> {
        let is_little = self.memory_bytes(&(0..self.series())) <= LITTLE_BYTES;
        let threads = self.context.env().cpu().parallelism().min(self.context.parallelism());
        let parts = parts_of(self.series(), threads).map(|part| self.decode_part(part, is_little));
        try_join_all(parts).await
    }

    /// Decodes the samples of some series, in the calling thread if they are few.
    async fn decode_part(&self, some: Range<usize>, is_little: bool) -> Result<SeriesBatch, Error> {
        let context = &self.context;
        let mut memory = context.budget().reserve(self.memory_bytes(&some))?;
        let stored = self.clone();
        let mut batch = context.compute_sized(is_little, move || stored.decode(some)).await?;
        memory.resize(bytes_of(&batch))?;
        batch.held = Some(memory);
        Ok(batch)
    }
}

/// The parts of a batch with this number of series that are decoded concurrently.
fn parts_of(series: usize, threads: usize) -> impl Iterator<Item = Range<usize>> {
    let parts = if threads > 1 { threads * PARTS_PER_THREAD } else { 1 };
    let step = series.div_ceil(parts).max(PART_SERIES);
    (0..series).step_by(step).map(move |from| from..series.min(from + step))
}

impl SampleScan for SeriesScan {
    fn next(&mut self) -> BoxFuture<'_, Result<Option<SeriesBatch>, Error>> {
        Box::pin(self.take())
    }

    fn next_part(&mut self) -> BoxFuture<'_, Result<Option<Arc<dyn SeriesPart>>, Error>> {
        Box::pin(self.take_part())
    }

    fn give_back(&mut self) -> BoxFuture<'_, ()> {
        Box::pin(self.let_go())
    }

    fn is_over(&self) -> bool {
        let is_read = self.ahead.is_none() && self.pipeline.is_none();
        is_read && self.parts.is_empty() && self.rest.is_none()
    }
}

/// Bytes that a batch takes.
fn bytes_of(batch: &SeriesBatch) -> u64 {
    let samples = |samples: &Arc<Samples>| {
        let histograms =
            samples.histograms.iter().map(|histogram| histogram.memory_bytes() + 16).sum::<u64>();
        (samples.times.len() as u64) * crate::samples::SAMPLE_BYTES
            + (samples.starts.len() + samples.histogram_starts.len()) as u64 * 8
            + histograms
    };
    let labels = |labels: &LabelIds| SERIES_BYTES + size_of_val::<[_]>(labels) as u64;
    let texts = batch.dictionary.memory_bytes();
    batch.samples.iter().map(samples).sum::<u64>() + batch.labels.iter().map(labels).sum::<u64>() + texts
}

/// The blocks of a range, in the order of writing.
fn blocks_of(view: &View, context: &QueryContext, range: TimeRange) -> Vec<Arc<BlockMeta>> {
    let mut blocks = SeriesReader::<Footer>::blocks(view, context, range);
    blocks.sort_by_key(|block| block.order_of_writing());
    blocks
}

/// What a scan selects in blocks.
struct Asked<'a> {
    context: &'a QueryContext,
    matchers: &'a [Matcher],
    range: TimeRange,
    rules: &'a Rules,
}

/// A block, its matching series that may have samples in the range, and what is hidden of them.
type Selected = (IndexReader, RoaringBitmap, HiddenSamples);

impl Asked<'_> {
    /// Returns the blocks with matching series. Selects in all blocks concurrently; in one after the
    /// other if the query's memory does not suffice.
    async fn of_blocks(
        &self,
        reader: &BlockReader,
        blocks: &[Arc<BlockMeta>],
    ) -> Result<Vec<Selected>, Error> {
        let mut indexes = Vec::with_capacity(blocks.len());
        for block in reader.open_all(blocks, self.context.stats()).await {
            if let Some(block) = error::or_warn(self.context, block)? {
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

//! Reading samples: the matching series of blocks and heads in batches, each series once with all samples.
//!
//! **Life of a scan.** [`SampleScan::open`] takes a view, opens the footers of the blocks of the range and
//! selects series by their postings. Every holder of series (block or head) has them sorted by labels, so
//! [`walk`] finds the next series by looking at the first one that is left of each holder: nothing is kept
//! of series that were not reached yet but a bitmap for each block. For a batch of them [`fetch`] reads the
//! pages that hold them, of all blocks at once, and [`decode`] puts their samples together on the CPU pool.
//!
//! **Invariants.** Series come by rising labels, samples by rising time, each time once: of samples that are
//! stored twice that of the holder which had it first. A damaged or missing block is a warning that names
//! it; a store that does not answer fails the query. Memory is reserved from the query's budget first.

mod decode;
mod walk;

use std::cmp::Reverse;
use std::sync::Arc;

use futures_util::future::join_all;
use sandur_base::Reservation;
use sandur_cache::Hint;
use sandur_catalog::Snapshot;
use sandur_format::block::BlockIndex;
use sandur_format::catalog_entry::BlockMeta;
use sandur_model::{Dataset, Labels, Matcher, StreamId, TimeRange};
use sandur_query::{Error, QueryContext, QueryStats};

use super::block::OpenSamples;
use super::head::{SampleColumns, SelectedSeries};
use super::hidden::HiddenSamples;
use crate::block_reader::{BlockReader, ReadError};
use crate::rules::{Rulebook, Rules};
use crate::view::View;
use decode::{FetchedPages, decode};
use walk::{Found, Walk};

/// Most series of a batch.
pub const BATCH_SERIES: usize = 512;
/// Samples of a batch from which it takes no further series: 16 MiB of times and values.
const BATCH_ROWS: u64 = 1 << 20;
/// Footers that are opened at a time.
const OPEN_AT_ONCE: usize = 16;
/// Bytes that a series of a batch takes beside its samples and its labels.
const SERIES_BYTES: u64 = 160;

/// One series with its samples of the range.
#[derive(Clone, Debug)]
pub struct ScannedSeries {
    /// Its identity.
    pub id: StreamId,
    /// Its labels.
    pub labels: Arc<Labels>,
    /// Its samples; never none.
    pub samples: SampleColumns,
}

/// Series that come next, and the memory that they take.
pub struct SeriesBatch {
    /// The series, by rising labels.
    pub series: Vec<ScannedSeries>,
    /// Their memory, of the query's budget.
    pub held: Reservation,
}

/// A block or a head, with the series of it that match.
pub(super) enum Holder {
    Block {
        block: Arc<OpenSamples>,
        hidden: HiddenSamples,
        /// Ordinals, rising.
        series: Vec<u32>,
    },
    Head {
        series: SelectedSeries,
    },
}

/// A running scan.
pub struct SampleScan {
    reader: BlockReader,
    context: QueryContext,
    range: TimeRange,
    rules: Rules,
    walk: Walk,
    /// For the ordinals of the holders.
    _memory: Reservation,
}

impl SampleScan {
    /// The matching series with samples in the range.
    pub(crate) async fn open(
        reader: &BlockReader,
        rulebook: &Rulebook,
        view: &View,
        context: &QueryContext,
        (matchers, range): (Vec<Matcher>, TimeRange),
    ) -> Result<Self, Error> {
        view.missing.iter().for_each(|missing| context.warn(&**missing));
        let dataset = Dataset::metrics(context.tenant().clone());
        let rules = rulebook.hiding(&view.snapshot, &dataset);
        rules.warn(context);
        let mut memory = context.budget().reserve(0)?;
        let mut holders = Vec::new();
        for some in blocks_of(&view.snapshot, &dataset, range).chunks(OPEN_AT_ONCE) {
            context.check()?;
            let opened = some.iter().map(|meta| reader.open_samples(meta, context.stats()));
            for block in join_all(opened).await {
                let Some(block) = or_warn(context, block)? else { continue };
                let holder = select(context, block, &matchers, range, &rules).await?;
                if let Some(holder) = holder {
                    memory.grow(holder.len() as u64 * size_of::<u32>() as u64)?;
                    holders.push(holder);
                }
            }
        }
        for head in &view.heads {
            let (head, tenant) = (Arc::clone(head), context.tenant().clone());
            let matchers = matchers.clone();
            let select = move || Ok(head.samples().select(&tenant, &matchers, range));
            let series = context.compute(select).await?;
            if !series.is_empty() {
                memory.grow(series.len() as u64 * size_of::<usize>() as u64)?;
                holders.push(Holder::Head { series });
            }
        }
        let (reader, context) = (reader.clone(), context.clone());
        Ok(Self { reader, context, range, rules, walk: Walk::new(holders), _memory: memory })
    }

    /// The next series; `None` after the last one. Series without samples in the range are left out, so a
    /// batch may be empty.
    pub async fn next(&mut self) -> Result<Option<SeriesBatch>, Error> {
        self.context.check()?;
        let found = self.walk.take(BATCH_SERIES, BATCH_ROWS);
        if found.is_empty() {
            return Ok(None);
        }
        QueryStats::add(&self.context.stats().streams, found.len() as u64);
        let mut memory = self.context.budget().reserve(found.iter().map(Found::bytes).sum())?;
        let (holders, range, rules) = (self.walk.holders(), self.range, self.rules.clone());
        let pages = self.fetch(&found, &mut memory).await?;
        let work = move || Ok(decode(&holders, &found, &pages, range, &rules));
        let decoded = self.context.compute(work).await?;
        decoded.damaged.iter().for_each(|damage| self.context.warn(damage.as_str()));
        let kept = decoded.series.iter().map(bytes_of).sum::<u64>();
        memory.shrink(memory.bytes().saturating_sub(kept));
        memory.resize(kept)?;
        Ok(Some(SeriesBatch { series: decoded.series, held: memory }))
    }

    /// Reads the pages of all blocks that hold these series, at the same time.
    async fn fetch(&self, found: &[Found], memory: &mut Reservation) -> Result<Vec<FetchedPages>, Error> {
        let holders = self.walk.holders();
        let mut reads = Vec::new();
        for (number, holder) in holders.iter().enumerate() {
            let Holder::Block { block, .. } = holder else { continue };
            let series = found.iter().filter_map(|found| found.ordinal_in(number)).collect();
            let pages = block.footer.pages_of(&series, self.range);
            if pages.is_empty() {
                continue;
            }
            let entries = pages.iter().map(|page| &block.footer.pages()[*page as usize]);
            // As stored, decoded, and put together with what others hold.
            let bytes = |page: &sandur_format::sample_block::PageEntry| {
                u64::from(page.piece.len)
                    + page.memory_bytes()
                    + u64::from(page.rows) * super::SAMPLE_BYTES * 2
            };
            memory.grow(entries.map(bytes).sum())?;
            reads.push(self.read(number, Arc::clone(block), pages));
        }
        let mut all = Vec::with_capacity(reads.len());
        for read in join_all(reads).await {
            all.extend(read?);
        }
        Ok(all)
    }

    async fn read(
        &self,
        holder: usize,
        block: Arc<OpenSamples>,
        pages: Vec<u32>,
    ) -> Result<Option<FetchedPages>, Error> {
        let pieces: Vec<_> = pages.iter().map(|page| block.footer.pages()[*page as usize].piece).collect();
        let hint = Hint::Scan { bytes: pieces.iter().map(|piece| u64::from(piece.len)).sum() };
        let read = self.reader.pieces(&block.meta, &pieces, hint, self.context.stats()).await;
        let stored = or_warn(&self.context, read)?;
        let stored = stored.map(|stored| stored.into_iter().map(|piece| piece.bytes).collect());
        Ok(stored.map(|stored| FetchedPages { holder, pages, stored }))
    }
}

/// Bytes that a series of an answer takes.
fn bytes_of(series: &ScannedSeries) -> u64 {
    let labels = series.labels.text_bytes() + series.labels.len() * 64;
    SERIES_BYTES + labels as u64 + series.samples.timestamps.len() as u64 * super::SAMPLE_BYTES
}

/// The dataset's blocks of a range, those whose rows came first before others.
fn blocks_of(snapshot: &Snapshot, dataset: &Dataset, range: TimeRange) -> Vec<Arc<BlockMeta>> {
    let mut blocks: Vec<Arc<BlockMeta>> = snapshot.blocks(dataset, range).cloned().collect();
    blocks.sort_by_key(|block| (Reverse(block.level), block.id));
    blocks
}

/// The series of a block that match; `None` when there is none, or the block is damaged.
async fn select(
    context: &QueryContext,
    block: Arc<OpenSamples>,
    matchers: &[Matcher],
    range: TimeRange,
    rules: &Rules,
) -> Result<Option<Holder>, Error> {
    QueryStats::add(&context.stats().blocks_opened, 1);
    let (matchers, rules) = (matchers.to_vec(), rules.clone());
    let work = move || {
        let selected =
            block.footer.select(&matchers).map_err(|reason| ReadError::damaged(&block.meta, reason));
        let mut series = selected.map(|selected| block.footer.series().touching(selected, range))?;
        let rules = rules.between(block.meta.min_ts, block.meta.max_ts);
        let hidden = HiddenSamples::of_block(&block, rules)?;
        series -= &hidden.gone;
        Ok::<_, ReadError>(Holder::Block { block, hidden, series: series.iter().collect() })
    };
    let holder = context.compute(move || Ok(work())).await?;
    Ok(or_warn(context, holder)?.filter(|holder| holder.len() > 0))
}

/// Missing and damaged blocks are warnings; a store that does not answer fails the query.
fn or_warn<T>(context: &QueryContext, read: Result<T, ReadError>) -> Result<Option<T>, Error> {
    match read {
        Ok(value) => Ok(Some(value)),
        Err(error @ ReadError::Store { .. }) => Err(Error::Unavailable(error.to_string())),
        Err(damage) => {
            context.warn(damage.to_string());
            Ok(None)
        }
    }
}

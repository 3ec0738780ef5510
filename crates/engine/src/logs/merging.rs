//! Compaction of log blocks.

use std::sync::Arc;

use roaring::RoaringBitmap;
use sandur_cache::Hint;
use sandur_format::catalog_entry::BlockMeta;
use sandur_format::log_block::{BlockOptions, VERSION};
use sandur_memory::MemoryBudget;
use sandur_model::TimeRange;
use sandur_query::QueryStats;
use sandur_runtime::Lane;

use super::block::OpenLogs;
use super::expired::expired;
use super::merge::{Merger, Needed, PageBytes, Supplied};
use super::merge_filters::read_filters;
use super::touched::{Touched, touched};
use crate::blocks::merging::{Merging, Target};
use crate::blocks::reader::BlockReader;
use crate::error::{Error, ReadError};
use crate::policy::expired::ExpiredSeries;
use crate::policy::retention::Expiry;
use crate::rules::DueRules;

/// Merges of log blocks.
pub(crate) struct LogMerging;

impl Merging for LogMerging {
    type Block = OpenLogs;
    type Touched = Touched;
    type Merger = Merger;

    async fn open(reader: &BlockReader, meta: &Arc<BlockMeta>) -> Result<Arc<OpenLogs>, ReadError> {
        reader.open(meta, &QueryStats::default()).await
    }

    async fn touch(
        reader: &BlockReader,
        block: &Arc<OpenLogs>,
        due: &DueRules,
        budget: &MemoryBudget,
    ) -> Result<Touched, Error> {
        let mut streams = RoaringBitmap::new();
        streams.insert_range(0..block.footer.streams().len() as u32);
        let all = (&streams, TimeRange::ALL);
        Ok(touched(reader, block, all, due.rules.iter(), (budget, &QueryStats::default())).await?)
    }

    async fn expired(
        reader: &BlockReader,
        block: &Arc<OpenLogs>,
        expiry: &Arc<Expiry>,
        _: &MemoryBudget,
    ) -> Result<ExpiredSeries, Error> {
        let (block, expiry) = (Arc::clone(block), Arc::clone(expiry));
        let (meta, work) = (Arc::clone(&block.meta), move || expired(&block, &expiry));
        let found = reader.env.run_cpu(Lane::Background, work).await;
        Ok(found.map_err(|reason| ReadError::damaged(&meta, reason))?)
    }

    fn take_out(touched: &mut Touched, expired: &ExpiredSeries, _: (&Arc<BlockMeta>, &Arc<Expiry>)) {
        touched.gone |= &expired.series;
        touched.partly -= &expired.series;
    }

    fn keep_only(touched: &mut Touched, window: TimeRange) {
        touched.keep_only(window);
    }

    fn is_untouched(touched: &Touched) -> bool {
        touched.is_nothing()
    }

    fn merger(
        inputs: &[Arc<OpenLogs>],
        touched: Vec<Touched>,
        target: Target,
        budget: MemoryBudget,
    ) -> Result<Merger, Error> {
        let mut options = BlockOptions::new(target.tenant, target.window, target.level);
        (options.origin, options.version) = (target.origin, target.forms.logs.min(VERSION));
        let merger = Merger::new(inputs.to_vec(), touched, options, budget);
        merger.map_err(|error| Error::Internal(error.to_string()))
    }

    async fn fetch(
        reader: &BlockReader,
        inputs: &[Arc<OpenLogs>],
        needed: Needed,
        _: &MemoryBudget,
    ) -> Result<Supplied, Error> {
        // A merge reads its inputs once, and they are removed afterwards.
        let hint = Hint::Scan { bytes: u64::MAX };
        let page = match needed {
            Needed::Page(page) => page,
            Needed::Filters(request) => {
                let input = &inputs[request.input];
                return Ok(Supplied::Filters(read_filters(reader, input, request, hint).await?));
            }
        };
        let input = &inputs[page.input];
        let entry = &input.footer.pages()[page.page as usize];
        let pieces = [entry.narrow, entry.lines];
        let read = reader.pieces(&input.meta, &pieces, hint, &QueryStats::default()).await?;
        let [narrow, lines] = <[_; 2]>::try_from(read)
            .map_err(|_| Error::Internal("two pieces have two results".to_owned()))?
            .map(|piece| piece.bytes);
        Ok(Supplied::Page(PageBytes { narrow, lines }))
    }
}

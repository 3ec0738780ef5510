//! Finds the series of a block that are past their periods. Reads the index, but no samples.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use roaring::RoaringBitmap;
use sandur_format::sample_block::index::SeriesSpan;
use sandur_memory::MemoryBudget;
use sandur_model::Labels;
use sandur_runtime::Lane;

use super::OpenSamples;
use super::index::{HeldPage, IndexError, IndexReader, WantedLabels};
use crate::blocks::reader::BlockReader;
use crate::policy::expired::{ExpiredSeries, Reason};
use crate::policy::retention::{Expiry, LabelRetention};

/// The number of pages of series that are examined together.
const PAGES_AT_ONCE: usize = 64;
/// Series whose labels one job examines: matching a thousand patterns on each takes a quarter of a second.
const LABELS_AT_ONCE: usize = 256;
/// Bytes reserved per series of the block. A bitmap takes at most an eighth of a byte per series, so
/// this suffices for eight bitmaps.
const BYTES_OF_SETS: u64 = 1;

/// Returns the series that are past their periods.
pub(super) async fn expired(
    reader: &BlockReader,
    block: &Arc<OpenSamples>,
    expiry: &Expiry,
    budget: &MemoryBudget,
) -> Result<ExpiredSeries, IndexError> {
    let index = IndexReader::for_upkeep(reader, budget, block);
    let series = block.footer.index().series();
    let _memory = budget.reserve(u64::from(series) * BYTES_OF_SETS + (16 << 10))?;
    let (mut expired, mut left) = (ExpiredSeries::default(), RoaringBitmap::new());
    left.insert_range(0..series);
    let (retention, newest_ns) = (expiry.retention(), block.meta.max_ts);
    for rule in retention.rules.iter() {
        let named = index.select(rule.matchers()).await? & &left;
        left -= &named;
        if expiry.is_over(rule.period_ns(), newest_ns) {
            expired.add(Reason::Selector, &named, rows_of(&index, &named).await?);
        }
    }
    if let Some(of_labels) = &retention.of_labels {
        let (named, over) = by_labels(reader, &index, &left, (of_labels, expiry)).await?;
        left -= &named;
        expired.add(Reason::Labels, &over, rows_of(&index, &over).await?);
    }
    if expiry.is_over_for_others(newest_ns) {
        expired.add(Reason::Tenant, &left, rows_of(&index, &left).await?);
    }
    // Exemplars have their own label sets, so they may have to stay. Metadata of a family is removed
    // with the last of its series.
    expired.has_annotations = !block.footer.exemplars().is_empty();
    Ok(expired)
}

/// The number of samples of these series.
async fn rows_of(index: &IndexReader, series: &RoaringBitmap) -> Result<u64, IndexError> {
    let rows = Arc::new(AtomicU64::new(0));
    for some in index.pages_of(series).chunks(PAGES_AT_ONCE) {
        let rows = Arc::clone(&rows);
        let add = move |span: &SeriesSpan| {
            rows.fetch_add(span.rows, Ordering::Relaxed);
            false
        };
        index.each_span(some, series, add).await?;
    }
    Ok(rows.load(Ordering::Relaxed))
}

/// Returns the series of `left` whose labels decide a period, and those of them that are past it.
async fn by_labels(
    reader: &BlockReader,
    index: &IndexReader,
    left: &RoaringBitmap,
    (of_labels, expiry): (&Arc<dyn LabelRetention>, &Expiry),
) -> Result<(RoaringBitmap, RoaringBitmap), IndexError> {
    let mut meant = RoaringBitmap::new();
    for matchers in of_labels.any_of() {
        meant |= index.select(&matchers).await?;
    }
    meant &= left;
    let (mut named, mut over) = (RoaringBitmap::new(), RoaringBitmap::new());
    for number in index.pages_of(&meant) {
        let held = index.page(number, &WantedLabels::All, false).await?;
        let of_page: Vec<u32> = index.of_pages(&meant, &[number]).iter().collect();
        for some in of_page.chunks(LABELS_AT_ONCE) {
            let (held, some, of_labels) = (held.clone(), some.to_vec(), Arc::clone(of_labels));
            let work = move || periods_of(&held, &some, &*of_labels);
            for (series, period_ns) in reader.env.run_cpu(Lane::Background, work).await {
                named.insert(series);
                if expiry.is_over(period_ns, index.block().meta.max_ts) {
                    over.insert(series);
                }
            }
        }
    }
    Ok((named, over))
}

fn periods_of(held: &HeldPage, series: &[u32], of_labels: &dyn LabelRetention) -> Vec<(u32, i64)> {
    let period_of = |series: u32| {
        let labels = Labels::from_pairs(held.page.pairs(series));
        Some((series, of_labels.period_ns(&labels)?))
    };
    series.iter().copied().filter_map(period_of).collect()
}

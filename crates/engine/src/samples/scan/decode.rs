//! Puts the samples of series together: those of fetched pages and those of heads.

use std::sync::Arc;

use bytes::Bytes;
use sandur_format::sample_block::SamplePage;
use sandur_query::{BatchTexts, SampleSelection, Samples, SeriesBatch};

use super::Holder;
use super::walk::Found;
use crate::rules::Rules;
use crate::samples::head::SampleColumns;
use crate::samples::hidden::{hides, times_of};

/// Pages of a block as they are stored.
pub(super) struct FetchedPages {
    /// Which holder the block is.
    pub(super) holder: usize,
    /// Numbers of the pages, rising.
    pub(super) pages: Vec<u32>,
    /// Their bytes.
    pub(super) stored: Vec<Bytes>,
}

/// Series with their samples, and what could not be read.
pub(super) struct Decoded {
    pub(super) batch: SeriesBatch,
    pub(super) damaged: Vec<String>,
}

/// The samples of these series in the range, without those that rules hide.
pub(super) fn decode(
    holders: &[Holder],
    found: &[Found],
    fetched: &[FetchedPages],
    selection: &SampleSelection,
    rules: &Rules,
) -> Decoded {
    let mut damaged = Vec::new();
    let mut pages: Vec<Vec<SamplePage>> = holders.iter().map(|_| Vec::new()).collect();
    for of_block in fetched {
        let Holder::Block { block, .. } = &holders[of_block.holder] else { continue };
        for (number, stored) in of_block.pages.iter().zip(&of_block.stored) {
            match block.footer.pages()[*number as usize].decode(stored) {
                Ok(page) => pages[of_block.holder].push(page),
                Err(reason) => {
                    let error = crate::block_reader::ReadError::damaged(&block.meta, reason);
                    damaged.push(error.to_string());
                }
            }
        }
    }
    let (times, range) = ((selection.first_ms, selection.last_ms), selection.range());
    let (mut texts, mut all_labels, mut all_samples) = (BatchTexts::default(), Vec::new(), Vec::new());
    for one in found {
        let mut parts = Vec::with_capacity(one.members.len());
        for (number, ordinal) in &one.members {
            parts.push(match &holders[*number] {
                Holder::Block { hidden, .. } => {
                    of_pages(&pages[*number], *ordinal, times, |time| hidden.hides(*ordinal, time))
                }
                Holder::Head { series } => {
                    let (mut samples, _) = series.samples(*ordinal as usize, times);
                    let rules = rules.between(range.start, range.end.saturating_sub(1));
                    let hidden = times_of(rules, &one.labels);
                    if !hidden.is_empty() {
                        samples.retain(|time| !hides(&hidden, time));
                    }
                    samples
                }
            });
        }
        let SampleColumns { timestamps: times, values, .. } = join(parts);
        if !times.is_empty() {
            let wanted = one.labels.iter().filter(|(name, _)| selection.wants(name));
            all_labels.push(wanted.map(|(name, value)| (texts.id(name), texts.id(value))).collect());
            all_samples.push(Arc::new(Samples { times: times.into(), values, ..Samples::default() }));
        }
    }
    let (dictionary, labels, samples) = (texts.finish(), all_labels, all_samples);
    Decoded { batch: SeriesBatch { dictionary, labels, samples, held: None }, damaged }
}

/// The samples of a series in the pages of one block.
fn of_pages(
    pages: &[SamplePage],
    ordinal: u32,
    (first_ms, last_ms): (i64, i64),
    is_hidden: impl Fn(i64) -> bool,
) -> SampleColumns {
    let mut samples = SampleColumns::default();
    for page in pages {
        let Ok(run) = page.runs.binary_search_by_key(&ordinal, |run| run.series) else { continue };
        let run = page.runs[run];
        let rows = run.start as usize..run.end as usize;
        let times = &page.timestamps[rows.clone()];
        let from = rows.start + times.partition_point(|time| *time < first_ms);
        let to = rows.start + times.partition_point(|time| *time <= last_ms);
        for row in from..to.max(from) {
            if !is_hidden(page.timestamps[row]) {
                samples.timestamps.push(page.timestamps[row]);
                samples.values.push(page.values[row]);
            }
        }
    }
    samples
}

/// One column of several, each by rising time, those of the holder that had its samples first before others.
fn join(mut parts: Vec<SampleColumns>) -> SampleColumns {
    parts.retain(|part| !part.timestamps.is_empty());
    if parts.len() == 1 {
        return parts.swap_remove(0);
    }
    let mut all: Vec<(i64, u64)> = Vec::with_capacity(parts.iter().map(|part| part.timestamps.len()).sum());
    for part in &parts {
        all.extend(part.timestamps.iter().zip(&part.values).map(|(time, value)| (*time, value.to_bits())));
    }
    all.sort_by_key(|(time, _)| *time); // stable, and fast on runs that are sorted already
    all.dedup_by_key(|(time, _)| *time);
    let (timestamps, bits): (Vec<i64>, Vec<u64>) = all.into_iter().unzip();
    let values = bits.into_iter().map(f64::from_bits).collect();
    SampleColumns { timestamps, values, ..SampleColumns::default() }
}

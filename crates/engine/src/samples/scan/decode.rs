//! Puts the samples of series together: those of fetched pages and those of heads.
//!
//! A part of a batch decodes the pages of its own series; a page that reaches into two parts is decoded by
//! both.

use std::ops::RangeInclusive;
use std::sync::Arc;

use sandur_base::Stopped;
use sandur_format::sample_block::SamplePage;
use sandur_model::FloatHistogram;
use sandur_query::{BatchTexts, SampleSelection, Samples, SeriesBatch};

use super::Holder;
use super::fetch::FetchedBlock;
use super::walk::Found;
use crate::rules::Rules;
use crate::samples::head::SampleColumns;
use crate::samples::hidden::{Times, times_of};
use crate::samples::join::{
    FloatPart, HistogramPart, JoinedHistograms, Lists, Stays, join_floats, join_histograms,
    keep_one_of_each_instant, visible,
};

/// Series with their samples, and what could not be read.
pub(super) struct Decoded {
    pub(super) batch: SeriesBatch,
    pub(super) damaged: Vec<String>,
}

/// The pages of one block, and where each series is in them.
#[derive(Default)]
struct BlockPages {
    pages: Vec<SamplePage>,
    /// Series, page and run, by series and time.
    runs: Vec<(u32, u32, u32)>,
}

impl BlockPages {
    fn runs_of(&self, series: u32) -> impl Iterator<Item = (&SamplePage, usize)> {
        let from = self.runs.partition_point(|(of, ..)| *of < series);
        let own = self.runs[from..].iter().take_while(move |(of, ..)| *of == series);
        own.map(|(_, page, run)| (&self.pages[*page as usize], *run as usize))
    }
}

/// The samples of these series in the range, without those that rules hide.
pub(super) fn decode(
    holders: &[Holder],
    found: &[Found],
    fetched: &[FetchedBlock],
    selection: &SampleSelection,
    rules: &Rules,
) -> Result<Decoded, Stopped> {
    let mut damaged = Vec::new();
    let mut blocks: Vec<BlockPages> = holders.iter().map(|_| BlockPages::default()).collect();
    for of_block in fetched {
        let number = of_block.holder;
        let Some(series) = series_in(found, number) else { continue };
        let times = (selection.first_ms, selection.last_ms);
        blocks[number] = decode_block(&holders[number], of_block, &series, times, &mut damaged)?;
    }
    let mut assembly = Assembly { holders, blocks: &blocks, selection, rules, lists: Lists::default() };
    let (mut texts, mut all_labels, mut all_samples) = (BatchTexts::default(), Vec::new(), Vec::new());
    for one in found {
        let samples = assembly.samples(one);
        if samples.times.is_empty() && samples.histogram_times.is_empty() {
            continue;
        }
        let mut ids = Vec::new();
        one.each_label(holders, |name, value| {
            if selection.wants(name) {
                ids.push((texts.id(name), texts.id(value)));
            }
        });
        all_labels.push(ids.into_boxed_slice());
        all_samples.push(Arc::new(samples));
    }
    let (dictionary, labels, samples) = (texts.finish(), all_labels, all_samples);
    Ok(Decoded { batch: SeriesBatch { dictionary, labels, samples, held: None }, damaged })
}

/// From the first to the last of the series in a holder: they come in its order.
fn series_in(found: &[Found], holder: usize) -> Option<RangeInclusive<u32>> {
    let first = found.iter().find_map(|found| found.ordinal_in(holder))?;
    let last = found.iter().rev().find_map(|found| found.ordinal_in(holder))?;
    Some(first..=last)
}

fn decode_block(
    holder: &Holder,
    fetched: &FetchedBlock,
    series: &RangeInclusive<u32>,
    times: (i64, i64),
    damaged: &mut Vec<String>,
) -> Result<BlockPages, Stopped> {
    let Holder::Block { block, .. } = holder else { return Ok(BlockPages::default()) };
    let mut all = BlockPages::default();
    for group in &fetched.groups {
        let entry = |number: u32| &group.head.pages()[number as usize];
        let is_due = |number: u32| {
            entry(number).first_series <= *series.end() && entry(number).last_series >= *series.start()
        };
        let mut due = group.pages.iter().filter(|(number, _)| is_due(*number)).peekable();
        if due.peek().is_none() {
            continue;
        }
        let mut decoder = group.head.decoder_with(Arc::clone(&group.tables));
        for (number, bytes) in due {
            sandur_base::job::spend(bytes.len())?;
            let entry = entry(*number);
            match decoder.decode_between(entry, bytes, &fetched.times, times) {
                Ok(page) => {
                    let number = all.pages.len() as u32;
                    let runs = page.runs.iter().enumerate();
                    all.runs.extend(runs.map(|(at, run)| (run.series, number, at as u32)));
                    all.pages.push(page);
                }
                Err(reason) => {
                    damaged.push(crate::block_reader::ReadError::damaged(&block.meta, reason).to_string());
                }
            }
        }
    }
    // Pages come by series and time: few runs are out of place.
    all.runs.sort_by_key(|(series, ..)| *series);
    Ok(all)
}

/// What a head has of a series.
struct FromHead {
    holder: usize,
    times: Arc<Vec<i64>>,
    columns: SampleColumns,
    histogram_times: Vec<i64>,
    histograms: Vec<Arc<FloatHistogram>>,
    histogram_starts: Vec<i64>,
    hidden: Vec<Times>,
}

impl FromHead {
    fn add<'a>(&'a self, floats: &mut Vec<FloatPart<'a>>, histograms: &mut Vec<HistogramPart<'a>>) {
        for rows in visible(&self.times, 0..self.times.len(), &self.hidden) {
            let values = &self.columns.values[rows.clone()];
            let starts = self.columns.starts.get(rows.clone()).unwrap_or_default();
            floats.push(FloatPart { holder: self.holder, times: &self.times, values, starts, rows });
        }
        for rows in visible(&self.histogram_times, 0..self.histogram_times.len(), &self.hidden) {
            histograms.push(HistogramPart {
                holder: self.holder,
                times: &self.histogram_times[rows.clone()],
                histograms: &self.histograms[rows.clone()],
                integers: &[],
                starts: &self.histogram_starts[rows],
            });
        }
    }
}

/// Puts the samples of one series after the other together.
struct Assembly<'a> {
    holders: &'a [Holder],
    blocks: &'a [BlockPages],
    selection: &'a SampleSelection,
    rules: &'a Rules,
    lists: Lists,
}

impl Assembly<'_> {
    fn samples(&mut self, found: &Found) -> Samples {
        let mut from_heads: Vec<FromHead> = Vec::new();
        let (mut floats, mut histograms) = (Vec::new(), Vec::new());
        let (holders, blocks) = (self.holders, self.blocks);
        for (number, ordinal) in &found.members {
            match &holders[*number] {
                Holder::Block { hidden, .. } => {
                    let hidden = hidden.times_of(*ordinal);
                    for (page, run) in blocks[*number].runs_of(*ordinal) {
                        self.add_run((*number, page, run), hidden, &mut floats, &mut histograms);
                    }
                }
                Holder::Head { series } => {
                    let times = (self.selection.first_ms, self.selection.last_ms);
                    let (mut columns, _) = series.samples(*ordinal as usize, times);
                    let times = self.lists.shared(std::mem::take(&mut columns.timestamps));
                    let histogram_times = columns.histograms.iter().map(|one| one.timestamp).collect();
                    let histograms =
                        columns.histograms.iter().map(|one| Arc::clone(&one.histogram)).collect();
                    let histogram_starts = columns.histograms.iter().map(|one| one.start).collect();
                    let hidden = self.hidden_in_head(found);
                    from_heads.push(FromHead {
                        holder: *number,
                        times,
                        columns,
                        histogram_times,
                        histograms,
                        histogram_starts,
                        hidden,
                    });
                }
            }
        }
        from_heads.iter().for_each(|head| head.add(&mut floats, &mut histograms));
        keep_one_of_each_instant(&mut floats, &mut histograms);
        let stays = || Stays::of(&found.labels(holders));
        let (times, values, starts) = join_floats(floats, &mut self.lists, self.selection.starts, stays);
        let histograms = join_histograms(&histograms, self.selection.starts);
        let JoinedHistograms { times: histogram_times, histograms, starts: histogram_starts, .. } =
            histograms;
        Samples { times, values, starts, histogram_times, histograms, histogram_starts }
    }

    fn hidden_in_head(&self, found: &Found) -> Vec<Times> {
        let range = self.selection.range();
        let mut rules = self.rules.between(range.start, range.end.saturating_sub(1)).peekable();
        if rules.peek().is_none() {
            return Vec::new();
        }
        times_of(rules, &found.labels(self.holders))
    }

    fn add_run<'p>(
        &self,
        (holder, page, run): (usize, &'p SamplePage, usize),
        hidden: &[Times],
        floats: &mut Vec<FloatPart<'p>>,
        histograms: &mut Vec<HistogramPart<'p>>,
    ) {
        let run = &page.runs[run];
        let within = run.between(self.selection.first_ms, self.selection.last_ms);
        for rows in visible(&run.times, within, hidden) {
            let skipped = run.skipped as usize;
            let stored = run.rows().start + rows.start - skipped..run.rows().start + rows.end - skipped;
            let starts = page.starts.get(stored.clone()).unwrap_or_default();
            if page.histograms.is_empty() {
                let values = &page.values[stored];
                floats.push(FloatPart { holder, times: &run.times, values, starts, rows });
            } else {
                let integers = page.integers.get(stored.clone()).unwrap_or_default();
                let (times, of_run) = (&run.times[rows], &page.histograms[stored]);
                histograms.push(HistogramPart { holder, times, histograms: of_run, integers, starts });
            }
        }
    }
}

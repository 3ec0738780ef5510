//! Decodes and joins the samples of series from fetched pages and from heads.
//!
//! A part of a batch decodes the pages of its own series, each when its first series is reached. A page
//! with series of two parts is decoded by both.

use std::ops::RangeInclusive;
use std::sync::Arc;

use sandur_format::catalog_entry::BlockMeta;
use sandur_format::sample_block::{PageDecoder, SamplePage, Values};
use sandur_memory::Stopped;
use sandur_model::FloatHistogram;
use sandur_query::{BatchTexts, Error, SampleSelection, Samples, SeriesBatch};

use super::fetch::{FetchedBlock, series_in};
use super::holder::Holder;
use super::labels::LabelsOfSeries;
use super::walk::Found;
use crate::error::ReadError;
use crate::rules::Rules;
use crate::samples::OpenSamples;
use crate::samples::head::{SampleColumns, Wanted};
use crate::samples::hidden::{HiddenTimes, Times};
use crate::samples::join::{
    Columns, FloatPart, HistogramPart, JoinedFloats, JoinedHistograms, Lists, RowStamps, Stays, join_floats,
    join_histograms, keep_one_of_each_instant, visible,
};

/// Series with their samples, and warnings about damaged pages.
pub(super) struct Decoded {
    pub(super) batch: SeriesBatch,
    pub(super) damaged: Vec<String>,
}

/// The pages of one block. They are decoded when their series are reached, so that only the pages of few
/// series are decoded at the same time.
struct BlockPages<'a> {
    fetched: &'a FetchedBlock,
    meta: &'a BlockMeta,
    times: (i64, i64),
    values: Values,
    /// Groups and pages of them that are not decoded yet, by series.
    due: std::vec::IntoIter<(usize, usize)>,
    /// The decoder for pages of the group at this position.
    decoder: Option<(usize, PageDecoder<'a>)>,
    /// Decoded pages with the current series or later ones, each with its last series.
    pages: Vec<(u32, SamplePage)>,
}

impl<'a> BlockPages<'a> {
    /// The pages with series of this range.
    fn new(
        block: &'a OpenSamples,
        fetched: &'a FetchedBlock,
        series: &RangeInclusive<u32>,
        selection: &SampleSelection,
    ) -> Self {
        let mut due = Vec::new();
        for (at, group) in fetched.groups.iter().enumerate() {
            let is_due = |number: u32| {
                let entry = &group.head.pages()[number as usize];
                entry.first_series <= *series.end() && entry.last_series >= *series.start()
            };
            due.extend((0..group.pages.len()).filter(|n| is_due(group.pages[*n].0)).map(|n| (at, n)));
        }
        let times = (selection.first_ms, selection.last_ms);
        let values = if selection.presence_only { Values::Presence } else { Values::All };
        let (due, decoder, pages) = (due.into_iter(), None, Vec::new());
        Self { fetched, meta: &block.meta, times, values, due, decoder, pages }
    }

    /// Decodes the pages with a series. The series must not precede that of the previous call.
    fn move_to(&mut self, series: u32, damaged: &mut Vec<String>) -> Result<(), Stopped> {
        self.pages.retain(|(last, _)| *last >= series);
        while let Some((at, n)) = self.due.as_slice().first().copied() {
            let group = &self.fetched.groups[at];
            let (number, bytes) = &group.pages[n];
            let entry = &group.head.pages()[*number as usize];
            if entry.first_series > series {
                break;
            }
            self.due.next();
            if entry.last_series < series {
                continue;
            }
            sandur_memory::job::spend(bytes.len())?;
            let decoder = match &mut self.decoder {
                Some((of, decoder)) if *of == at => decoder,
                other => &mut other.insert((at, group.head.decoder_with(Arc::clone(&group.tables)))).1,
            };
            match decoder.decode_between(entry, bytes, &self.fetched.times, self.times, self.values) {
                Ok(page) => self.pages.push((entry.last_series, page)),
                Err(reason) => damaged.push(ReadError::damaged(self.meta, reason).to_string()),
            }
        }
        Ok(())
    }

    /// The positions of the current series in decoded pages.
    fn runs_of(&self, series: u32) -> impl Iterator<Item = (&SamplePage, usize)> {
        self.pages.iter().filter_map(move |(_, page)| {
            let at = page.runs.partition_point(|run| run.series < series);
            page.runs.get(at).filter(|run| run.series == series).map(|_| (page, at))
        })
    }
}

/// Returns the samples of these series in the range, without those that rules hide.
pub(super) fn decode(
    holders: &[Holder],
    found: &[Found],
    fetched: &[FetchedBlock],
    selection: &SampleSelection,
    rules: &Rules,
) -> Result<Decoded, Error> {
    let mut damaged = Vec::new();
    let mut blocks: Vec<Option<BlockPages<'_>>> = holders.iter().map(|_| None).collect();
    for of_block in fetched {
        let number = of_block.holder;
        let (Some(series), Holder::Block { block, .. }) = (series_in(found, number), &holders[number]) else {
            continue;
        };
        blocks[number] = Some(BlockPages::new(block, of_block, &series, selection));
    }
    let hidden = hidden_in_heads(holders, found, selection, rules)?;
    let mut assembly = Assembly { holders, blocks, selection, lists: Lists::default() };
    let (mut texts, mut labels_of) = (BatchTexts::default(), LabelsOfSeries::default());
    let mut all_labels = Vec::with_capacity(found.len());
    let mut all_samples = Vec::with_capacity(found.len());
    for (place, one) in found.iter().enumerate() {
        let samples = assembly.samples(one, hidden.of_series(place), &mut damaged)?;
        if samples.times.is_empty() && samples.histogram_times.is_empty() {
            continue;
        }
        all_labels.push(labels_of.ids(one, holders, |name| selection.wants(name), &mut texts));
        all_samples.push(Arc::new(samples));
    }
    let (dictionary, labels, samples) = (texts.finish(), all_labels, all_samples);
    Ok(Decoded { batch: SeriesBatch { dictionary, labels, samples, held: None }, damaged })
}

/// The times that rules hide of the series of heads.
fn hidden_in_heads(
    holders: &[Holder],
    found: &[Found],
    selection: &SampleSelection,
    rules: &Rules,
) -> Result<HiddenTimes, Error> {
    let range = selection.range();
    let mut rules = rules.between(range.start, range.end.saturating_sub(1)).peekable();
    if rules.peek().is_none() {
        return Ok(HiddenTimes::none());
    }
    let is_head = |(number, _): &(usize, u32)| matches!(holders[*number], Holder::Head { .. });
    let labels = |one: &Found| one.members.iter().any(is_head).then(|| one.labels(holders));
    HiddenTimes::of(rules, &found.iter().map(labels).collect::<Vec<_>>())
}

/// The samples of a series in a head.
struct FromHead<'h> {
    holder: usize,
    times: Arc<Vec<i64>>,
    columns: SampleColumns,
    histogram_times: Vec<i64>,
    histograms: Vec<Arc<FloatHistogram>>,
    histogram_starts: Vec<i64>,
    hidden: &'h [Times],
}

impl FromHead<'_> {
    fn add<'a>(&'a self, floats: &mut Vec<FloatPart<'a>>, histograms: &mut Vec<HistogramPart<'a>>) {
        for rows in visible(&self.times, 0..self.times.len(), self.hidden) {
            let values = &self.columns.values[rows.clone()];
            let starts = self.columns.starts.get(rows.clone()).unwrap_or_default();
            let stamps = RowStamps::each(&self.columns.stamps).from(rows.start);
            let (holder, times) = (self.holder, &self.times);
            floats.push(FloatPart { holder, times, values, starts, stamps, rows });
        }
        for rows in visible(&self.histogram_times, 0..self.histogram_times.len(), self.hidden) {
            histograms.push(HistogramPart {
                holder: self.holder,
                times: &self.histogram_times[rows.clone()],
                histograms: &self.histograms[rows.clone()],
                integers: &[],
                stamps: RowStamps::each(&self.columns.histogram_stamps).from(rows.start),
                starts: &self.histogram_starts[rows],
            });
        }
    }
}

/// Joins the samples of one series after the other.
struct Assembly<'a> {
    holders: &'a [Holder],
    blocks: Vec<Option<BlockPages<'a>>>,
    selection: &'a SampleSelection,
    lists: Lists,
}

impl Assembly<'_> {
    /// Returns the samples of a series. `hidden` are times that are left out of heads.
    fn samples(
        &mut self,
        found: &Found,
        hidden: &[Times],
        damaged: &mut Vec<String>,
    ) -> Result<Samples, Stopped> {
        for (number, ordinal) in found.members.iter() {
            if let Some(pages) = &mut self.blocks[*number] {
                pages.move_to(*ordinal, damaged)?;
            }
        }
        if let Some(samples) = self.of_one_run(found) {
            return Ok(samples);
        }
        let mut lists = std::mem::take(&mut self.lists);
        let samples = self.joined(found, hidden, &mut lists);
        self.lists = lists;
        Ok(samples)
    }

    /// Returns the floats of a series if one block has one run of it and nothing is hidden, which holds
    /// for most series with few samples; otherwise `None`.
    fn of_one_run(&mut self, found: &Found) -> Option<Samples> {
        let [(number, ordinal)] = *found.members else { return None };
        let Holder::Block { hidden, .. } = &self.holders[number] else { return None };
        let mut runs = self.blocks[number].as_ref()?.runs_of(ordinal);
        let (page, run) = runs.next()?;
        if runs.next().is_some() || !page.histograms.is_empty() || !hidden.times_of(ordinal).is_empty() {
            return None;
        }
        let run = &page.runs[run];
        let rows = run.between(self.selection.first_ms, self.selection.last_ms);
        let stored = run.stored(&rows);
        let starts = if self.selection.starts { page.starts.get(stored.clone()) } else { None };
        let (starts, values) = (starts.unwrap_or_default().to_vec(), page.values[stored].to_vec());
        let times = self.lists.of_rows(&run.times, rows);
        Some(Samples { times, values, starts, ..Samples::default() })
    }

    fn joined(&self, found: &Found, hidden_in_heads: &[Times], lists: &mut Lists) -> Samples {
        let mut from_heads: Vec<FromHead<'_>> = Vec::new();
        let (mut floats, mut histograms) = (Vec::new(), Vec::new());
        let holders = self.holders;
        // Only samples of several holders are compared.
        let stamps = if found.members.len() > 1 { Wanted::Yes } else { Wanted::No };
        for (number, ordinal) in found.members.iter() {
            match &holders[*number] {
                Holder::Block { hidden, .. } => {
                    let hidden = hidden.times_of(*ordinal);
                    for (page, run) in self.blocks[*number].iter().flat_map(|pages| pages.runs_of(*ordinal)) {
                        self.add_run((*number, page, run), hidden, &mut floats, &mut histograms);
                    }
                }
                Holder::Head { series } => {
                    let times = (self.selection.first_ms, self.selection.last_ms);
                    let (mut columns, _) = series.samples(*ordinal as usize, times, stamps);
                    let times = lists.shared(std::mem::take(&mut columns.timestamps));
                    let histogram_times = columns.histograms.iter().map(|one| one.timestamp).collect();
                    let histograms =
                        columns.histograms.iter().map(|one| Arc::clone(&one.histogram)).collect();
                    let histogram_starts = columns.histograms.iter().map(|one| one.start).collect();
                    from_heads.push(FromHead {
                        holder: *number,
                        times,
                        columns,
                        histogram_times,
                        histograms,
                        histogram_starts,
                        hidden: hidden_in_heads,
                    });
                }
            }
        }
        from_heads.iter().for_each(|head| head.add(&mut floats, &mut histograms));
        keep_one_of_each_instant(&mut floats, &mut histograms);
        let stays = || Stays::of(&found.labels(holders));
        let columns = Columns { starts: self.selection.starts, stamps: false };
        let JoinedFloats { times, values, starts, .. } = join_floats(floats, lists, columns, stays);
        let histograms = join_histograms(&histograms, columns);
        let JoinedHistograms { times: histogram_times, histograms, starts: histogram_starts, .. } =
            histograms;
        Samples { times, values, starts, histogram_times, histograms, histogram_starts }
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
            let stored = run.stored(&rows);
            let starts = page.starts.get(stored.clone()).unwrap_or_default();
            let stamps = RowStamps::of_list(run.stamps.as_ref(), rows.start);
            if page.histograms.is_empty() {
                let values = &page.values[stored];
                floats.push(FloatPart { holder, times: &run.times, values, starts, stamps, rows });
            } else {
                let integers = page.integers.get(stored.clone()).unwrap_or_default();
                let (times, of_run) = (&run.times[rows], &page.histograms[stored]);
                let part = HistogramPart { holder, times, histograms: of_run, integers, starts, stamps };
                histograms.push(part);
            }
        }
    }
}

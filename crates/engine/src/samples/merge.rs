//! Merging sample blocks: all of them are read side by side in the order of series.
//!
//! Of samples of one series and instant the first input's stays, which is that of the rows that came first.
//! Samples that deletes hide are left out; a group of hidden series alone is not even read, and a series of
//! which nothing is left is not part of the result. One group of each input is in memory, and one series.
//! Exemplars and metadata come last ([`merge_beside`](super::merge_beside)).

use std::cmp::Ordering;
use std::sync::Arc;

use bytes::Bytes;
use futures_util::future::try_join;
use sandur_base::{MemoryBudget, Reservation};
use sandur_cache::Hint;
use sandur_format::Error as FormatError;
use sandur_format::block::{BlockIndex, SeriesList, SeriesTable, compare_series};
use sandur_format::catalog_entry::BlockMeta;
use sandur_format::sample_block::{
    BlockOptions, BlockWriter, Floats, Histograms, OpenGroup, SamplePage, TimeTable,
};
use sandur_query::QueryStats;

use super::OpenSamples;
use super::exemplars::are_some_hidden;
use super::hidden::HiddenSamples;
use super::join::{FloatPart, HistogramPart, JoinedHistograms, Lists, join_floats, join_histograms, visible};
use super::merge_beside::{BesideMerger, BesideRef, BesideStep, fetch};
use super::times::read_times;
use crate::block_reader::{BlockReader, ReadError};
use crate::error::Error;
use crate::merging::{Merge, MergeCounts, Merging, OUTPUT_BYTES, Step, Target};
use crate::rules::DueRules;

/// The ordinal of a series that the result does not have.
const NO_SERIES: u32 = u32::MAX;
/// Samples of a step at most: some tens of milliseconds.
const STEP_ROWS: u64 = 1 << 18;

/// A group of an input.
#[derive(Clone, Copy, Debug)]
pub(crate) struct GroupRef {
    input: usize,
    group: usize,
}

/// What a merge asks for.
#[derive(Clone, Copy, Debug)]
pub(crate) enum PageRef {
    /// Samples.
    Group(GroupRef),
    /// Exemplars or metadata.
    Beside(BesideRef),
}

/// What it is given.
pub(crate) enum PageBytes {
    /// Samples.
    Group(GroupBytes),
    /// Exemplars or metadata.
    Beside(Bytes),
}

/// A group as it is stored, and the lists of times that its pages need.
pub(crate) struct GroupBytes {
    group: Bytes,
    times: TimeTable,
}

/// One of the blocks that are merged.
struct Input {
    block: Arc<OpenSamples>,
    hidden: HiddenSamples,
    /// For each series its ordinal in the result, or [`NO_SERIES`].
    ordinals: Vec<u32>,
    /// The next group to be read.
    next_group: usize,
    open: Option<Open>,
    /// What came of the current series in groups before the one that is open.
    carried: Option<Carried>,
}

/// A group whose pages are decoded.
struct Open {
    pages: Vec<SamplePage>,
    /// Series, page and run of those that stay, by series and time.
    runs: Vec<(u32, usize, usize)>,
    /// The first one that is left.
    at: usize,
    _memory: Reservation,
}

/// Samples of one series that goes on in the next group.
#[derive(Default)]
struct Carried {
    series: u32,
    times: Arc<Vec<i64>>,
    values: Vec<f64>,
    starts: Vec<i64>,
    histograms: JoinedHistograms,
    _memory: Option<Reservation>,
}

/// The samples that inputs have of one series.
#[derive(Default)]
struct Parts<'a> {
    floats: Vec<FloatPart<'a>>,
    histograms: Vec<HistogramPart<'a>>,
    hidden: u64,
}

impl Open {
    fn series(&self) -> Option<u32> {
        self.runs.get(self.at).map(|(series, ..)| *series)
    }

    /// The runs of the current series.
    fn current(&self) -> &[(u32, usize, usize)] {
        let rest = &self.runs[self.at.min(self.runs.len())..];
        let series = rest.first().map(|(series, ..)| *series);
        &rest[..rest.partition_point(|(of, ..)| Some(*of) == series)]
    }

    fn add<'a>(&'a self, hidden: &HiddenSamples, parts: &mut Parts<'a>) {
        for (series, page, run) in self.current() {
            let page = &self.pages[*page];
            let run = &page.runs[*run];
            let mut seen = 0;
            for rows in visible(&run.times, 0..run.times.len(), hidden.times_of(*series)) {
                seen += rows.len();
                let stored = run.start as usize + rows.start..run.start as usize + rows.end;
                let starts = page.starts.get(stored.clone()).unwrap_or_default();
                if page.histograms.is_empty() {
                    parts.floats.push(FloatPart {
                        times: &run.times,
                        values: &page.values[stored],
                        starts,
                        rows,
                    });
                } else {
                    let integers = page.integers.get(stored.clone()).unwrap_or_default();
                    let (times, histograms) = (&run.times[rows], &page.histograms[stored]);
                    parts.histograms.push(HistogramPart { times, histograms, integers, starts });
                }
            }
            parts.hidden += (run.times.len() - seen) as u64;
        }
    }
}

impl Carried {
    fn add<'a>(&'a self, parts: &mut Parts<'a>) {
        if !self.times.is_empty() {
            let (times, values, starts) = (&self.times, &self.values, &self.starts);
            parts.floats.push(FloatPart { times, rows: 0..times.len(), values, starts });
        }
        let JoinedHistograms { times, histograms, integers, starts } = &self.histograms;
        if !times.is_empty() {
            parts.histograms.push(HistogramPart { times, histograms, integers, starts });
        }
    }
}

impl Input {
    /// The series that is next, which has all its samples here once no group is due.
    fn series(&self) -> Option<u32> {
        let carried = self.carried.as_ref().map(|carried| carried.series);
        carried.or_else(|| self.open.as_ref().and_then(Open::series))
    }

    /// Whether the group that is open ends within its current series.
    fn goes_on(&self, open: &Open) -> bool {
        let next = self.block.footer.groups().get(self.next_group);
        let (Some(series), Some(next)) = (open.series(), next) else { return false };
        next.first_series == series && open.at + open.current().len() == open.runs.len()
    }

    /// Puts the current series, which goes on in the next group, with what came before of it.
    fn carry(&mut self, budget: &MemoryBudget) -> Result<u64, Error> {
        let Some(open) = self.open.take() else { return Ok(0) };
        let Some(series) = open.series() else { return Ok(0) };
        let before = self.carried.take();
        let mut parts = Parts::default();
        before.iter().for_each(|carried| carried.add(&mut parts));
        open.add(&self.hidden, &mut parts);
        let hidden = parts.hidden;
        let (times, values, starts) = join_floats(parts.floats, &mut Lists::default(), true);
        let histograms = join_histograms(&parts.histograms, true);
        let of_histograms: u64 = histograms.histograms.iter().map(|one| one.memory_bytes() + 24).sum();
        let memory = Some(budget.reserve(times.len() as u64 * 24 + of_histograms)?);
        let times = Arc::new(times.to_vec());
        self.carried = Some(Carried { series, times, values, starts, histograms, _memory: memory });
        Ok(hidden)
    }

    /// Leaves the current series behind.
    fn pass(&mut self, series: u32) {
        self.carried = None;
        if let Some(open) = self.open.as_mut().filter(|open| open.series() == Some(series)) {
            open.at += open.current().len();
        }
    }
}

/// Merges blocks into one.
pub(crate) struct Merger {
    inputs: Vec<Input>,
    writer: Option<BlockWriter>,
    supplied: Option<PageBytes>,
    beside: BesideMerger,
    /// The page of it that was asked for.
    asked: Option<BesideRef>,
    handed_bytes: u64,
    rows: u64,
    budget: MemoryBudget,
    counts: MergeCounts,
}

impl Merger {
    fn new(
        blocks: &[Arc<OpenSamples>],
        hidden: Vec<HiddenSamples>,
        options: BlockOptions,
        budget: MemoryBudget,
    ) -> Result<Self, FormatError> {
        let tables: Vec<_> =
            blocks.iter().zip(&hidden).map(|(block, h)| (block.footer.series(), h)).collect();
        let (series, ordinals) = merge_tables(&tables)?;
        let input = |((block, hidden), ordinals): ((&Arc<OpenSamples>, HiddenSamples), Vec<u32>)| Input {
            block: Arc::clone(block),
            hidden,
            ordinals,
            next_group: 0,
            open: None,
            carried: None,
        };
        Ok(Self {
            inputs: blocks.iter().zip(hidden).zip(ordinals).map(input).collect(),
            writer: Some(BlockWriter::new(options, series)),
            supplied: None,
            beside: BesideMerger::new(blocks),
            asked: None,
            handed_bytes: 0,
            rows: 0,
            budget,
            counts: MergeCounts::default(),
        })
    }

    fn output(&mut self) -> Option<Vec<Bytes>> {
        let writer = self.writer.as_mut()?;
        if writer.written_bytes() - self.handed_bytes < OUTPUT_BYTES && self.rows < STEP_ROWS {
            return None;
        }
        (self.handed_bytes, self.rows) = (writer.written_bytes(), 0);
        let mut output = Vec::new();
        writer.take_output(&mut output);
        Some(output)
    }

    /// The group that must be read before the next series is known as a whole. Groups without a series that
    /// stays are counted and passed over.
    fn group_due(&mut self) -> Result<Option<GroupRef>, Error> {
        for (number, input) in self.inputs.iter_mut().enumerate() {
            loop {
                if let Some(open) = &input.open {
                    if open.series().is_none() {
                        input.open = None;
                    } else if input.goes_on(open) {
                        self.counts.deleted += input.carry(&self.budget)?;
                    } else {
                        break;
                    }
                }
                let Some(entry) = input.block.footer.groups().get(input.next_group) else { break };
                if input.carried.as_ref().is_some_and(|carried| carried.series != entry.first_series) {
                    break;
                }
                let series = entry.first_series as usize..=entry.last_series as usize;
                if input.ordinals[series].iter().any(|ordinal| *ordinal != NO_SERIES) {
                    return Ok(Some(GroupRef { input: number, group: input.next_group }));
                }
                self.counts.deleted += entry.rows;
                input.next_group += 1;
            }
        }
        Ok(None)
    }

    fn open(&mut self, GroupRef { input: number, group }: GroupRef, bytes: GroupBytes) -> Result<(), Error> {
        let input = &mut self.inputs[number];
        let entry = &input.block.footer.groups()[group];
        let damage = |reason| damaged(&input.block.meta, reason);
        let mut memory = self.budget.reserve(u64::from(entry.piece.len) + entry.head_memory_bytes())?;
        let stored = OpenGroup::open(entry, bytes.group).map_err(damage)?;
        let head = stored.head();
        memory.grow(head.pages().iter().map(|page| page.memory_bytes()).sum())?;
        let (mut decoder, mut open) =
            (head.decoder(), Open { pages: Vec::new(), runs: Vec::new(), at: 0, _memory: memory });
        for page in head.pages() {
            let decoded =
                decoder.decode(page, &stored.page_bytes(page), &bytes.times, false).map_err(damage)?;
            for (at, run) in decoded.runs.iter().enumerate() {
                match input.ordinals[run.series as usize] {
                    NO_SERIES => self.counts.deleted += run.times.len() as u64,
                    _ => open.runs.push((run.series, open.pages.len(), at)),
                }
            }
            open.pages.push(decoded);
            self.counts.merged_pages += 1;
        }
        open.runs.sort_by_key(|(series, ..)| *series); // stable: those of a series stay by time
        input.next_group += 1;
        input.open = Some(open);
        Ok(())
    }

    /// Writes the next series; `false` when there is none.
    fn write_series(&mut self) -> Result<bool, Error> {
        let ordinal = |input: &Input| input.series().map(|series| input.ordinals[series as usize]);
        let Some(next) = self.inputs.iter().filter_map(ordinal).min() else { return Ok(false) };
        let mut parts = Parts::default();
        for input in self.inputs.iter().filter(|input| ordinal(input) == Some(next)) {
            input.carried.iter().for_each(|carried| carried.add(&mut parts));
            if let Some(open) = input.open.as_ref().filter(|open| open.series() == input.series()) {
                open.add(&input.hidden, &mut parts);
            }
        }
        self.counts.deleted += parts.hidden;
        let before = parts.floats.iter().map(|part| part.rows.len()).sum::<usize>()
            + parts.histograms.iter().map(|part| part.times.len()).sum::<usize>();
        let writer = self.writer.as_mut().expect("the writer is there until the merge is finished");
        let written = write(writer, next, parts).map_err(|error| Error::Internal(error.to_string()))?;
        self.counts.duplicates += (before - written) as u64;
        self.rows += before as u64;
        for input in self.inputs.iter_mut() {
            if let Some(series) = input.series().filter(|series| input.ordinals[*series as usize] == next) {
                input.pass(series);
            }
        }
        Ok(true)
    }

    /// Does something of the exemplars and metadata.
    fn step_beside(&mut self) -> Result<BesideStep, Error> {
        if let (Some(asked), Some(PageBytes::Beside(bytes))) = (self.asked.take(), self.supplied.take()) {
            self.beside.supply(asked, &bytes, &self.budget)?;
        }
        let writer = self.writer.as_mut().expect("the writer is there until the merge is finished");
        let inputs = &self.inputs;
        self.beside.step(writer, |input| &inputs[input].hidden)
    }

    fn finish(&mut self) -> Result<Step<PageRef>, Error> {
        let internal = |error: FormatError| Error::Internal(error.to_string());
        let writer = self.writer.take();
        let writer = writer.ok_or_else(|| Error::Internal("a merge was finished twice".to_owned()))?;
        self.counts.beside = writer.beside();
        let mut output = Vec::new();
        let summary = writer.finish(&mut output).map_err(internal)?;
        let before = self.inputs.iter().map(|input| input.block.meta.rows).sum();
        self.counts.check(before, summary.rows)?;
        Ok(Step::Finished(output, summary, self.counts))
    }
}

impl Merge for Merger {
    type Page = PageRef;
    type Bytes = PageBytes;

    fn step(&mut self) -> Result<Step<PageRef>, Error> {
        loop {
            if let Some(output) = self.output() {
                return Ok(Step::Output(output));
            }
            if let Some(group) = self.group_due()? {
                let Some(PageBytes::Group(bytes)) = self.supplied.take() else {
                    return Ok(Step::Need(PageRef::Group(group)));
                };
                self.open(group, bytes)?;
            } else if !self.write_series()? {
                match self.step_beside()? {
                    BesideStep::Wrote => self.rows += 1,
                    BesideStep::Done => return self.finish(),
                    BesideStep::Need(page) => {
                        self.asked = Some(page);
                        return Ok(Step::Need(PageRef::Beside(page)));
                    }
                }
            }
        }
    }

    fn supply(&mut self, bytes: PageBytes) {
        self.supplied = Some(bytes);
    }
}

/// Writes the samples of a series, of one instant those of the first part; gives how many there were.
fn write(writer: &mut BlockWriter, series: u32, parts: Parts<'_>) -> Result<usize, FormatError> {
    let mut rows = 0;
    let follows = |pair: &[FloatPart<'_>]| pair[0].last() < pair[1].first();
    if parts.floats.windows(2).all(follows) {
        for FloatPart { times, rows: of, values, starts } in parts.floats {
            rows += of.len();
            writer.push_floats(series, Floats { times: &times[of], values, starts })?;
        }
    } else {
        let (times, values, starts) = join_floats(parts.floats, &mut Lists::default(), true);
        rows += times.len();
        writer.push_floats(series, Floats { times: &times, values: &values, starts: &starts })?;
    }
    let JoinedHistograms { times, histograms, integers, starts } = join_histograms(&parts.histograms, true);
    rows += times.len();
    let all = Histograms { times: &times, histograms: &histograms, integers: &integers, starts: &starts };
    writer.push_histograms(series, all)?;
    Ok(rows)
}

fn damaged(meta: &BlockMeta, reason: FormatError) -> Error {
    Error::Damaged { path: meta.path(), reason: reason.to_string() }
}

/// The series of all tables that stay, and for each table the ordinals of its series among them.
fn merge_tables(
    tables: &[(&SeriesTable, &HiddenSamples)],
) -> Result<(SeriesList, Vec<Vec<u32>>), FormatError> {
    let mut list = SeriesList::default();
    let mut ordinals: Vec<Vec<u32>> = tables.iter().map(|(table, _)| vec![NO_SERIES; table.len()]).collect();
    let mut next: Vec<u32> = tables.iter().map(|(table, hidden)| next_kept(table, hidden, 0)).collect();
    loop {
        let left = |at: &usize| (next[*at] as usize) < tables[*at].0.len();
        let compare =
            |a: &usize, b: &usize| compare_pairs((tables[*a].0, next[*a]), (tables[*b].0, next[*b]));
        let Some(first) = (0..tables.len()).filter(left).min_by(compare) else { break };
        let (table, ordinal) = (tables[first].0, next[first]);
        let in_result = list.push(table.pairs(ordinal))?;
        for at in first..tables.len() {
            let (of, hidden) = tables[at];
            if (next[at] as usize) < of.len() && compare_pairs((table, ordinal), (of, next[at])).is_eq() {
                ordinals[at][next[at] as usize] = in_result;
                next[at] = next_kept(of, hidden, next[at] + 1);
            }
        }
    }
    Ok((list, ordinals))
}

/// The first series from `from` on that has samples which are not all hidden.
fn next_kept(table: &SeriesTable, hidden: &HiddenSamples, from: u32) -> u32 {
    let kept = |n: &u32| table.stats(*n).rows > 0 && !hidden.gone.contains(*n);
    (from..table.len() as u32).find(kept).unwrap_or(table.len() as u32)
}

fn compare_pairs((a, n): (&SeriesTable, u32), (b, m): (&SeriesTable, u32)) -> Ordering {
    compare_series(a.pairs(n), b.pairs(m))
}

/// Merges of sample blocks.
pub(crate) struct SampleMerging;

impl Merging for SampleMerging {
    type Block = OpenSamples;
    type Touched = HiddenSamples;
    type Merger = Merger;

    async fn open(reader: &BlockReader, meta: &Arc<BlockMeta>) -> Result<Arc<OpenSamples>, ReadError> {
        reader.open(meta, &QueryStats::default()).await
    }

    async fn touch(
        reader: &BlockReader,
        block: &OpenSamples,
        due: &DueRules,
        budget: &MemoryBudget,
    ) -> Result<HiddenSamples, Error> {
        let mut hidden = HiddenSamples::of_block(block, due.rules.iter())?;
        // A block that is written again because of samples loses hidden exemplars as well.
        if hidden.is_nothing() {
            hidden.has_hidden_exemplars = are_some_hidden(reader, block, &hidden.rules, budget).await?;
        }
        Ok(hidden)
    }

    fn is_untouched(touched: &HiddenSamples) -> bool {
        touched.is_nothing()
    }

    fn merger(
        inputs: &[Arc<OpenSamples>],
        touched: Vec<HiddenSamples>,
        target: Target,
        budget: MemoryBudget,
    ) -> Result<Merger, FormatError> {
        let mut options = BlockOptions::new(target.tenant, target.window, target.level);
        options.origin = target.origin;
        Merger::new(inputs, touched, options, budget)
    }

    async fn fetch(
        reader: &BlockReader,
        inputs: &[Arc<OpenSamples>],
        page: PageRef,
    ) -> Result<PageBytes, Error> {
        let GroupRef { input, group: number } = match page {
            PageRef::Group(group) => group,
            PageRef::Beside(page) => return Ok(PageBytes::Beside(fetch(reader, inputs, page).await?)),
        };
        let block = &inputs[input];
        let piece = block.footer.groups()[number].piece;
        let times: Vec<_> = block.footer.time_pages_of(&[number as u32]);
        let times: Vec<_> = times.into_iter().map(|page| block.footer.time_pages()[page as usize]).collect();
        // A merge reads its inputs once, and they go away afterwards.
        let (hint, stats) = (Hint::Scan { bytes: u64::MAX }, QueryStats::default());
        let (pieces, stats_ref) = ([piece], &stats);
        let read = reader.pieces(&block.meta, &pieces, hint, stats_ref);
        let (stored, times) = try_join(read, read_times(reader, block, &times, stats_ref)).await?;
        let (times, damaged) = times;
        if let Some(damage) = damaged.into_iter().next() {
            return Err(damage.into());
        }
        let group =
            stored.into_iter().next().ok_or_else(|| Error::Internal("a piece has no answer".to_owned()))?;
        Ok(PageBytes::Group(GroupBytes { group: group.bytes, times }))
    }
}

//! Merging sample blocks: all of them are read side by side in the order of series.
//!
//! The next series is the first of those that the inputs are at, by its labels, which are read a page of
//! series at a time. Of samples of one series and instant the first input's stays, which is that of the rows
//! that came first; of series of Graphite's the last input's. Samples that deletes hide are left out; a group
//! of hidden series alone is not even read, and a series of which nothing is left is not part of the result.
//! One group of each input is in memory, and one series; of the result the distinct values of its labels.
//! Points of paths may become rollups on the way ([`rolling`](super::rolling)). Exemplars and metadata come
//! last ([`merge_beside`](super::merge_beside)).

use std::cmp::Ordering;
use std::sync::Arc;

use bytes::Bytes;
use futures_util::future::try_join;
use sandur_base::{MemoryBudget, Reservation};
use sandur_cache::Hint;
use sandur_format::Error as FormatError;
use sandur_format::block::compare_series;
use sandur_format::catalog_entry::BlockMeta;
use sandur_format::sample_block::index::PAGE_SERIES;
use sandur_format::sample_block::{
    BlockOptions, BlockWriter, Floats, Histograms, OpenGroup, SamplePage, TimeTable,
};
use sandur_model::Labels;
use sandur_query::QueryStats;

use super::OpenSamples;
use super::exemplars::are_some_hidden;
use super::expired::expired;
use super::hidden::HiddenSamples;
use super::index::{HeldPage, IndexReader, WantedLabels};
use super::join::{
    FloatPart, HistogramPart, JoinedHistograms, Lists, Stays, join_floats, join_histograms,
    keep_one_of_each_instant, visible,
};
use super::merge_beside::{BesideMerger, BesideRef, BesideStep, fetch};
use super::rolling::{RULE_ROWS, Rolling};
use super::times::read_times;
use crate::block_reader::{BlockReader, ReadError};
use crate::error::Error;
use crate::merging::{Merge, MergeCounts, Merging, OUTPUT_BYTES, Step, Target};
use crate::retention::{ExpiredSeries, Expiry};
use crate::rules::DueRules;

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
    /// Labels: the page of this input with this number.
    Series(usize, u32),
    /// Exemplars or metadata.
    Beside(BesideRef),
}

/// What it is given.
pub(crate) enum PageBytes {
    /// Samples.
    Group(GroupBytes),
    /// Labels.
    Series(HeldPage),
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
    /// Labels of the current series and of others near it.
    labels: Option<HeldPage>,
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

    fn add<'a>(&'a self, holder: usize, hidden: &HiddenSamples, parts: &mut Parts<'a>) {
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
                        holder,
                        times: &run.times,
                        values: &page.values[stored],
                        starts,
                        rows,
                    });
                } else {
                    let integers = page.integers.get(stored.clone()).unwrap_or_default();
                    let (times, histograms) = (&run.times[rows], &page.histograms[stored]);
                    parts.histograms.push(HistogramPart { holder, times, histograms, integers, starts });
                }
            }
            parts.hidden += (run.times.len() - seen) as u64;
        }
    }
}

impl Carried {
    fn add<'a>(&'a self, holder: usize, parts: &mut Parts<'a>) {
        if !self.times.is_empty() {
            let (times, values, starts) = (&self.times, &self.values, &self.starts);
            parts.floats.push(FloatPart { holder, times, rows: 0..times.len(), values, starts });
        }
        let JoinedHistograms { times, histograms, integers, starts } = &self.histograms;
        if !times.is_empty() {
            parts.histograms.push(HistogramPart { holder, times, histograms, integers, starts });
        }
    }
}

impl Input {
    /// The series that is next, which has all its samples here once no group is due.
    fn series(&self) -> Option<u32> {
        let carried = self.carried.as_ref().map(|carried| carried.series);
        carried.or_else(|| self.open.as_ref().and_then(Open::series))
    }

    /// The page of labels that must be read before the current series is known.
    fn page_due(&self) -> Option<u32> {
        let series = self.series()?;
        let holds = self.labels.as_ref().is_some_and(|held| held.page.holds(series));
        (!holds).then_some(series / PAGE_SERIES)
    }

    /// The labels of the current series, once they were read.
    fn pairs(&self) -> Option<impl Iterator<Item = (&str, &str)> + Clone> {
        let series = self.series()?;
        self.labels.as_ref().filter(|held| held.page.holds(series)).map(|held| held.page.pairs(series))
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
        before.iter().for_each(|carried| carried.add(0, &mut parts));
        open.add(0, &self.hidden, &mut parts);
        let hidden = parts.hidden;
        // Within one block no instant is there twice.
        let (times, values, starts) = join_floats(parts.floats, &mut Lists::default(), true, || Stays::First);
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
    rolling: Option<Rolling>,
    /// For the index of the result.
    index: Reservation,
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
        (rolling, budget): (Option<Rolling>, MemoryBudget),
    ) -> Result<Self, Error> {
        let input = |(block, hidden): (&Arc<OpenSamples>, HiddenSamples)| Input {
            block: Arc::clone(block),
            hidden,
            labels: None,
            next_group: 0,
            open: None,
            carried: None,
        };
        Ok(Self {
            inputs: blocks.iter().zip(hidden).map(input).collect(),
            writer: Some(BlockWriter::new(options)),
            rolling,
            index: budget.reserve(0)?,
            supplied: None,
            beside: BesideMerger::new(blocks),
            asked: None,
            handed_bytes: 0,
            rows: 0,
            budget,
            counts: MergeCounts::default(),
        })
    }

    fn output(&mut self) -> Result<Option<Vec<Bytes>>, Error> {
        let Some(writer) = self.writer.as_mut() else { return Ok(None) };
        if writer.written_bytes() - self.handed_bytes < OUTPUT_BYTES && self.rows < STEP_ROWS {
            return Ok(None);
        }
        (self.handed_bytes, self.rows) = (writer.written_bytes(), 0);
        self.index.resize(writer.index_memory_bytes())?;
        let mut output = Vec::new();
        writer.take_output(&mut output);
        Ok(Some(output))
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
                let gone = input.hidden.gone.range_cardinality(entry.first_series..=entry.last_series);
                if gone <= u64::from(entry.last_series - entry.first_series) {
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
        let damage = |reason| Error::from(ReadError::damaged(&input.block.meta, reason));
        let mut memory = self.budget.reserve(u64::from(entry.piece.len) + entry.head_memory_bytes())?;
        let stored = OpenGroup::open(entry, bytes.group).map_err(damage)?;
        let head = stored.head();
        memory.grow(head.pages().iter().map(|page| page.memory_bytes()).sum())?;
        let (mut decoder, mut open) =
            (head.decoder(), Open { pages: Vec::new(), runs: Vec::new(), at: 0, _memory: memory });
        for page in head.pages() {
            let decoded = decoder.decode(page, &stored.page_bytes(page), &bytes.times).map_err(damage)?;
            for (at, run) in decoded.runs.iter().enumerate() {
                match input.hidden.gone.contains(run.series) {
                    true => self.counts.deleted += run.times.len() as u64,
                    false => open.runs.push((run.series, open.pages.len(), at)),
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

    /// The page of labels that must be read before the next series is known.
    fn page_due(&self) -> Option<PageRef> {
        let due = |(number, input): (usize, &Input)| Some(PageRef::Series(number, input.page_due()?));
        self.inputs.iter().enumerate().find_map(due)
    }

    /// The inputs that are at the next series.
    fn at_next_series(&self) -> Vec<usize> {
        let mut members: Vec<usize> = Vec::new();
        for (number, input) in self.inputs.iter().enumerate() {
            let Some(pairs) = input.pairs() else { continue };
            let first = members.first().and_then(|first| self.inputs[*first].pairs());
            match first.map_or(Ordering::Less, |first| compare_series(pairs, first)) {
                Ordering::Less => members = vec![number],
                Ordering::Equal => members.push(number),
                Ordering::Greater => {}
            }
        }
        members
    }

    /// Writes the next series; `false` when there is none.
    fn write_series(&mut self) -> Result<bool, Error> {
        let members = self.at_next_series();
        let Some(first) = members.first() else {
            self.end_path()?;
            return Ok(false);
        };
        let mut parts = Parts::default();
        for number in &members {
            let input = &self.inputs[*number];
            input.carried.iter().for_each(|carried| carried.add(*number, &mut parts));
            if let Some(open) = input.open.as_ref().filter(|open| open.series() == input.series()) {
                open.add(*number, &input.hidden, &mut parts);
            }
        }
        self.counts.deleted += parts.hidden;
        let before = parts.floats.iter().map(|part| part.rows.len()).sum::<usize>()
            + parts.histograms.iter().map(|part| part.times.len()).sum::<usize>();
        let writer = self.writer.as_mut().expect("the writer is there until the merge is finished");
        let internal = |error: FormatError| Error::Internal(error.to_string());
        if let Some(pairs) = self.inputs[*first].pairs().filter(|_| before > 0) {
            let has_histograms = !parts.histograms.is_empty();
            let held = self.rolling.as_mut().map_or(Ok(None), |rolling| {
                rolling.take(writer, pairs.clone(), &mut parts.floats, has_histograms)
            })?;
            let written = match held {
                Some(held) => held,
                None => {
                    let ordinal = writer.push_series(pairs.clone()).map_err(internal)?;
                    let stays = || Stays::of(&Labels::from_pairs(pairs));
                    write(writer, ordinal, parts, stays).map_err(internal)?
                }
            };
            self.counts.duplicates += (before - written) as u64;
        }
        // A series without samples is work as well.
        self.rows += before as u64 + self.rolling.as_ref().map_or(1, |_| RULE_ROWS);
        for number in members {
            let input = &mut self.inputs[number];
            if let Some(series) = input.series() {
                input.pass(series);
            }
        }
        Ok(true)
    }

    /// Writes the last path that was held back.
    fn end_path(&mut self) -> Result<(), Error> {
        if let (Some(rolling), Some(writer)) = (&mut self.rolling, &mut self.writer) {
            rolling.end(writer)?;
            (self.counts.rolled, self.counts.rollups) = rolling.rows();
        }
        Ok(())
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
            if let Some(output) = self.output()? {
                return Ok(Step::Output(output));
            }
            if let Some(group) = self.group_due()? {
                let Some(PageBytes::Group(bytes)) = self.supplied.take() else {
                    return Ok(Step::Need(PageRef::Group(group)));
                };
                self.open(group, bytes)?;
            } else if let Some(page) = self.page_due() {
                let Some(PageBytes::Series(held)) = self.supplied.take() else {
                    return Ok(Step::Need(page));
                };
                if let PageRef::Series(input, _) = page {
                    self.inputs[input].labels = Some(held);
                }
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

/// Writes the samples of a series, of one instant one; gives how many there were.
fn write(
    writer: &mut BlockWriter,
    series: u32,
    mut parts: Parts<'_>,
    stays: impl FnOnce() -> Stays,
) -> Result<usize, FormatError> {
    keep_one_of_each_instant(&mut parts.floats, &mut parts.histograms);
    let mut rows = 0;
    let follows = |pair: &[FloatPart<'_>]| pair[0].last() < pair[1].first();
    if parts.floats.windows(2).all(follows) {
        for FloatPart { times, rows: of, values, starts, .. } in parts.floats {
            rows += of.len();
            writer.push_floats(series, Floats { times: &times[of], values, starts })?;
        }
    } else {
        let (times, values, starts) = join_floats(parts.floats, &mut Lists::default(), true, stays);
        rows += times.len();
        writer.push_floats(series, Floats { times: &times, values: &values, starts: &starts })?;
    }
    let JoinedHistograms { times, histograms, integers, starts } = join_histograms(&parts.histograms, true);
    rows += times.len();
    let all = Histograms { times: &times, histograms: &histograms, integers: &integers, starts: &starts };
    writer.push_histograms(series, all)?;
    Ok(rows)
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
        block: &Arc<OpenSamples>,
        due: &DueRules,
        budget: &MemoryBudget,
    ) -> Result<HiddenSamples, Error> {
        let index = IndexReader::for_upkeep(reader, budget, block);
        let mut hidden = HiddenSamples::of_block(block, &index, due.rules.iter()).await?;
        // A block that is written again because of samples loses hidden exemplars as well.
        if hidden.is_nothing() {
            hidden.has_hidden_exemplars = are_some_hidden(reader, block, &hidden.rules, budget).await?;
        }
        Ok(hidden)
    }

    async fn expired(
        reader: &BlockReader,
        block: &Arc<OpenSamples>,
        expiry: &Arc<Expiry>,
        budget: &MemoryBudget,
    ) -> Result<ExpiredSeries, Error> {
        Ok(expired(reader, block, expiry, budget).await?)
    }

    fn take_out(hidden: &mut HiddenSamples, expired: &ExpiredSeries, of: (&Arc<BlockMeta>, &Arc<Expiry>)) {
        hidden.take_out(expired, of);
    }

    fn is_untouched(touched: &HiddenSamples) -> bool {
        touched.is_nothing()
    }

    fn merger(
        inputs: &[Arc<OpenSamples>],
        touched: Vec<HiddenSamples>,
        target: Target,
        budget: MemoryBudget,
    ) -> Result<Merger, Error> {
        let mut options = BlockOptions::new(target.tenant, target.window, target.level);
        options.origin = target.origin;
        let rolling = target.rollup.map(|rollup| Rolling::new(rollup, budget.clone()));
        Merger::new(inputs, touched, options, (rolling, budget))
    }

    async fn fetch(
        reader: &BlockReader,
        inputs: &[Arc<OpenSamples>],
        page: PageRef,
        budget: &MemoryBudget,
    ) -> Result<PageBytes, Error> {
        let GroupRef { input, group: number } = match page {
            PageRef::Group(group) => group,
            PageRef::Series(input, page) => {
                let index = IndexReader::for_upkeep(reader, budget, &inputs[input]);
                return Ok(PageBytes::Series(index.page(page, &WantedLabels::All, false).await?));
            }
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

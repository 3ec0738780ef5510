//! Merges sample blocks: reads all of them in parallel in the order of series.
//!
//! The next series is the first of the inputs' current series, by its labels, which are read a page of
//! series at a time. Of samples of one series and instant the first input's stays, which arrived first;
//! in series with a path the last input's stays. Samples that deletes hide are left out. A group of
//! hidden series alone is not even read, and a series without remaining samples is not part of the result.
//!
//! In memory are one group of each input, of which some pages are decoded
//! ([`merge_input`](super::merge_input)), one series, and the distinct values of the result's labels
//! other than the metric's name. Points of paths may become rollups during the merge
//! ([`rolling`](super::rolling)). Exemplars and metadata are merged last
//! ([`merge_annotations`](super::merge_annotations)).

use std::cmp::Ordering;
use std::sync::Arc;

use bytes::Bytes;
use futures_util::future::try_join;
use sandur_cache::Hint;
use sandur_format::Error as FormatError;
use sandur_format::block::compare_series;
use sandur_format::catalog_entry::BlockMeta;
use sandur_format::sample_block::{BlockOptions, BlockWriter, Floats, Histograms};
use sandur_format::stamp::StampSpan;
use sandur_memory::{MemoryBudget, Reservation};
use sandur_model::{Labels, TimeRange};
use sandur_query::QueryStats;

use super::expired::expired;
use super::hidden::{HiddenSamples, HidingExemplars};
use super::hidden_exemplars::are_some_hidden;
use super::index::{HeldPage, IndexReader, WantedLabels};
use super::join::{
    Columns, FloatPart, JoinedFloats, JoinedHistograms, Lists, Stays, join_floats, join_histograms,
    keep_one_of_each_instant,
};
use super::merge_annotations::{AnnotationMerger, AnnotationRef, AnnotationStep, fetch};
use super::merge_input::{GroupBytes, Input, Parts, Passed};
use super::rolling::{RULE_ROWS, Rolling};
use super::times::read_times;
use super::{OpenSamples, may_be_stamped};
use crate::blocks::merging::{Merge, MergeCounts, Merging, OUTPUT_BYTES, Step, Target};
use crate::blocks::reader::BlockReader;
use crate::error::{Error, ReadError};
use crate::policy::expired::ExpiredSeries;
use crate::policy::retention::Expiry;
use crate::rules::DueRules;

/// The most samples of a step, which takes some tens of milliseconds.
const STEP_ROWS: u64 = 1 << 18;

/// Identifies a group of an input.
#[derive(Clone, Copy, Debug)]
pub(crate) struct GroupRef {
    input: usize,
    group: usize,
}

/// What a merge needs to read.
#[derive(Clone, Copy, Debug)]
pub(crate) enum PageRef {
    /// A group of samples.
    Group(GroupRef),
    /// Labels: the page of this input with this number.
    Series(usize, u32),
    /// A page of exemplars or metadata.
    Annotation(AnnotationRef),
}

/// The bytes that were read.
pub(crate) enum PageBytes {
    /// A group of samples.
    Group(GroupBytes),
    /// A page of labels.
    Series(HeldPage),
    /// A page of exemplars or metadata.
    Annotation(Bytes),
}

/// Merges blocks into one.
pub(crate) struct Merger {
    inputs: Vec<Input>,
    writer: Option<BlockWriter>,
    rolling: Option<Rolling>,
    /// Whether samples keep their stamps.
    stamped: bool,
    /// The reservation for the index of the result.
    index: Reservation,
    supplied: Option<PageBytes>,
    annotations: AnnotationMerger,
    /// The page that `annotations` needs.
    asked: Option<AnnotationRef>,
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
        let stamped = options.stamped;
        Ok(Self {
            stamped,
            inputs: blocks.iter().zip(hidden).map(|(block, hidden)| Input::new(block, hidden)).collect(),
            writer: Some(BlockWriter::new(options)),
            rolling,
            index: budget.reserve(0)?,
            supplied: None,
            annotations: AnnotationMerger::new(blocks),
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

    /// Returns the group that must be read before the next series is complete.
    fn group_due(&mut self) -> Result<Option<GroupRef>, Error> {
        let mut passed = Passed::default();
        for (number, input) in self.inputs.iter_mut().enumerate() {
            if let Some(group) = input.group_due(&self.budget, &mut passed)? {
                self.note(passed);
                return Ok(Some(GroupRef { input: number, group }));
            }
        }
        self.note(passed);
        Ok(None)
    }

    fn note(&mut self, passed: Passed) {
        self.counts.deleted += passed.hidden;
        self.counts.merged_pages += passed.pages;
    }

    /// Returns the page of labels that must be read before the next series is known.
    fn page_due(&self) -> Option<PageRef> {
        let due = |(number, input): (usize, &Input)| Some(PageRef::Series(number, input.page_due()?));
        self.inputs.iter().enumerate().find_map(due)
    }

    /// The inputs whose current series is the next one.
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

    /// Writes the next series. Returns `false` when there is none.
    fn write_series(&mut self) -> Result<bool, Error> {
        let members = self.at_next_series();
        let Some(first) = members.first() else {
            self.end_path()?;
            return Ok(false);
        };
        let mut parts = Parts::default();
        for number in &members {
            self.inputs[*number].add(*number, &mut parts);
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
                    write(writer, ordinal, parts, (self.stamped, stays)).map_err(internal)?
                }
            };
            self.counts.duplicates += (before - written) as u64;
        }
        // A series without samples takes time as well.
        self.rows += before as u64 + self.rolling.as_ref().map_or(1, |_| RULE_ROWS);
        for number in members {
            self.inputs[number].pass();
        }
        Ok(true)
    }

    /// Writes the last path that was held back for rolling.
    fn end_path(&mut self) -> Result<(), Error> {
        if let (Some(rolling), Some(writer)) = (&mut self.rolling, &mut self.writer) {
            rolling.end(writer)?;
            (self.counts.rolled, self.counts.rollups) = rolling.rows();
        }
        Ok(())
    }

    /// Merges some exemplars and metadata.
    fn step_annotations(&mut self) -> Result<AnnotationStep, Error> {
        if let (Some(asked), Some(PageBytes::Annotation(bytes))) = (self.asked.take(), self.supplied.take()) {
            self.annotations.supply(asked, &bytes, &self.budget)?;
        }
        let writer = self.writer.as_mut().expect("the writer is there until the merge is finished");
        let inputs = &self.inputs;
        self.annotations.step(writer, |input| &inputs[input].hidden)
    }

    fn finish(&mut self) -> Result<Step<PageRef>, Error> {
        let internal = |error: FormatError| Error::Internal(error.to_string());
        let writer = self.writer.take();
        let writer = writer.ok_or_else(|| Error::Internal("a merge was finished twice".to_owned()))?;
        (self.counts.annotations, self.counts.exemplars) = (writer.annotations(), writer.exemplars());
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
                self.inputs[group.input].open(bytes)?;
            } else if let Some(page) = self.page_due() {
                let Some(PageBytes::Series(held)) = self.supplied.take() else {
                    return Ok(Step::Need(page));
                };
                if let PageRef::Series(input, _) = page {
                    self.inputs[input].labels = Some(held);
                }
            } else if !self.write_series()? {
                match self.step_annotations()? {
                    AnnotationStep::Wrote => self.rows += 1,
                    AnnotationStep::Done => return self.finish(),
                    AnnotationStep::Need(page) => {
                        self.asked = Some(page);
                        return Ok(Step::Need(PageRef::Annotation(page)));
                    }
                }
            }
        }
    }

    fn supply(&mut self, bytes: PageBytes) {
        self.supplied = Some(bytes);
    }
}

/// Writes the samples of a series, one of each instant. Returns their number.
fn write(
    writer: &mut BlockWriter,
    series: u32,
    mut parts: Parts<'_>,
    (stamped, stays): (bool, impl FnOnce() -> Stays),
) -> Result<usize, FormatError> {
    let columns = Columns { starts: true, stamps: stamped };
    keep_one_of_each_instant(&mut parts.floats, &mut parts.histograms);
    let mut rows = 0;
    let follows = |pair: &[FloatPart<'_>]| pair[0].last() < pair[1].first();
    if parts.floats.windows(2).all(follows) {
        let mut stamps = Vec::new();
        for FloatPart { times, rows: of, values, starts, stamps: of_part, .. } in parts.floats {
            rows += of.len();
            stamps.clear();
            if stamped {
                of_part.extend(of.len(), &mut stamps);
            }
            writer.push_floats(series, Floats { times: &times[of], values, starts, stamps: &stamps })?;
        }
    } else {
        let JoinedFloats { times, values, starts, stamps } =
            join_floats(parts.floats, &mut Lists::default(), columns, stays);
        rows += times.len();
        let (values, starts, stamps) = (&values, &starts, &stamps);
        writer.push_floats(series, Floats { times: &times, values, starts, stamps })?;
    }
    let joined = join_histograms(&parts.histograms, columns);
    let JoinedHistograms { times, histograms, integers, starts, stamps } = &joined;
    rows += times.len();
    writer.push_histograms(series, Histograms { times, histograms, integers, starts, stamps })?;
    Ok(rows)
}

/// Compaction of sample blocks.
pub(crate) struct SampleMerging;

impl Merging for SampleMerging {
    type Block = OpenSamples;
    type Touched = HiddenSamples;
    type Merger = Merger;

    async fn open(reader: &BlockReader, meta: &Arc<BlockMeta>) -> Result<Arc<OpenSamples>, ReadError> {
        reader.open(meta, &QueryStats::default()).await
    }

    fn stamps(block: &OpenSamples) -> Option<StampSpan> {
        block.footer.stamps()
    }

    async fn touch(
        reader: &BlockReader,
        block: &Arc<OpenSamples>,
        due: &DueRules,
        budget: &MemoryBudget,
    ) -> Result<HiddenSamples, Error> {
        let index = IndexReader::for_upkeep(reader, budget, block);
        let mut hidden = HiddenSamples::of_block(block, &index, due.rules.iter()).await?;
        // A block that is rewritten because of samples loses hidden exemplars as well.
        hidden.exemplars = Arc::new(HidingExemplars::of_block(block, &due.rules).await?);
        if hidden.is_nothing() {
            hidden.has_hidden_exemplars = are_some_hidden(reader, block, &hidden.exemplars, budget).await?;
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

    fn keep_only(touched: &mut HiddenSamples, window: TimeRange) {
        touched.keep_only(window);
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
        options.stamped = target.stamped && may_be_stamped(target.forms);
        let stamped = options.stamped;
        let rolling = target.rollup.map(|rollup| Rolling::new(rollup, stamped, budget.clone()));
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
            PageRef::Annotation(page) => {
                return Ok(PageBytes::Annotation(fetch(reader, inputs, page).await?));
            }
        };
        let block = &inputs[input];
        let piece = block.footer.groups()[number].piece;
        let times: Vec<_> = block.footer.time_pages_of(&[number as u32]);
        let times: Vec<_> = times.into_iter().map(|page| block.footer.time_pages()[page as usize]).collect();
        let lists: u64 = times.iter().map(|page| page.lists_bytes()).sum();
        let memory = budget.reserve(u64::from(piece.len) + lists)?;
        // A merge reads its inputs once, and they are removed afterwards.
        let (hint, stats) = (Hint::Scan { bytes: u64::MAX }, QueryStats::default());
        let (pieces, stats_ref) = ([piece], &stats);
        let read = reader.pieces(&block.meta, &pieces, hint, stats_ref);
        let (stored, times) = try_join(read, read_times(reader, block, &times, stats_ref)).await?;
        let (times, damaged) = times;
        if let Some(damage) = damaged.into_iter().next() {
            return Err(damage.into());
        }
        let group =
            stored.into_iter().next().ok_or_else(|| Error::Internal("a piece has no result".to_owned()))?;
        Ok(PageBytes::Group(GroupBytes { group: group.bytes, times, memory }))
    }
}

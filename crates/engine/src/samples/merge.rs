//! Merging sample blocks: all of them are read side by side in the order of series and times.
//!
//! Of samples of one series and instant the first input's stays, which is that of the rows that came first.
//! Samples that deletes hide are left out; a page of hidden series alone is not even read, and a series of
//! which nothing is left is not part of the result. One page of each input is in memory.

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;
use std::sync::Arc;

use bytes::Bytes;
use sandur_base::{MemoryBudget, Reservation};
use sandur_cache::Hint;
use sandur_format::Error as FormatError;
use sandur_format::block::{BlockIndex, SeriesList, SeriesTable};
use sandur_format::catalog_entry::BlockMeta;
use sandur_format::sample_block::{BlockOptions, BlockWriter, SamplePage};
use sandur_query::QueryStats;

use super::OpenSamples;
use super::hidden::HiddenSamples;
use crate::block_reader::{BlockReader, ReadError};
use crate::error::Error;
use crate::merging::{Merge, MergeCounts, Merging, OUTPUT_BYTES, Step, Target};
use crate::rules::DueRules;

/// The ordinal of a series that the result does not have.
const NO_SERIES: u32 = u32::MAX;
/// Samples of a step at most: some tens of milliseconds.
const STEP_ROWS: u64 = 1 << 18;

/// A page of an input.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PageRef {
    input: usize,
    page: usize,
}

/// One of the blocks that are merged.
struct Input {
    block: Arc<OpenSamples>,
    hidden: HiddenSamples,
    /// For each series its ordinal in the result, or [`NO_SERIES`].
    ordinals: Vec<u32>,
    /// The next page to be read.
    next_page: usize,
    cursor: Option<Cursor>,
}

/// Where reading an input is.
struct Cursor {
    page: SamplePage,
    run: usize,
    row: usize,
    _memory: Reservation,
}

/// Merges blocks into one.
pub(crate) struct Merger {
    inputs: Vec<Input>,
    writer: Option<BlockWriter>,
    /// Series and time of the next sample of each input, and the input.
    heap: BinaryHeap<Reverse<(u32, i64, usize)>>,
    last: Option<(u32, i64)>,
    supplied: Option<Bytes>,
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
            next_page: 0,
            cursor: None,
        };
        Ok(Self {
            inputs: blocks.iter().zip(hidden).zip(ordinals).map(input).collect(),
            writer: Some(BlockWriter::new(options, series)),
            heap: BinaryHeap::new(),
            last: None,
            supplied: None,
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

    /// The page that must be read before the next sample is known. Pages without a series that stays are
    /// counted and passed over.
    fn page_due(&mut self) -> Option<PageRef> {
        for (number, input) in self.inputs.iter_mut().enumerate() {
            while input.cursor.is_none() {
                let Some(entry) = input.block.footer.pages().get(input.next_page) else { break };
                let series = entry.first_series as usize..=entry.last_series as usize;
                if input.ordinals[series].iter().any(|ordinal| *ordinal != NO_SERIES) {
                    return Some(PageRef { input: number, page: input.next_page });
                }
                self.counts.deleted += u64::from(entry.rows);
                input.next_page += 1;
            }
        }
        None
    }

    fn open(&mut self, PageRef { input: number, page }: PageRef, bytes: &Bytes) -> Result<(), Error> {
        let input = &mut self.inputs[number];
        let entry = &input.block.footer.pages()[page];
        let memory = self.budget.reserve(entry.memory_bytes())?;
        let decoded = entry.decode(bytes).map_err(|reason| damaged(&input.block.meta, reason))?;
        input.next_page += 1;
        self.counts.merged_pages += 1;
        input.cursor = Some(Cursor { page: decoded, run: 0, row: 0, _memory: memory });
        self.advance(number);
        Ok(())
    }

    /// Finds the next sample of an input that is not hidden; ends its cursor when the page has none.
    fn advance(&mut self, number: usize) {
        let input = &mut self.inputs[number];
        let Some(cursor) = &mut input.cursor else { return };
        while let Some(run) = cursor.page.runs.get(cursor.run) {
            if cursor.row >= run.end as usize {
                cursor.run += 1;
                continue;
            }
            let (ordinal, time) = (input.ordinals[run.series as usize], cursor.page.timestamps[cursor.row]);
            if ordinal != NO_SERIES && !input.hidden.hides(run.series, time) {
                self.heap.push(Reverse((ordinal, time, number)));
                return;
            }
            self.counts.deleted += 1;
            cursor.row += 1;
        }
        input.cursor = None;
    }

    fn write_row(&mut self) -> Result<(), Error> {
        let Some(Reverse((series, time, number))) = self.heap.pop() else { return Ok(()) };
        let input = &mut self.inputs[number];
        let cursor =
            input.cursor.as_mut().ok_or_else(|| Error::Internal("a merge lost a page".to_owned()))?;
        let value = cursor.page.values[cursor.row];
        cursor.row += 1;
        self.rows += 1;
        if self.last == Some((series, time)) {
            self.counts.duplicates += 1;
        } else {
            self.last = Some((series, time));
            let writer = self.writer.as_mut().expect("the writer is there until the merge is finished");
            writer.push(series, time, value).map_err(|reason| damaged(&input.block.meta, reason))?;
        }
        self.advance(number);
        Ok(())
    }

    fn finish(&mut self) -> Result<Step<PageRef>, Error> {
        let internal = |error: FormatError| Error::Internal(error.to_string());
        let writer = self.writer.take();
        let writer = writer.ok_or_else(|| Error::Internal("a merge was finished twice".to_owned()))?;
        let mut output = Vec::new();
        let summary = writer.finish(&mut output).map_err(internal)?;
        let before = self.inputs.iter().map(|input| input.block.meta.rows).sum();
        self.counts.check(before, summary.rows)?;
        Ok(Step::Finished(output, summary, self.counts))
    }
}

impl Merge for Merger {
    type Page = PageRef;
    type Bytes = Bytes;

    fn step(&mut self) -> Result<Step<PageRef>, Error> {
        loop {
            if let Some(output) = self.output() {
                return Ok(Step::Output(output));
            }
            if let Some(page) = self.page_due() {
                let Some(bytes) = self.supplied.take() else { return Ok(Step::Need(page)) };
                self.open(page, &bytes)?;
            } else if !self.heap.is_empty() {
                self.write_row()?;
            } else {
                return self.finish();
            }
        }
    }

    fn supply(&mut self, bytes: Bytes) {
        self.supplied = Some(bytes);
    }
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
    a.pairs(n).cmp(b.pairs(m))
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

    async fn touch(_: &BlockReader, block: &OpenSamples, due: &DueRules) -> Result<HiddenSamples, ReadError> {
        HiddenSamples::of_block(block, due.rules.iter())
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
        PageRef { input, page }: PageRef,
    ) -> Result<Bytes, Error> {
        let block = &inputs[input];
        let piece = block.footer.pages()[page].piece;
        // A merge reads its inputs once, and they go away afterwards.
        let hint = Hint::Scan { bytes: u64::MAX };
        let mut read = reader.pieces(&block.meta, &[piece], hint, &QueryStats::default()).await?;
        let stored = read.pop().ok_or_else(|| Error::Internal("a piece has no answer".to_owned()))?;
        Ok(stored.bytes)
    }
}

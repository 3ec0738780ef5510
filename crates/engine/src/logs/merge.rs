//! Merges log blocks: full pages are copied, thin or suspect ones are merged row by row.
//!
//! A page is copied if it is at least half full and none of its streams may have rows stored twice. Its
//! lines are not compressed again and its filter is copied, so a row is compressed about once in its
//! lifetime. All other pages are merged: sorted by stream and time, without exact duplicates.
//!
//! Rows that deletes hide are left out. A page that may have some is merged, a page of hidden streams
//! alone is not even read, and a stream without remaining rows is not part of the result.
//!
//! [`crate::blocks::merging`] describes how the state machine is driven.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashSet, VecDeque};
use std::sync::Arc;

use bytes::Bytes;
use sandur_format::Error as FormatError;
use sandur_format::log_block::{
    BlockOptions, BlockWriter, NarrowPage, PageCopy, PageEntry, Row, Run, Wanted, sort_streams,
};
use sandur_memory::{MemoryBudget, Reservation};
use sandur_model::{Labels, LineColumn, LogPage, StreamRun, TimeRange};

use super::block::OpenLogs;
use super::mask::visible_parts;
use super::merge_filters::{FilterRequest, MergeFilters, PageRef, ReadFilters};
use super::suspects::{StreamSpan, find_suspects};
use super::touched::Touched;
use crate::blocks::merging::{Merge, MergeCounts, OUTPUT_BYTES, Step};
use crate::error::Error;

/// The ordinal of a stream that the result does not have.
const NO_STREAM: u32 = u32::MAX;

/// The stored bytes of a page.
pub struct PageBytes {
    /// The narrow columns.
    pub narrow: Bytes,
    /// The line column.
    pub lines: Bytes,
}

/// What a merge needs to continue.
pub enum Needed {
    /// The bytes of a page.
    Page(PageRef),
    /// Filters of pages that are copied.
    Filters(FilterRequest),
}

/// What a merge needed.
pub enum Supplied {
    /// The bytes of a page.
    Page(PageBytes),
    /// Filters of pages that are copied.
    Filters(ReadFilters),
}

/// A page to be merged, with the position of its first row in the order of the result.
struct Pending {
    stream: u32,
    first: i64,
    page: PageRef,
}

/// A page that is being merged.
struct Cursor {
    narrow: NarrowPage,
    lines: LineColumn,
    run: usize,
    row: usize,
    input: usize,
    _memory: Reservation,
}

/// Restricts the runs of a page to rows of these times.
fn cut_to(only: TimeRange, narrow: &mut NarrowPage) {
    for run in &mut narrow.runs {
        let times = &narrow.timestamps[run.start as usize..run.end as usize];
        let first = times.partition_point(|time| *time < only.start) as u32;
        let end = times.partition_point(|time| *time < only.end) as u32;
        (run.start, run.end) = (run.start + first, run.start + end.max(first));
    }
    narrow.runs.retain(|run| run.start < run.end);
}

/// Merges blocks into one.
pub struct Merger {
    inputs: Vec<Arc<OpenLogs>>,
    /// The rows that deletes remove from each input.
    deletes: Vec<Touched>,
    /// For each stream of each input its ordinal in the result, or [`NO_STREAM`].
    ordinals: Vec<Vec<u32>>,
    writer: Option<BlockWriter>,
    merged: VecDeque<Pending>,
    moved: VecDeque<PageRef>,
    cursors: Vec<Option<Cursor>>,
    heap: BinaryHeap<Reverse<(u32, i64, usize, usize)>>,
    seen: Seen,
    supplied: Option<PageBytes>,
    filters: MergeFilters,
    handed_bytes: u64,
    budget: MemoryBudget,
    counts: MergeCounts,
}

impl Merger {
    /// Begins a merge of opened blocks into one, without the rows that `deletes` names in each.
    pub fn new(
        inputs: Vec<Arc<OpenLogs>>,
        deletes: Vec<Touched>,
        options: BlockOptions,
        budget: MemoryBudget,
    ) -> Result<Self, FormatError> {
        let mut streams: Vec<Arc<Labels>> = Vec::new();
        for (block, deletes) in inputs.iter().zip(&deletes) {
            let table = block.footer.streams();
            let stays = |n: &u32| deletes.keeps(*n, table.stats(*n));
            streams.extend((0..table.len() as u32).filter(stays).map(|n| table.labels(n)));
        }
        sort_streams(&mut streams);
        let ordinals =
            inputs.iter().zip(&deletes).map(|(block, d)| ordinals_in(block, d, &streams)).collect();
        let mut merger = Self {
            deletes,
            ordinals,
            writer: None,
            merged: VecDeque::new(),
            moved: VecDeque::new(),
            cursors: Vec::new(),
            heap: BinaryHeap::new(),
            seen: Seen::default(),
            supplied: None,
            filters: MergeFilters::default(),
            handed_bytes: 0,
            budget,
            counts: MergeCounts::default(),
            inputs,
        };
        merger.sort_pages(u64::from(options.page_bytes) / 2);
        merger.writer = Some(BlockWriter::new(options, streams)?);
        Ok(merger)
    }

    /// Decides for every page whether it is copied or merged.
    fn sort_pages(&mut self, full_bytes: u64) {
        let suspects = self.suspect_ordinals();
        let (mut merged, mut moved) = (Vec::new(), Vec::new());
        for (input, block) in self.inputs.iter().enumerate() {
            for entry in block.footer.pages() {
                let mut streams = entry.first_stream..=entry.last_stream;
                let suspect = !suspects[input].is_empty() && streams.any(|n| suspects[input].contains(&n));
                let of_page = entry.first_stream as usize..=entry.last_stream as usize;
                let mut ordinals = self.ordinals[input][of_page].iter().copied();
                let stream = ordinals.find(|ordinal| *ordinal != NO_STREAM);
                let is_inside = self.deletes[input].may_keep(entry.min_ts, entry.max_ts);
                let Some(stream) = stream.filter(|_| is_inside) else {
                    self.counts.deleted += u64::from(entry.rows);
                    continue;
                };
                let moves = entry.raw_bytes >= full_bytes && !suspect && !self.deletes[input].may_hit(entry);
                let page = PageRef { input, page: entry.index };
                if moves {
                    moved.push((stream, entry.min_ts, page));
                } else {
                    merged.push(Pending { stream, first: entry.min_ts, page });
                }
            }
        }
        moved.sort_by_key(|(stream, first, page)| (*stream, *first, page.input, page.page));
        merged.sort_by_key(|p| (p.stream, p.first, p.page.input, p.page.page));
        self.moved = moved.into_iter().map(|(_, _, page)| page).collect();
        self.merged = merged.into();
    }

    /// The ordinals of streams that may have rows stored twice, per input.
    fn suspect_ordinals(&self) -> Vec<HashSet<u32>> {
        let spans = (0..).zip(&self.inputs).flat_map(|(source, block)| {
            (0..block.footer.streams().len() as u32).map(move |n| {
                let stats = block.footer.streams().stats(n);
                StreamSpan { source, stream: block.series_id(n), first: stats.min_ts, last: stats.max_ts }
            })
        });
        let mut spans: Vec<StreamSpan> = spans.filter(|span| span.first <= span.last).collect();
        let suspects = find_suspects(&mut spans);
        let of = |block: &Arc<OpenLogs>| {
            let ordinals = 0..block.footer.streams().len() as u32;
            ordinals.filter(|&n| suspects.contains_key(&block.series_id(n))).collect()
        };
        self.inputs.iter().map(of).collect()
    }

    fn writer(&mut self) -> &mut BlockWriter {
        self.writer.as_mut().expect("the writer is there until the merge is finished")
    }

    fn output(&mut self) -> Option<Vec<Bytes>> {
        let writer = self.writer.as_mut()?;
        if writer.written_bytes() - self.handed_bytes < OUTPUT_BYTES {
            return None;
        }
        self.handed_bytes = writer.written_bytes();
        let mut output = Vec::new();
        writer.take_output(&mut output);
        Some(output)
    }

    /// The next page to be merged, if its rows may precede those of the open pages.
    fn page_due(&self) -> Option<PageRef> {
        let next = self.merged.front()?;
        let due = self.heap.peek().is_none_or(|Reverse((s, t, ..))| (next.stream, next.first) <= (*s, *t));
        due.then_some(next.page)
    }

    fn entry(&self, page: PageRef) -> &PageEntry {
        &self.inputs[page.input].footer.pages()[page.page as usize]
    }

    fn damaged(&self, page: PageRef) -> impl Fn(FormatError) -> Error + use<> {
        let path = self.inputs[page.input].meta.path();
        move |reason| Error::Damaged { path: path.clone(), reason: reason.to_string() }
    }

    fn open(&mut self, page: PageRef, bytes: PageBytes) -> Result<(), Error> {
        let wanted = Wanted { metadata: true };
        let entry = self.entry(page);
        let memory = entry.line_memory_bytes() + entry.narrow_memory_bytes(wanted);
        let memory = self.budget.reserve(memory)?;
        let mut narrow = entry.decode_narrow(&bytes.narrow, wanted).map_err(self.damaged(page))?;
        let lines = entry.decode_lines(&bytes.lines, &narrow.timestamps).map_err(self.damaged(page))?;
        self.leave_out(page, &mut narrow, &lines)?;
        for run in &mut narrow.runs {
            run.stream = self.ordinals[page.input][run.stream as usize];
        }
        self.counts.merged_pages += 1;
        let row = narrow.runs.first().map_or(0, |run| run.start as usize);
        let cursor = Cursor { narrow, lines, run: 0, row, input: page.input, _memory: memory };
        let slot = self.cursors.iter().position(Option::is_none).unwrap_or_else(|| {
            self.cursors.push(None);
            self.cursors.len() - 1
        });
        if let Some((stream, timestamp)) = cursor.key() {
            self.heap.push(Reverse((stream, timestamp, cursor.input, slot)));
            self.cursors[slot] = Some(cursor);
        }
        Ok(())
    }

    /// Removes the rows that deletes hide from the runs of a page.
    fn leave_out(&mut self, page: PageRef, narrow: &mut NarrowPage, lines: &LineColumn) -> Result<(), Error> {
        let deletes = &self.deletes[page.input];
        let mask = deletes.mask.as_ref().filter(|_| deletes.pages.contains(page.page));
        if mask.is_none() && deletes.gone.is_empty() && deletes.only().is_none() {
            return Ok(());
        }
        let rows_before: u32 = narrow.runs.iter().map(|run| run.end - run.start).sum();
        let ordinals = &self.ordinals[page.input];
        narrow.runs.retain(|run| ordinals[run.stream as usize] != NO_STREAM);
        if let Some(only) = deletes.only() {
            cut_to(only, narrow);
        }
        if let Some(mask) = mask {
            let table = self.inputs[page.input].footer.streams();
            let labelled = |run: &Run| {
                let (labels, suspect) = (table.labels(run.stream), None);
                StreamRun { labels, start: run.start, end: run.end, suspect }
            };
            let view = LogPage {
                runs: narrow.runs.iter().map(labelled).collect(),
                timestamps: std::mem::take(&mut narrow.timestamps),
                levels: std::mem::take(&mut narrow.levels),
                metadata: std::mem::take(&mut narrow.metadata),
                lines: None,
            };
            let hidden = mask.hidden(&view, || Ok::<_, Error>(lines))?;
            (narrow.timestamps, narrow.levels, narrow.metadata) =
                (view.timestamps, view.levels, view.metadata);
            for Run { stream, start, end } in std::mem::take(&mut narrow.runs) {
                let runs = &mut narrow.runs;
                visible_parts(start..end, &hidden, |rows| {
                    runs.push(Run { stream, start: rows.start, end: rows.end });
                });
            }
        }
        let rows_after: u32 = narrow.runs.iter().map(|run| run.end - run.start).sum();
        self.counts.deleted += u64::from(rows_before - rows_after);
        Ok(())
    }

    /// Writes the first of all open rows, unless it is a duplicate.
    fn write_row(&mut self) -> Result<(), Error> {
        let Some(Reverse((stream, timestamp, input, slot))) = self.heap.pop() else { return Ok(()) };
        let alike = |key: Option<(u32, i64)>| key == Some((stream, timestamp));
        let cursor = self.cursors[slot].as_mut().expect("the heap names open cursors");
        let row = cursor.row;
        cursor.advance();
        let next = cursor.key();
        let among_equals = alike(next)
            || alike(self.heap.peek().map(|Reverse((s, t, ..))| (*s, *t)))
            || self.seen.is_at(stream, timestamp);
        let line = cursor.lines.line(row);
        let fresh =
            !among_equals || self.seen.insert((stream, timestamp), line, cursor.narrow.metadata_of(row));
        if fresh {
            let level = cursor.narrow.level(row);
            let writer = self.writer.as_mut().expect("the writer is there until the merge is finished");
            let written =
                writer.push_row(Row { stream, timestamp, level, line }, cursor.narrow.metadata_of(row));
            let path = self.inputs[cursor.input].meta.path();
            written.map_err(|reason| Error::Damaged { path, reason: reason.to_string() })?;
        } else {
            self.counts.duplicates += 1;
        }
        match next {
            Some((stream, timestamp)) => self.heap.push(Reverse((stream, timestamp, input, slot))),
            None => self.cursors[slot] = None,
        }
        Ok(())
    }

    fn push_page(&mut self, page: PageRef, bytes: PageBytes) -> Result<(), Error> {
        let damaged = self.damaged(page);
        let PageBytes { narrow, lines } = bytes;
        let (filter, memory) = self.filters.take(page).unzip();
        let block = Arc::clone(&self.inputs[page.input]);
        let entry = &block.footer.pages()[page.page as usize];
        let ordinals = std::mem::take(&mut self.ordinals[page.input]);
        let pushed = self.writer().push_page(PageCopy { entry, lines, narrow, filter, ordinals: &ordinals });
        self.ordinals[page.input] = ordinals;
        self.counts.moved_pages += 1;
        // The writer has the filter now.
        drop(memory);
        pushed.map_err(damaged)
    }

    fn finish(&mut self) -> Result<Step<Needed>, Error> {
        let writer =
            self.writer.take().ok_or_else(|| Error::Internal("a merge was finished twice".to_owned()))?;
        let mut output = Vec::new();
        let summary = writer.finish(&mut output).map_err(|error| Error::Internal(error.to_string()))?;
        let before: u64 = self.inputs.iter().map(|block| block.meta.rows).sum();
        self.counts.check(before, summary.rows)?;
        Ok(Step::Finished(output, summary, self.counts))
    }
}

impl Merge for Merger {
    type Page = Needed;
    type Bytes = Supplied;

    fn step(&mut self) -> Result<Step<Needed>, Error> {
        loop {
            if let Some(output) = self.output() {
                return Ok(Step::Output(output));
            }
            if let Some(page) = self.page_due() {
                let Some(bytes) = self.supplied.take() else {
                    return Ok(Step::Need(Needed::Page(page)));
                };
                self.merged.pop_front();
                self.open(page, bytes)?;
            } else if !self.heap.is_empty() {
                self.write_row()?;
            } else if let Some(&page) = self.moved.front() {
                if let Some(request) = self.filters.missing(&self.inputs, &self.moved, &self.budget)? {
                    return Ok(Step::Need(Needed::Filters(request)));
                }
                let Some(bytes) = self.supplied.take() else {
                    return Ok(Step::Need(Needed::Page(page)));
                };
                self.moved.pop_front();
                self.push_page(page, bytes)?;
            } else {
                return self.finish();
            }
        }
    }

    fn supply(&mut self, supplied: Supplied) {
        match supplied {
            Supplied::Page(bytes) => self.supplied = Some(bytes),
            Supplied::Filters(read) => self.filters.add(read),
        }
    }
}

impl Cursor {
    /// Stream and time of the current row.
    fn key(&self) -> Option<(u32, i64)> {
        let run = self.narrow.runs.get(self.run)?;
        Some((run.stream, self.narrow.timestamps[self.row]))
    }

    fn advance(&mut self) {
        self.row += 1;
        if self.narrow.runs.get(self.run).is_some_and(|run| self.row >= run.end as usize) {
            self.run += 1;
            // There may be deleted rows between runs.
            self.row = self.narrow.runs.get(self.run).map_or(self.row, |run| run.start as usize);
        }
    }
}

/// The distinct rows of one stream and instant.
#[derive(Default)]
struct Seen {
    at: Option<(u32, i64)>,
    rows: Vec<Vec<u8>>,
}

impl Seen {
    fn is_at(&self, stream: u32, timestamp: i64) -> bool {
        self.at == Some((stream, timestamp))
    }

    /// Whether the row is new at its stream and instant.
    fn insert<'a>(
        &mut self,
        at: (u32, i64),
        line: &[u8],
        metadata: impl Iterator<Item = (&'a [u8], &'a [u8])>,
    ) -> bool {
        if self.at != Some(at) {
            self.at = Some(at);
            self.rows.clear();
        }
        // Lengths are included, so that different rows have different bytes.
        let mut row = (line.len() as u64).to_le_bytes().to_vec();
        row.extend_from_slice(line);
        for (name, value) in metadata {
            row.extend_from_slice(&(name.len() as u64).to_le_bytes());
            row.extend_from_slice(name);
            row.extend_from_slice(&(value.len() as u64).to_le_bytes());
            row.extend_from_slice(value);
        }
        let fresh = !self.rows.contains(&row);
        if fresh {
            self.rows.push(row);
        }
        fresh
    }
}

/// For each stream of a block its position in the merged list, or [`NO_STREAM`].
fn ordinals_in(block: &OpenLogs, deletes: &Touched, streams: &[Arc<Labels>]) -> Vec<u32> {
    let table = block.footer.streams();
    let position = |n: u32| {
        if !deletes.keeps(n, table.stats(n)) {
            return NO_STREAM;
        }
        let labels = table.labels(n);
        let at = streams.binary_search_by(|s| sandur_format::log_block::compare_streams(s, &labels));
        at.expect("the merged list contains every stream that stays") as u32
    };
    (0..table.len() as u32).map(position).collect()
}

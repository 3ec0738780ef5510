//! Pages and counts of blocks as items of a scan: fetched bytes and their decoding.
//!
//! Damage becomes a warning and an empty page, because the rest of the answer is still useful.

use std::collections::HashMap;
use std::sync::Arc;

use bytes::Bytes;
use roaring::RoaringBitmap;
use sandur_format::log_block::{PageEntry, Wanted};
use sandur_format::shapes::ShapedLines;
use sandur_memory::Reservation;
use sandur_model::{
    LineAutomaton, LineColumn, LineReducer, LogPage, MINUTE_NS, StreamRun, Suspect, TimeRange,
};
use sandur_query::{
    Columns, CountsTask, Error, MinuteCount, PageTask, QueryContext, QueryStats, StreamCounts,
};

use crate::blocks::reader::BlockReader;
use crate::error::ReadError;
use crate::logs::block::{BlockCounts, OpenLogs};
use crate::logs::mask::Mask;
use crate::logs::suspects::Suspects;

/// Streams of a block that may have rows stored twice, by ordinal.
pub type SuspectsByOrdinal = HashMap<u32, Suspect, foldhash::fast::RandomState>;

/// What a query reads of one block.
pub struct BlockSelection {
    /// The block.
    pub block: Arc<OpenLogs>,
    /// Streams whose rows are read from pages.
    pub streams: RoaringBitmap,
    /// Streams that may have rows stored twice, by ordinal.
    pub suspects: SuspectsByOrdinal,
    /// The requested times.
    pub range: TimeRange,
    /// The requested columns.
    pub columns: Columns,
    /// The rules that hide rows of the pages.
    pub mask: Option<Arc<Mask>>,
    /// The context of the query.
    pub context: QueryContext,
    /// The memory of these sets.
    pub _memory: Reservation,
}

/// A page of a block whose bytes were fetched.
pub struct BlockPage {
    /// What the query reads of the block.
    pub selection: Arc<BlockSelection>,
    /// Position in the page directory.
    pub index: u32,
    /// The narrow columns as stored.
    pub narrow: Bytes,
    /// The lines, if they are requested.
    pub lines: PageLines,
    /// Timestamps of the page's rows, once decoded. Lines are stored relative to them.
    pub timestamps: Vec<i64>,
    /// The reservation of the stored bytes.
    pub memory: Reservation,
}

/// How far a page's lines are decoded.
pub enum PageLines {
    /// They are not requested, or were handed out.
    None,
    /// The stored bytes.
    Stored(Bytes),
    /// Opened for reading parts of them.
    Open(Box<ShapedLines>),
}

impl BlockPage {
    fn entry(&self) -> &PageEntry {
        &self.selection.block.footer.pages()[self.index as usize]
    }

    fn wanted(&self) -> Wanted {
        Wanted { metadata: self.selection.columns.metadata }
    }

    fn decode(&mut self) -> Result<LogPage, sandur_format::Error> {
        let entry = self.entry();
        if let PageLines::Stored(lines) = &self.lines {
            // Checked now, so that a page with damaged lines has no rows instead of some of them.
            entry.lines.check("line column", lines)?;
        }
        let page = entry.decode_narrow(&self.narrow, self.wanted())?;
        if !matches!(self.lines, PageLines::None) {
            self.timestamps.clone_from(&page.timestamps);
        }
        let selection = &self.selection;
        let mut runs = Vec::new();
        for run in page.runs.iter().filter(|run| selection.streams.contains(run.stream)) {
            let times = &page.timestamps[run.start as usize..run.end as usize];
            let start = run.start + times.partition_point(|&t| t < selection.range.start) as u32;
            let end = run.start + times.partition_point(|&t| t < selection.range.end) as u32;
            if start < end {
                let labels = selection.block.footer.streams().labels(run.stream);
                let suspect = selection.suspects.get(&run.stream).copied();
                runs.push(StreamRun { labels, start, end, suspect });
            }
        }
        Ok(LogPage {
            runs,
            timestamps: page.timestamps,
            levels: page.levels,
            metadata: page.metadata,
            lines: None,
        })
    }
}

impl BlockPage {
    /// Opens the lines for reading parts of them. Returns false if they are stored in one piece.
    fn open(&mut self) -> Result<bool, sandur_format::Error> {
        let stored = match &self.lines {
            PageLines::None => return Ok(false),
            PageLines::Open(_) => return Ok(true),
            PageLines::Stored(stored) => stored,
        };
        let Some(open) = self.entry().open_lines(stored)? else { return Ok(false) };
        self.count_lines();
        self.lines = PageLines::Open(Box::new(open));
        Ok(true)
    }

    /// Counts the lines as read, whether or not they are decoded.
    fn count_lines(&self) {
        let bytes = self.entry().raw_bytes + u64::from(self.entry().rows);
        QueryStats::add(&self.selection.context.stats().decompressed_bytes, bytes);
    }

    fn damaged(&self, reason: sandur_format::Error) -> Error {
        Error::Corrupt(ReadError::damaged(&self.selection.block.meta, reason).to_string())
    }
}

impl PageTask for BlockPage {
    fn bounds(&self) -> (i64, i64) {
        let (entry, range) = (self.entry(), self.selection.range);
        (entry.min_ts.max(range.start), entry.max_ts.min(range.end.saturating_sub(1)))
    }

    fn memory_bytes(&self) -> u64 {
        let lines = match self.lines {
            PageLines::None => 0,
            _ => self.entry().line_memory_bytes(),
        };
        lines + self.entry().narrow_memory_bytes(self.wanted()) + u64::from(self.entry().rows) * 8
    }

    fn narrow(&mut self) -> Result<LogPage, Error> {
        let stats = self.selection.context.stats();
        QueryStats::add(&stats.pages_read, 1);
        QueryStats::add(&stats.compressed_bytes, self.memory.bytes());
        let page = self.decode().unwrap_or_else(|reason| {
            let warning = ReadError::damaged(&self.selection.block.meta, reason);
            self.selection.context.warn(warning.to_string());
            LogPage::default()
        });
        QueryStats::add(&self.selection.context.stats().metadata_bytes, page.metadata_bytes());
        Ok(page)
    }

    fn lines(&mut self) -> Result<LineColumn, Error> {
        let lines = match std::mem::replace(&mut self.lines, PageLines::None) {
            PageLines::None => return Err(not_asked_for()),
            PageLines::Stored(stored) => {
                self.count_lines();
                let lines = self.entry().decode_lines(&stored, &self.timestamps);
                self.memory.shrink(stored.len() as u64);
                lines
            }
            PageLines::Open(mut open) => open.lines(&self.timestamps),
        };
        lines.map_err(|reason| self.damaged(reason))
    }

    fn retain(&mut self, test: &LineAutomaton, negated: bool, alive: &mut [bool]) -> Result<bool, Error> {
        let damaged = |page: &Self, reason| Err(page.damaged(reason));
        match self.open() {
            Ok(true) => {}
            Ok(false) => return Ok(false),
            Err(reason) => return damaged(self, reason),
        }
        let PageLines::Open(open) = &mut self.lines else { return Err(not_asked_for()) };
        match open.retain(test, negated, &self.timestamps, alive) {
            Ok(told) => Ok(told),
            Err(reason) => damaged(self, reason),
        }
    }

    fn lines_of(&mut self, wanted: &[bool]) -> Result<LineColumn, Error> {
        match self.open() {
            Ok(true) => {}
            Ok(false) => return self.lines(),
            Err(reason) => return Err(self.damaged(reason)),
        }
        match std::mem::replace(&mut self.lines, PageLines::None) {
            PageLines::Open(mut open) => {
                open.lines_of(&self.timestamps, wanted).map_err(|reason| self.damaged(reason))
            }
            _ => Err(not_asked_for()),
        }
    }

    fn reduced(&mut self, reducer: &dyn LineReducer, wanted: &[bool]) -> Result<Option<LineColumn>, Error> {
        match self.open() {
            Ok(true) => {}
            Ok(false) => return Ok(None),
            Err(reason) => return Err(self.damaged(reason)),
        }
        let PageLines::Open(open) = &mut self.lines else { return Err(not_asked_for()) };
        match open.reduced(reducer, &self.timestamps, wanted) {
            Ok(lines) => Ok(lines),
            Err(reason) => Err(self.damaged(reason)),
        }
    }
}

fn not_asked_for() -> Error {
    Error::Internal("lines were not requested".to_owned())
}

/// A page of a head, with marks on the streams that may have rows stored twice.
pub struct SuspectPage {
    /// The page without marks.
    pub inner: Box<dyn PageTask>,
    /// The suspect streams of the cluster.
    pub suspects: Arc<Suspects>,
    /// The context of the query.
    pub context: QueryContext,
}

impl PageTask for SuspectPage {
    fn bounds(&self) -> (i64, i64) {
        self.inner.bounds()
    }

    fn memory_bytes(&self) -> u64 {
        self.inner.memory_bytes()
    }

    fn narrow(&mut self) -> Result<LogPage, Error> {
        let mut page = self.inner.narrow()?;
        if !self.suspects.is_empty() {
            for run in &mut page.runs {
                run.suspect = self.suspects.get(&run.labels.stream_id()).copied();
            }
        }
        let stats = self.context.stats();
        QueryStats::add(&stats.head_pages, 1);
        QueryStats::add(&stats.head_lines, page.rows() as u64);
        QueryStats::add(&stats.head_metadata_bytes, page.metadata_bytes());
        Ok(page)
    }

    fn lines(&mut self) -> Result<LineColumn, Error> {
        let lines = self.inner.lines()?;
        QueryStats::add(&self.context.stats().head_bytes, lines.bytes.len() as u64);
        Ok(lines)
    }

    fn retain(&mut self, test: &LineAutomaton, negated: bool, alive: &mut [bool]) -> Result<bool, Error> {
        self.inner.retain(test, negated, alive)
    }

    fn lines_of(&mut self, wanted: &[bool]) -> Result<LineColumn, Error> {
        let lines = self.inner.lines_of(wanted)?;
        QueryStats::add(&self.context.stats().head_bytes, lines.bytes.len() as u64);
        Ok(lines)
    }

    fn reduced(&mut self, reducer: &dyn LineReducer, wanted: &[bool]) -> Result<Option<LineColumn>, Error> {
        self.inner.reduced(reducer, wanted)
    }
}

/// The counts of streams of a block whose rows are unique and not hidden.
pub struct BlockCountsTask {
    /// Decodes the counts.
    pub reader: BlockReader,
    /// The block.
    pub block: Arc<OpenLogs>,
    /// The streams.
    pub streams: RoaringBitmap,
    /// The requested full minutes.
    pub range: TimeRange,
    /// The context of the query.
    pub context: QueryContext,
    /// The counts, if they are cached.
    pub known: Option<Arc<BlockCounts>>,
}

impl CountsTask for BlockCountsTask {
    fn memory_bytes(&self) -> u64 {
        let decoded = if self.known.is_some() {
            0
        } else {
            self.block.footer.minute_counts().len() as u64 * size_of::<MinuteCount>() as u64
        };
        decoded + self.streams.len() * size_of::<StreamCounts>() as u64
    }

    fn decode(self: Box<Self>) -> Result<Vec<StreamCounts>, Error> {
        let counts = match &self.known {
            Some(counts) => Arc::clone(counts),
            None => match self.reader.decode_counts(&self.block) {
                Ok(counts) => counts,
                Err(damage) => {
                    self.context.warn(damage.to_string());
                    return Ok(Vec::new());
                }
            },
        };
        // Minute `m` is inside if (m - 1) * 60 s < t <= m * 60 s is; the range consists of full minutes.
        let first = (self.range.start.saturating_sub(1)).div_euclid(MINUTE_NS) + 1;
        let last = (self.range.end.saturating_sub(1)).div_euclid(MINUTE_NS);
        let mut streams = Vec::with_capacity(self.streams.len() as usize);
        for run in counts.runs.iter().filter(|run| self.streams.contains(run.stream)) {
            let minutes = &counts.minutes[run.counts.clone()];
            let from = minutes.partition_point(|m| i64::from(m.minute) < first);
            let to = minutes.partition_point(|m| i64::from(m.minute) <= last);
            if from < to {
                let (from, to) = (run.counts.start + from, run.counts.start + to);
                let labels = self.block.footer.streams().labels(run.stream);
                let minutes = Arc::clone(&counts.minutes);
                streams.push(StreamCounts { labels, level: run.level, minutes, from, to });
            }
        }
        Ok(streams)
    }
}

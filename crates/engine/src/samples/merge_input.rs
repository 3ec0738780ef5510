//! An input of a merge: the series of a block in order, each with its samples.
//!
//! **Invariants.** The stored bytes of one group are in memory, and the decoded pages of it that have
//! runs of the current or later series; a page is freed with the last of its runs. If a series continues
//! in the next group, its samples are carried over. All of this memory is reserved, so only the memory
//! for merges limits the number of inputs.

use std::sync::Arc;

use bytes::Bytes;
use sandur_format::Error as FormatError;
use sandur_format::sample_block::index::PAGE_SERIES;
use sandur_format::sample_block::{GroupEntry, GroupTables, OpenGroup, PageEntry, SamplePage, TimeTable};
use sandur_format::stamp::Stamp;
use sandur_memory::{MemoryBudget, Reservation};

use super::OpenSamples;
use super::hidden::HiddenSamples;
use super::index::HeldPage;
use super::join::{
    Columns, FloatPart, HistogramPart, JoinedFloats, JoinedHistograms, Lists, RowStamps, Stays, join_floats,
    join_histograms, visible,
};
use crate::error::{Error, ReadError};

/// The stored bytes of a group, and the lists of times that its pages need.
pub(crate) struct GroupBytes {
    pub(super) group: Bytes,
    pub(super) times: TimeTable,
    /// The reservation for both.
    pub(super) memory: Reservation,
}

/// One of the blocks that are merged.
pub(super) struct Input {
    pub(super) block: Arc<OpenSamples>,
    pub(super) hidden: HiddenSamples,
    /// The page with the labels of the current series and its neighbours.
    pub(super) labels: Option<HeldPage>,
    /// The position of the next group to be read.
    next_group: usize,
    open: Option<Open>,
    /// The samples of the current series from groups before the open one.
    carried: Option<Carried>,
}

/// What an input did while it advanced.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Passed {
    /// Number of decoded pages.
    pub(super) pages: u64,
    /// Number of samples that were left out because they are hidden.
    pub(super) hidden: u64,
}

/// An open group with some decoded pages.
struct Open {
    group: OpenGroup,
    tables: Arc<GroupTables>,
    times: TimeTable,
    /// The first page that is not decoded. Its series are not before the current one.
    next_page: usize,
    /// The runs of visible series in decoded pages, by series and time.
    runs: Vec<OpenRun>,
    /// The position of the first remaining run.
    at: usize,
    /// Bytes of the group without its pages and tables.
    bytes: u64,
    memory: Reservation,
}

/// The samples of a series in a page.
struct OpenRun {
    series: u32,
    page: Arc<DecodedPage>,
    run: usize,
}

/// A decoded page. It is freed when the last of its runs is merged.
struct DecodedPage {
    page: SamplePage,
    _memory: Reservation,
}

/// Samples of a series that continues in the next group.
#[derive(Default)]
struct Carried {
    series: u32,
    times: Arc<Vec<i64>>,
    values: Vec<f64>,
    starts: Vec<i64>,
    stamps: Vec<Stamp>,
    histograms: JoinedHistograms,
    _memory: Option<Reservation>,
}

/// The samples of one series from all inputs.
#[derive(Default)]
pub(super) struct Parts<'a> {
    pub(super) floats: Vec<FloatPart<'a>>,
    pub(super) histograms: Vec<HistogramPart<'a>>,
    pub(super) hidden: u64,
}

impl Open {
    fn new(entry: &GroupEntry, bytes: GroupBytes) -> Result<Result<Self, FormatError>, Error> {
        let GroupBytes { group, times, mut memory } = bytes;
        let bytes = memory.bytes() + entry.head_memory_bytes();
        memory.resize(bytes)?;
        let opened = OpenGroup::open(entry, group).map(|group| {
            let tables = group.head().tables();
            Self { group, tables, times, next_page: 0, runs: Vec::new(), at: 0, bytes, memory }
        });
        Ok(opened)
    }

    fn series(&self) -> Option<u32> {
        self.runs.get(self.at).map(|run| run.series)
    }

    /// The runs of the current series.
    fn current(&self) -> &[OpenRun] {
        let rest = &self.runs[self.at.min(self.runs.len())..];
        let series = rest.first().map(|run| run.series);
        &rest[..rest.partition_point(|run| Some(run.series) == series)]
    }

    /// The next page that must be decoded before the current series is complete.
    fn page_due(&self) -> Option<PageEntry> {
        let page = self.group.head().pages().get(self.next_page)?;
        self.series().is_none_or(|series| page.first_series <= series).then_some(*page)
    }

    /// Decodes pages until the current series is complete.
    fn fill(
        &mut self,
        hidden: &HiddenSamples,
        (budget, passed): (&MemoryBudget, &mut Passed),
    ) -> Result<Result<(), FormatError>, Error> {
        while let Some(entry) = self.page_due() {
            self.next_page += 1;
            if hidden.are_gone(entry.first_series..=entry.last_series, (entry.min_ms, entry.max_ms)) {
                passed.hidden += u64::from(entry.rows);
                continue;
            }
            self.runs.drain(..std::mem::take(&mut self.at));
            let memory = budget.reserve(entry.memory_bytes())?;
            let stored = self.group.page_bytes(&entry);
            let mut decoder = self.group.head().decoder_with(Arc::clone(&self.tables));
            let page = match decoder.decode(&entry, &stored, &self.times) {
                Ok(page) => page,
                Err(damage) => return Ok(Err(damage)),
            };
            passed.pages += 1;
            let page = Arc::new(DecodedPage { page, _memory: memory });
            for (number, run) in page.page.runs.iter().enumerate() {
                match hidden.gone.contains(run.series) {
                    true => passed.hidden += run.times.len() as u64,
                    false => {
                        let page = Arc::clone(&page);
                        self.runs.push(OpenRun { series: run.series, page, run: number });
                    }
                }
            }
            self.runs.sort_by_key(|run| run.series); // stable: the runs of a series stay ordered by time
            self.memory.resize(self.bytes + self.tables.memory_bytes())?;
        }
        Ok(Ok(()))
    }

    fn add<'a>(&'a self, holder: usize, hidden: &HiddenSamples, parts: &mut Parts<'a>) {
        for OpenRun { series, page, run } in self.current() {
            let page = &page.page;
            let run = &page.runs[*run];
            let mut seen = 0;
            for rows in visible(&run.times, 0..run.times.len(), hidden.times_of(*series)) {
                seen += rows.len();
                let stored = run.start as usize + rows.start..run.start as usize + rows.end;
                let starts = page.starts.get(stored.clone()).unwrap_or_default();
                let stamps = RowStamps::of_list(run.stamps.as_ref(), rows.start);
                if page.histograms.is_empty() {
                    let (times, values) = (&run.times, &page.values[stored]);
                    parts.floats.push(FloatPart { holder, times, values, starts, stamps, rows });
                } else {
                    let integers = page.integers.get(stored.clone()).unwrap_or_default();
                    let (times, histograms) = (&run.times[rows], &page.histograms[stored]);
                    let part = HistogramPart { holder, times, histograms, integers, starts, stamps };
                    parts.histograms.push(part);
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
            let (rows, stamps) = (0..times.len(), RowStamps::each(&self.stamps));
            parts.floats.push(FloatPart { holder, times, rows, values, starts, stamps });
        }
        let JoinedHistograms { times, histograms, integers, starts, stamps } = &self.histograms;
        if !times.is_empty() {
            let stamps = RowStamps::each(stamps);
            parts.histograms.push(HistogramPart { holder, times, histograms, integers, starts, stamps });
        }
    }
}

impl Input {
    pub(super) fn new(block: &Arc<OpenSamples>, hidden: HiddenSamples) -> Self {
        let (block, labels, open, carried) = (Arc::clone(block), None, None, None);
        Self { block, hidden, labels, next_group: 0, open, carried }
    }

    /// The current series. All its samples are available once no group is due.
    pub(super) fn series(&self) -> Option<u32> {
        let carried = self.carried.as_ref().map(|carried| carried.series);
        carried.or_else(|| self.open.as_ref().and_then(Open::series))
    }

    /// The page of labels that must be read before the labels of the current series are known.
    pub(super) fn page_due(&self) -> Option<u32> {
        let series = self.series()?;
        let holds = self.labels.as_ref().is_some_and(|held| held.page.holds(series));
        (!holds).then_some(series / PAGE_SERIES)
    }

    /// The labels of the current series, once they are read.
    pub(super) fn pairs(&self) -> Option<impl Iterator<Item = (&str, &str)> + Clone> {
        let series = self.series()?;
        self.labels.as_ref().filter(|held| held.page.holds(series)).map(|held| held.page.pairs(series))
    }

    /// Returns the group that must be read before the next series is complete. Groups without a visible
    /// series are counted and skipped.
    pub(super) fn group_due(
        &mut self,
        budget: &MemoryBudget,
        passed: &mut Passed,
    ) -> Result<Option<usize>, Error> {
        loop {
            if let Some(open) = &mut self.open {
                let filled = open.fill(&self.hidden, (budget, passed))?;
                filled.map_err(|reason| ReadError::damaged(&self.block.meta, reason))?;
            }
            if let Some(open) = &self.open {
                if open.series().is_none() {
                    self.open = None;
                } else if self.goes_on(open) {
                    passed.hidden += self.carry(budget)?;
                } else {
                    return Ok(None);
                }
            }
            let Some(entry) = self.block.footer.groups().get(self.next_group) else { return Ok(None) };
            if self.carried.as_ref().is_some_and(|carried| carried.series != entry.first_series) {
                return Ok(None);
            }
            let times = (entry.min_ms, entry.max_ms);
            if !self.hidden.are_gone(entry.first_series..=entry.last_series, times) {
                return Ok(Some(self.next_group));
            }
            passed.hidden += entry.rows;
            self.next_group += 1;
        }
    }

    /// Opens the group that is due.
    pub(super) fn open(&mut self, bytes: GroupBytes) -> Result<(), Error> {
        let opened = Open::new(&self.block.footer.groups()[self.next_group], bytes)?;
        self.open = Some(opened.map_err(|reason| ReadError::damaged(&self.block.meta, reason))?);
        self.next_group += 1;
        Ok(())
    }

    /// Adds the samples of the current series.
    pub(super) fn add<'a>(&'a self, holder: usize, parts: &mut Parts<'a>) {
        self.carried.iter().for_each(|carried| carried.add(holder, parts));
        if let Some(open) = self.open.as_ref().filter(|open| open.series() == self.series()) {
            open.add(holder, &self.hidden, parts);
        }
    }

    /// Advances past the current series.
    pub(super) fn pass(&mut self) {
        let Some(series) = self.series() else { return };
        self.carried = None;
        if let Some(open) = self.open.as_mut().filter(|open| open.series() == Some(series)) {
            open.at += open.current().len();
        }
    }

    /// Whether the current series of the open group continues in the next group.
    fn goes_on(&self, open: &Open) -> bool {
        let next = self.block.footer.groups().get(self.next_group);
        let (Some(series), Some(next)) = (open.series(), next) else { return false };
        let is_last = open.at + open.current().len() == open.runs.len();
        let has_more = open.next_page < open.group.head().pages().len();
        next.first_series == series && is_last && !has_more
    }

    /// Adds the samples of the current series, which continues in the next group, to the carried ones.
    fn carry(&mut self, budget: &MemoryBudget) -> Result<u64, Error> {
        let Some(open) = self.open.take() else { return Ok(0) };
        let Some(series) = open.series() else { return Ok(0) };
        let before = self.carried.take();
        let mut parts = Parts::default();
        before.iter().for_each(|carried| carried.add(0, &mut parts));
        open.add(0, &self.hidden, &mut parts);
        let hidden = parts.hidden;
        // Within one block each instant occurs once.
        let columns = Columns { starts: true, stamps: self.block.footer.stamps().is_some() };
        let stamp = if columns.stamps { size_of::<Stamp>() as u64 } else { 0 };
        let JoinedFloats { times, values, starts, stamps } =
            join_floats(parts.floats, &mut Lists::default(), columns, || Stays::First);
        let histograms = join_histograms(&parts.histograms, columns);
        let of_histograms: u64 =
            histograms.histograms.iter().map(|one| one.memory_bytes() + 24 + stamp).sum();
        let memory = Some(budget.reserve(times.len() as u64 * (24 + stamp) + of_histograms)?);
        let times = Arc::new(times.to_vec());
        self.carried = Some(Carried { series, times, values, starts, stamps, histograms, _memory: memory });
        Ok(hidden)
    }
}
